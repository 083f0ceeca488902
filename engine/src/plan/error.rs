//! Why a workload cannot be carried out.

use super::data::DataError;
use super::{ArrivalError, BodyError, HeadError, INPUT_TOKENS_MAX};

/// A workload that cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The arrival law.
    #[error(transparent)]
    Arrival(#[from] ArrivalError),
    /// The body.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A recording.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Nowhere to send to.
    #[error("the target has no server: give at least one URL")]
    NoServer,
    /// Nothing to send.
    #[error("the load has no class of requests: give at least one")]
    NoClass,
    /// A share that is none.
    #[error("weight {weight}: give a number above 0")]
    Weight {
        /// What was given.
        weight: f64,
    },
    /// A closed loop of nobody.
    #[error("concurrency 0: a closed loop needs at least one user")]
    NoUsers,
    /// Nothing may be in flight.
    #[error("max in flight 0: nothing could ever be sent; give at least 1, or leave it out")]
    NoneInFlight,
    /// Hosts without a user.
    #[error(
        "{users} users are too few for {hosts} hosts: each needs one; give more users, or use fewer \
         hosts"
    )]
    FewUsers {
        /// Users over all hosts.
        users: u64,
        /// The hosts.
        hosts: u32,
    },
    /// Hosts that may send nothing.
    #[error(
        "max in flight {most} is too few for {hosts} hosts: each needs a place; give more, or use \
         fewer hosts"
    )]
    FewInFlight {
        /// Places over all hosts.
        most: u64,
        /// The hosts.
        hosts: u32,
    },
    /// One host of several would decide on the load by what it alone sees.
    #[error("{what} depends on what one host sees, and {hosts} hosts share the load: {instead}")]
    Alone {
        /// What cannot be had.
        what: &'static str,
        /// The hosts.
        hosts: u32,
        /// What to do.
        instead: &'static str,
    },
    /// Nothing says when the load ends.
    #[error("nothing ends the load: give a number of requests or a duration")]
    Endless,
    /// A measured part of nothing.
    #[error("the measured part is empty: give at least 1 request and a duration above 0")]
    Empty,
    /// Too short or too long a prompt.
    #[error("input tokens {tokens}: give 1 to {INPUT_TOKENS_MAX}")]
    InputTokens {
        /// What was given.
        tokens: f64,
    },
    /// No answer asked for.
    #[error("output tokens 0: give at least 1")]
    NoOutput,
    /// Nothing says when requests go.
    #[error("the recording has no times: give a rate or a number of users in place of a replay")]
    NoTimes,
    /// An empty part of a recording.
    #[error("no request of the recording lies between the replay's start and end")]
    NothingReplayed,
    /// Token ids where there are none.
    #[error("token ids: {reason}")]
    Ids {
        /// Why.
        reason: &'static str,
    },
    /// What prompts share cannot be as asked for.
    #[error("{reason}")]
    Shared {
        /// Why.
        reason: &'static str,
    },
    /// Legs are made of JSON objects alone.
    #[error("the body of request {index} is no JSON object, and prefill and decode need one each")]
    NoObject {
        /// Its number.
        index: u64,
    },
    /// The materials lack the recording of a class.
    #[error("the recording of class {class} was not read")]
    NotRead {
        /// Its number, from 0.
        class: usize,
    },
}
