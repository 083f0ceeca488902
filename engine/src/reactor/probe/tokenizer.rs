//! The server's own tokenizer, asked over HTTP: vLLM's, llama.cpp's or TGI's `POST /tokenize`.

use serde_json::{Value, json};

use super::ask::post;
use super::{Asked, paths};
use crate::plan::tokens::Ask;
use crate::workload::{Dialect, Endpoint, Tls};

/// A server whose tokenizer is asked.
#[derive(Debug, Clone)]
pub struct ServerTokenizer {
    endpoint: Endpoint,
    dialect: Dialect,
    headers: Vec<(String, String)>,
    tls: Tls,
    model: String,
}

impl ServerTokenizer {
    /// The tokenizer of a model.
    #[must_use]
    pub fn new(asked: &Asked<'_>, model: &str) -> Self {
        Self {
            endpoint: asked.endpoint.clone(),
            dialect: asked.dialect,
            headers: asked.headers.to_vec(),
            tls: asked.tls.clone(),
            model: model.to_owned(),
        }
    }
}

impl Ask for ServerTokenizer {
    fn tokenize(&self, text: &str) -> Result<Vec<u32>, String> {
        let asked = Asked {
            endpoint: &self.endpoint,
            dialect: self.dialect,
            headers: &self.headers,
            tls: &self.tls,
        };
        // In the words of each server that is known to have it; what is not known is ignored there.
        let question = json!({
            "model": self.model,
            "prompt": text,
            "add_special_tokens": false,
            "content": text,
            "add_special": false,
            "inputs": text,
        });
        let path = paths::root_path(&self.endpoint, "/tokenize");
        let (status, answer) = post(&asked, &path, question.to_string().as_bytes())
            .map_err(|error| error.to_string())?;
        if status != 200 {
            let said: String = String::from_utf8_lossy(&answer).chars().take(200).collect();
            return Err(format!("POST {path}: status {status}: {}", said.trim()));
        }
        let answer: Value = serde_json::from_slice(&answer)
            .map_err(|error| format!("POST {path}: no JSON: {error}"))?;
        ids(&answer).ok_or_else(|| format!("POST {path}: its answer lists no tokens"))
    }
}

/// The ids in an answer: under `tokens`, or a list of objects with an `id` each.
fn ids(answer: &Value) -> Option<Vec<u32>> {
    let list = answer.get("tokens").unwrap_or(answer).as_array()?;
    let id = |one: &Value| u32::try_from(one.as_u64().or_else(|| one.get("id")?.as_u64())?).ok();
    list.iter().map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_the_answers_of_each_server() {
        let vllm = json!({"count": 2, "max_model_len": 99, "tokens": [1, 5]});
        let llamacpp = json!({"tokens": [1, 5]});
        let pieces = json!({"tokens": [{"id": 1, "piece": "a"}, {"id": 5, "piece": "b"}]});
        let tgi = json!([{"id": 1, "text": "a"}, {"id": 5, "text": "b"}]);
        for answer in [vllm, llamacpp, pieces, tgi] {
            assert_eq!(ids(&answer), Some(vec![1, 5]), "{answer}");
        }
        for none in [json!({}), json!({"tokens": ["a"]}), json!("x"), json!({"tokens": [-1]})] {
            assert_eq!(ids(&none), None, "{none}");
        }
    }
}
