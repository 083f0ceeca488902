//! What a router makes of a request: the two bodies that it asks with.

use serde_json::{Map, Value, json};

/// A request's body.
pub(crate) type Fields = Map<String, Value>;

/// What a prefill server of vLLM is asked.
pub(crate) fn prefill(body: &Fields) -> Fields {
    let mut body = body.clone();
    for key in ["stream_options", "min_tokens", "min_completion_tokens"] {
        body.remove(key);
    }
    body.insert("stream".into(), false.into());
    body.insert("max_tokens".into(), 1.into());
    if body.contains_key("max_completion_tokens") {
        body.insert("max_completion_tokens".into(), 1.into());
    }
    let params = json!({"do_remote_decode": true, "do_remote_prefill": false,
        "remote_engine_id": null, "remote_block_ids": null, "remote_host": null,
        "remote_port": null});
    body.insert("kv_transfer_params".into(), params);
    body
}

/// What a decode server is asked once the prefill server has answered with this object.
pub(crate) fn pulling(body: &Fields, object: Option<Value>) -> Fields {
    let mut body = body.clone();
    body.extend(object.map(|object| ("kv_transfer_params".to_owned(), object)));
    body
}

/// What a decode server is asked to which the prefill server of this engine pushes.
pub(crate) fn pushed(body: &Fields, engine_id: &str, side: (&str, u16), id: &str) -> Fields {
    let params = json!({"do_remote_decode": false, "do_remote_prefill": true,
        "remote_engine_id": engine_id, "remote_host": side.0, "remote_port": side.1,
        "tp_size": 1, "pp_size": 1, "remote_request_id": id});
    pulling(body, Some(params))
}

/// What both servers of SGLang are asked.
pub(crate) fn bootstrapped(body: &Fields, side: (&str, u16), room: u64) -> Fields {
    let mut body = body.clone();
    body.insert("bootstrap_host".into(), side.0.into());
    body.insert("bootstrap_port".into(), side.1.into());
    body.insert("bootstrap_room".into(), room.into());
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefill_server_is_asked_for_one_token_in_one_piece() {
        let body = json!({"prompt": "a", "stream": true, "max_tokens": 9, "min_tokens": 9,
            "max_completion_tokens": 9, "stream_options": {}, "temperature": 0.5});
        let body = prefill(body.as_object().unwrap());
        assert_eq!((&body["max_tokens"], &body["max_completion_tokens"]), (&json!(1), &json!(1)));
        assert_eq!((&body["stream"], &body["temperature"]), (&json!(false), &json!(0.5)));
        assert!(!body.contains_key("min_tokens") && !body.contains_key("stream_options"));
        assert_eq!(body["kv_transfer_params"]["do_remote_decode"], true);
    }

    #[test]
    fn a_decode_server_is_given_what_it_needs() {
        let body = json!({"prompt": "a"});
        let body = body.as_object().unwrap();
        assert_eq!(pulling(body, None), *body);
        let params = &pushed(body, "e", ("h", 5), "id")["kv_transfer_params"];
        assert_eq!(
            (&params["remote_port"], &params["remote_request_id"]),
            (&5.into(), &"id".into())
        );
        assert_eq!(bootstrapped(body, ("h", 5), u64::MAX >> 1)["bootstrap_room"], u64::MAX >> 1);
    }
}
