//! The server over real sockets, as a client sees it and as its own log tells it.

#[cfg(test)]
mod client;
#[cfg(test)]
mod dcgm;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod legs;
#[cfg(test)]
mod routed;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod serving;
#[cfg(test)]
mod timing;
