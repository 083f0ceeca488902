//! A `tokenizer.json`.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use tokenizers::ModelWrapper;

use super::{TokenizerError, Tokens, one_line};

/// A tokenizer read from a file.
pub(super) struct File {
    tokenizer: tokenizers::Tokenizer,
    /// Ids that no plain text has.
    added: HashSet<u32>,
    name: String,
}

impl File {
    /// Reads the file at `path`; `name` is what results call the tokenizer.
    pub(super) fn load(path: &Path, name: String) -> Result<Self, TokenizerError> {
        let bytes = read_at_most(FILE_BYTES_MAX, path).map_err(|error| TokenizerError::Read {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        let format = |reason: String| TokenizerError::Format {
            path: path.to_owned(),
            reason: one_line(&reason),
        };
        let read = tokenizers::Tokenizer::from_bytes(bytes);
        let mut tokenizer = read.map_err(|error| format(error.to_string()))?;
        // Set in some files, for training: a count would end at the limit.
        tokenizer.with_truncation(None).map_err(|error| format(error.to_string()))?;
        tokenizer.with_padding(None);
        if let ModelWrapper::BPE(model) = tokenizer.get_model()
            && model.dropout.is_some_and(|share| share > 0.0)
        {
            return Err(format(
                "its model leaves out merges at random, so no count is certain: set `dropout` in \
                 it to null"
                    .to_owned(),
            ));
        }
        let added = tokenizer.get_added_tokens_decoder().into_keys().collect();
        Ok(Self { tokenizer, added, name })
    }

    fn encoding(&self, text: &str) -> Result<tokenizers::Encoding, TokenizerError> {
        // The fast form leaves out offsets, which nobody needs here.
        self.tokenizer.encode_fast(text, false).map_err(|error| TokenizerError::Encode {
            name: self.name.clone(),
            reason: one_line(&error.to_string()),
        })
    }
}

/// Largest file; those in use have some 30 MB.
const FILE_BYTES_MAX: u64 = 1 << 28;

/// The bytes of the file at `path`, which may be a pipe or a device without end.
pub(in crate::plan) fn read_at_most(bytes_max: u64, path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if read as u64 > bytes_max {
        return Err(io::Error::other(format!("it has more than {bytes_max} bytes")));
    }
    Ok(bytes)
}

impl Tokens for File {
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        Ok(self.encoding(text)?.get_ids().to_vec())
    }

    fn count(&self, text: &str) -> Result<u64, TokenizerError> {
        Ok(self.encoding(text)?.len() as u64)
    }

    fn decode(&self, ids: &[u32]) -> Option<String> {
        if ids.iter().any(|id| self.added.contains(id)) {
            return None;
        }
        self.tokenizer.decode(ids, false).ok()
    }

    fn ids(&self) -> u32 {
        u32::try_from(self.tokenizer.get_vocab_size(true)).unwrap_or(u32::MAX)
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}
