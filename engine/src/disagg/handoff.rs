//! What the prefill server's answer hands over.

use serde::Deserialize;
use serde_json::value::RawValue;

/// Of a prefill server's answer the one member that is passed on.
#[derive(Deserialize)]
struct Handing<'a> {
    #[serde(borrow, default)]
    kv_transfer_params: Option<&'a RawValue>,
}

/// The hand-off object in a prefill server's answer, as it stands there; none if there is none, or
/// null.
#[must_use]
pub(crate) fn handed_over(document: &[u8]) -> Option<&[u8]> {
    let handing: Handing<'_> = serde_json::from_slice(document).ok()?;
    let object = handing.kv_transfer_params?.get();
    object.starts_with('{').then_some(object.as_bytes())
}

/// Whether a member of a body is one by which legs are told of each other: nobody else may set it.
#[must_use]
pub fn names_flow_member(name: &str) -> bool {
    matches!(name, "kv_transfer_params" | "bootstrap_host" | "bootstrap_port" | "bootstrap_room")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_is_lent_as_it_stands() {
        let answer = br#"{"id":"x","kv_transfer_params": {"a" : [1, 2]} ,"usage":{}}"#;
        assert_eq!(handed_over(answer).unwrap(), br#"{"a" : [1, 2]}"#);
        for none in [
            &br#"{"kv_transfer_params":null}"#[..],
            br#"{"id":"x"}"#,
            br#"{"kv_transfer_params":[1]}"#,
            br#"{"kv_transfer_params":{"a""#,
            b"",
            b"\xff",
        ] {
            assert_eq!(handed_over(none), None);
        }
    }
}
