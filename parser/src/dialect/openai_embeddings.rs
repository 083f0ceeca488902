//! `/v1/embeddings`: a document with a list of vectors, of which only the token counts are kept.

use serde::de::MapAccess;

use super::found::Found;
use super::lenient::{Fill, Length, Take, fill, raw, raw_string};
use super::openai::{Counts, fault, flat_fault};
use crate::event::Fault;

/// A list without vectors is no answer: then neither its counts nor its end are given.
pub(super) fn decode(json: &str) -> Result<Found<'_>, serde_json::Error> {
    let mut outer = Outer::default();
    fill(json, &mut outer)?;
    let fault = outer.error.or(flat_fault(outer.object, outer.message, outer.code));
    let done = outer.data.0 > 0;
    let usage = outer.counts.usage().filter(|_| done);
    Ok(Found { usage, fault, done, ..Found::default() })
}

#[derive(Default)]
struct Outer<'a> {
    data: Length,
    counts: Counts<'a>,
    error: Option<Fault<'a>>,
    object: &'a str,
    message: &'a str,
    code: &'a str,
}

impl<'de> Take<'de> for Outer<'de> {
    fn field<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "data" => map.next_value_seed(Fill(&mut self.data))?,
            "usage" => map.next_value_seed(Fill(&mut self.counts))?,
            "error" => self.error = fault(raw(map)?),
            "object" => self.object = raw_string(map)?,
            "message" => self.message = raw_string(map)?,
            "code" => self.code = raw(map)?,
            _ => ().field(name, map)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Dialect;
    use super::super::testing::document;

    fn read(json: &str) -> String {
        document(&Dialect::OpenaiEmbeddings, json).concat()
    }

    #[test]
    fn vectors_are_an_answer_with_its_counts() {
        let json = r#"{"object":"list","data":[{"index":0,"embedding":[0.5,-1e-3]},
            {"index":1,"embedding":"AAAAPw=="}],"usage":{"prompt_tokens":7,"total_tokens":7}}"#;
        assert_eq!(read(json), "tail 7>- done");
        assert_eq!(read(r#"{"data":[{"embedding":[0.5]}],"usage":null}"#), "tail done");
    }

    #[test]
    fn no_vectors_are_no_answer() {
        for json in [
            r#"{"object":"list","data":[],"usage":{"prompt_tokens":7}}"#,
            r#"{"usage":{"prompt_tokens":7}}"#,
            r#"{"data":null}"#,
            r#"{"data":"x"}"#,
            r#"{"data":{"embedding":[1]}}"#,
            r#"{"data":[1],"data":[]}"#,
            "[]",
            "7",
        ] {
            assert_eq!(read(json), "empty", "{json}");
        }
    }

    #[test]
    fn errors_outweigh_vectors() {
        let json = r#"{"data":[1],"error":{"message":"too long","code":400}}"#;
        assert_eq!(read(json), "fault <too long> 400");
        let flat = r#"{"object":"error","message":"too long","type":"BadRequest","code":400}"#;
        assert_eq!(read(flat), "fault <too long> 400");
    }

    #[test]
    fn a_document_that_is_cut_is_malformed() {
        assert_eq!(read(r#"{"data":[{"embedding":[0.5,"#), "malformed at 26");
    }
}
