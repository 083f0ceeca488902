//! The server over real sockets, as a client sees it and as its own log tells it.

mod client;
mod serve;
mod timing;
