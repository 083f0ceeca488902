//! One request to a prefill or a decode server: what its body says of the hand-off.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::legs::object::{Given, minted_at};
use crate::legs::settings::{Flow, Role, RoleSettings};
use crate::truth::fnv1a;

/// Why a prompt was computed again on a decode server, or will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// The prefill server was told to leave the hand-off object out of this answer.
    NoParams,
    /// The hand-off object lacks something, or something in it is of the wrong type.
    Incomplete,
    /// No simulated prefill server made the hand-off object.
    Unknown,
    /// The hand-off object is of a prompt of another length.
    OtherPrompt,
    /// The hand-off object is older than the lease.
    Expired,
    /// The decode server was told to let this hand-off fail.
    Drawn,
    /// The prefill server did not come within the lease.
    NoPeer,
}

/// What a request wants of the hand-off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Nothing: an answer as of any server.
    Plain,
    /// Prefill: compute the prompt, and hand it over.
    Offer,
    /// Decode: take over what was computed at this time; without it is not known whether it was.
    Pull { minted_ns: Option<u64>, tokens: Option<u64>, address: Option<(String, u16)> },
    /// Decode: it cannot be taken over, as is seen at once.
    Lost(Fallback),
    /// Decode: ask the prefill server at this address when the prompt is computed.
    Ask { address: (String, u16) },
    /// Prefill: wait until a decode server asks, then compute the prompt and hand it over.
    Meet,
    /// Decode: be as if a KV cache had been handed over.
    Fake,
}

/// One request to a prefill or a decode server.
#[derive(Clone, Debug)]
pub(crate) struct Leg {
    pub(crate) task: Task,
    /// Under what the two servers meet, where they do: a room, or the request's id.
    pub(crate) key: Option<String>,
    /// A hash of the prompt, and of the salt of its cache.
    pub(crate) prompt: u64,
    /// When it was read (CLOCK_MONOTONIC, ns).
    pub(crate) read_ns: u64,
    /// When it left the queue.
    pub(crate) begun_ns: u64,
    /// Whether it waits for the other server.
    pub(crate) waits: bool,
    /// What came of it.
    pub(crate) outcome: Outcome,
    /// The hand-off object that its answer carries.
    pub(crate) object: Option<Vec<u8>>,
}

/// What came of the hand-off of one request, for `GET /metrics`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// When its prompt could be gone on with.
    pub(crate) ready_ns: u64,
    /// Prompt tokens that were handed over, and that were in the cache.
    pub(crate) handed: u32,
    pub(crate) cached: u32,
    /// Whether another server was asked for the prompt.
    pub(crate) asked: bool,
    /// How long a hand-off took, and how many bytes it had.
    pub(crate) handoff: Option<[u64; 2]>,
}

/// The fields of a body that matter here.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    input_ids: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_salt: Option<&'a RawValue>,
    min_tokens: Option<u64>,
    stream: Option<bool>,
    kv_transfer_params: Option<Given>,
    bootstrap_host: Option<String>,
    bootstrap_port: Option<u16>,
    bootstrap_room: Option<u64>,
}

impl Leg {
    /// Reads a body that is known to be a request.
    ///
    /// # Errors
    /// What is wrong with it, for the client.
    pub(crate) fn read(
        role: &RoleSettings,
        body: &[u8],
        request_id: Option<&str>,
        read_ns: u64,
    ) -> Result<Self, String> {
        let body: Body<'_> = serde_json::from_slice(body)
            .map_err(|error| format!("the hand-off of the body cannot be read: {error}"))?;
        let (task, key) = match role.flow {
            Flow::Sglang => body.bootstrap(role.role)?,
            Flow::VllmNixl => (body.pull(role.role)?, body.pulled_id()),
            Flow::VllmPush => body.push(role.role, request_id)?,
        };
        let prompt = body.prompt_hash();
        Ok(Self {
            task,
            key,
            prompt,
            read_ns,
            begun_ns: 0,
            waits: false,
            outcome: Outcome::default(),
            object: None,
        })
    }
}

impl Body<'_> {
    /// A hash of the prompt as it is written, and of its salt.
    fn prompt_hash(&self) -> u64 {
        let parts = [self.messages, self.prompt, self.text, self.input_ids, self.cache_salt];
        parts.into_iter().fold(0, |hash: u64, part| {
            let part = part.map_or(0, |part| fnv1a(part.get().as_bytes()));
            hash.rotate_left(21).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ part
        })
    }

    /// What is asked of a server that decode servers pull from, or of such a decode server.
    fn pull(&self, role: Role) -> Result<Task, String> {
        match &self.kv_transfer_params {
            Some(given) if role == Role::Prefill && given.do_remote_decode == Some(true) => {
                self.may_offer()?;
                Ok(Task::Offer)
            }
            Some(given) if role == Role::Decode && given.do_remote_prefill == Some(true) => {
                let tokens = given.remote_num_tokens.as_ref().and_then(Value::as_u64);
                Ok(match given.pulled() {
                    Some(id) => {
                        Task::Pull { minted_ns: minted_at(id), tokens, address: given.address() }
                    }
                    None => Task::Lost(Fallback::Incomplete),
                })
            }
            _ => Ok(Task::Plain),
        }
    }

    /// The id of what is pulled.
    fn pulled_id(&self) -> Option<String> {
        let id = self.kv_transfer_params.as_ref().and_then(Given::pulled)?;
        // Only ids of our own making are told: they have no line end.
        minted_at(id).map(|_| id.to_owned())
    }

    /// What is asked of a server that pushes to decode servers, or of such a decode server.
    fn push(&self, role: Role, request_id: Option<&str>) -> Result<(Task, Option<String>), String> {
        let task = self.pull(role)?;
        let given = self.kv_transfer_params.as_ref();
        Ok(match task {
            Task::Offer => (task, request_id.map(str::to_owned)),
            Task::Pull { .. } | Task::Lost(_) => match given.and_then(Given::pushed) {
                Some((address, id)) => (Task::Ask { address }, Some(id.to_owned())),
                None => (Task::Lost(Fallback::Incomplete), None),
            },
            _ => (task, None),
        })
    }

    /// What is asked of either of SGLang's servers, and the room where they meet.
    fn bootstrap(&self, role: Role) -> Result<(Task, Option<String>), String> {
        /// Stands for no prefill server at all.
        const NOBODY: &str = "2.2.2.2";
        let (Some(host), Some(room)) = (&self.bootstrap_host, self.bootstrap_room) else {
            return Err("a server whose prefill and decode are apart needs bootstrap_host and \
                bootstrap_room in every request; bootstrap_port may be left out"
                .to_owned());
        };
        let port = self.bootstrap_port.unwrap_or(RoleSettings::side_port_of(Flow::Sglang));
        let task = match role {
            Role::Decode if host == NOBODY => Task::Fake,
            Role::Decode => Task::Ask { address: (host.clone(), port) },
            _ => Task::Meet,
        };
        Ok((task, Some(room.to_string())))
    }

    fn may_offer(&self) -> Result<(), String> {
        if self.stream == Some(true) {
            return Err(
                "a request with do_remote_decode must not be a stream: its hand-off object \
                stands at the end of one document; set stream to false"
                    .to_owned(),
            );
        }
        if self.min_tokens.is_some_and(|tokens| tokens > 1) {
            return Err("a request with do_remote_decode makes one token: min_tokens above 1 \
                contradicts it; leave it out"
                .to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(role: Role, body: &str) -> Result<Leg, String> {
        Leg::read(&RoleSettings { role, ..RoleSettings::default() }, body.as_bytes(), None, 5)
    }

    #[test]
    fn a_task_depends_on_the_role_and_the_object() {
        let offer = r#"{"prompt":"a","kv_transfer_params":{"do_remote_decode":true}}"#;
        assert_eq!(read(Role::Prefill, offer).unwrap().task, Task::Offer);
        assert_eq!(read(Role::Decode, offer).unwrap().task, Task::Plain);
        let lost = r#"{"prompt":"a","kv_transfer_params":{"do_remote_prefill":true}}"#;
        assert_eq!(read(Role::Decode, lost).unwrap().task, Task::Lost(Fallback::Incomplete));
        let null = r#"{"prompt":"a","kv_transfer_params":null}"#;
        assert_eq!(read(Role::Decode, null).unwrap().task, Task::Plain);
        let wrong = r#"{"prompt":"a","kv_transfer_params":{"do_remote_prefill":1}}"#;
        assert!(read(Role::Decode, wrong).unwrap_err().contains("hand-off"));
    }

    #[test]
    fn a_prefill_that_hands_over_makes_one_token_in_one_piece() {
        let body = |more: &str| {
            format!(r#"{{"prompt":"a",{more},"kv_transfer_params":{{"do_remote_decode":true}}}}"#)
        };
        assert!(read(Role::Prefill, &body(r#""stream":true"#)).unwrap_err().contains("stream"));
        assert!(read(Role::Prefill, &body(r#""min_tokens":2"#)).unwrap_err().contains("min_tok"));
        assert!(read(Role::Prefill, &body(r#""min_tokens":1,"stream":false"#)).is_ok());
    }

    #[test]
    fn prompts_are_told_apart_and_so_are_their_salts() {
        let hash = |body: &str| read(Role::Decode, body).unwrap().prompt;
        let plain = hash(r#"{"prompt":[1,2],"max_tokens":3}"#);
        assert_eq!(plain, hash(r#"{"max_tokens":1,"prompt":[1,2]}"#));
        assert_ne!(plain, hash(r#"{"prompt":[1,3]}"#));
        assert_ne!(plain, hash(r#"{"prompt":[1,2],"cache_salt":"x"}"#));
        assert_ne!(plain, hash(r#"{"messages":[1,2]}"#));
    }
}
