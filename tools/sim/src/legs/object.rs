//! The hand-off object of vLLM, `kv_transfer_params`: what a prefill server answers, and what a
//! decode server makes of what it is given.

use serde::Deserialize;

use crate::document::{escaped, put};
use crate::legs::settings::{Flow, RoleSettings};

/// What a request says of its hand-off. What is missing or of another type is `None`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Given {
    pub(crate) do_remote_decode: Option<bool>,
    pub(crate) do_remote_prefill: Option<bool>,
    pub(crate) remote_block_ids: Option<serde_json::Value>,
    pub(crate) remote_engine_id: Option<serde_json::Value>,
    pub(crate) remote_request_id: Option<serde_json::Value>,
    pub(crate) remote_host: Option<serde_json::Value>,
    pub(crate) remote_port: Option<serde_json::Value>,
    pub(crate) remote_num_tokens: Option<serde_json::Value>,
}

impl Given {
    /// What the id in it says of when the prompt was computed, if all is there that a pull needs.
    pub(crate) fn pulled(&self) -> Option<&str> {
        let blocks = self.remote_block_ids.as_ref()?.as_array()?;
        let first = blocks.first()?;
        let any = first.as_array().map_or(first.is_u64(), |ids| !ids.is_empty());
        self.remote_engine_id.as_ref()?.as_str()?;
        let (_, id) = (any.then(|| self.address())??, self.remote_request_id.as_ref()?.as_str()?);
        Some(id)
    }

    /// Where to ask and for which id, if all is there that a push needs.
    pub(crate) fn pushed(&self) -> Option<((String, u16), &str)> {
        self.remote_engine_id.as_ref()?.as_str()?;
        let id = self.remote_request_id.as_ref()?.as_str()?;
        // An id that cannot be a header cannot be the other server's either.
        let is_header = !id.is_empty() && id.chars().all(|c| c.is_ascii() && !c.is_ascii_control());
        Some((self.address()?, is_header.then_some(id)?))
    }

    /// Where the prefill server is found beside its requests.
    pub(crate) fn address(&self) -> Option<(String, u16)> {
        let port = u16::try_from(self.remote_port.as_ref()?.as_u64()?).ok()?;
        Some((self.remote_host.as_ref()?.as_str()?.to_owned(), port))
    }
}

/// The id of a prompt computed at `at_ns` (CLOCK_MONOTONIC) for request `number`.
///
/// A decode server of another process on the same host reads its age from it.
pub(crate) fn minted(number: u64, at_ns: u64) -> String {
    format!("cmpl-{number:010}-0-{at_ns:016x}")
}

/// When a prompt was computed, by an id that [`minted`] made.
pub(crate) fn minted_at(id: &str) -> Option<u64> {
    let (_, digits) = id.strip_prefix("cmpl-")?.rsplit_once("-0-")?;
    let is_ours = digits.len() == 16 && !id.contains(char::is_control);
    is_ours.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// Writes the object for a prompt of so many tokens.
pub(crate) fn write(
    out: &mut Vec<u8>,
    role: &RoleSettings,
    id: &str,
    side_port: u16,
    [number, tokens]: [u64; 2],
) {
    out.extend_from_slice(br#"{"do_remote_prefill":true,"do_remote_decode":false,"#);
    out.extend_from_slice(br#""remote_block_ids":[["#);
    let blocks = tokens.div_ceil(u64::from(role.block_tokens)).max(1);
    let blocks = blocks.max(u64::from(role.object_blocks));
    // Somewhere in a cache of 65,536 blocks, in order.
    let first = number.wrapping_mul(7919) % 65_536;
    for block in 0..blocks {
        let comma = if block == 0 { "" } else { "," };
        put(out, format_args!("{comma}{}", (first + block) % 65_536));
    }
    let (engine, id) = (escaped(&role.engine_id), escaped(id));
    put(out, format_args!(r#"]],"remote_engine_id":"{engine}","remote_request_id":"{id}","#));
    put(out, format_args!(r#""remote_host":"127.0.0.1","remote_port":{side_port},"#));
    out.extend_from_slice(br#""tp_size":1,"dcp_size":1,"pp_size":1,"#);
    put(out, format_args!(r#""remote_num_tokens":{tokens},"remote_blocks_expiry_time":null,"#));
    let mode = if role.flow == Flow::VllmPush { "push" } else { "pull" };
    put(out, format_args!(r#""remote_registration_generation":0,"transfer_mode":"{mode}"}}"#));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(role: &RoleSettings, tokens: u64) -> String {
        let mut out = Vec::new();
        write(&mut out, role, &minted(7, 99), 5600, [7, tokens]);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_object_grows_with_the_prompt_and_is_read_back() {
        let role = RoleSettings::default();
        let object: serde_json::Value = serde_json::from_str(&written(&role, 33)).unwrap();
        assert_eq!(object["remote_block_ids"][0].as_array().unwrap().len(), 3);
        assert_eq!((&object["transfer_mode"], &object["tp_size"]), (&"pull".into(), &1.into()));
        assert!(object["remote_blocks_expiry_time"].is_null());
        let given: Given = serde_json::from_value(object).unwrap();
        assert_eq!(given.pulled().and_then(minted_at), Some(99));
        assert_eq!(given.address(), Some(("127.0.0.1".to_owned(), 5600)));
        let big = RoleSettings { object_blocks: 8192, ..role };
        assert!(written(&big, 33).len() > 40_000);
    }

    #[test]
    fn what_a_pull_needs_is_asked_for() {
        let whole: serde_json::Value =
            serde_json::from_str(&written(&RoleSettings::default(), 3)).unwrap();
        for key in [
            "remote_block_ids",
            "remote_engine_id",
            "remote_request_id",
            "remote_host",
            "remote_port",
        ] {
            for value in [serde_json::Value::Null, true.into()] {
                let mut object = whole.clone();
                object[key] = value;
                let given: Given = serde_json::from_value(object).unwrap();
                assert_eq!(given.pulled(), None, "{key}");
            }
        }
        assert_eq!(minted_at("cmpl-0000000007-0-63"), None);
        assert_eq!(minted_at("some-other-id"), None);
    }
}
