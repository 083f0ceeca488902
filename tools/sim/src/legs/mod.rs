//! Where prefill and decode are apart: what a server of either kind does with a request, and the
//! router between them.

pub(crate) mod leg;
pub(crate) mod object;
pub(crate) mod offers;
pub(crate) mod prefix;
pub(crate) mod register;
pub(crate) mod relay;
pub(crate) mod rewrite;
pub(crate) mod router;
pub(crate) mod settings;
pub(crate) mod side;
pub(crate) mod stage;
pub(crate) mod upstream;

pub use leg::Fallback;
pub use settings::{Flow, Role, RoleSettings};
