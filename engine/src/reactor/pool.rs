//! The connections that wait for a request, and who may take which.

use crate::workload::Connections;

/// A user's number where there is none: in an open loop.
pub(crate) const NOBODY: u32 = u32::MAX;

/// Idle connections of one reactor, by server, or by user and server where each user keeps its own.
/// The one that rests last is taken first: it is the least likely to be stale.
#[derive(Debug)]
pub(crate) struct Pool {
    way: Connections,
    servers: usize,
    idle: Vec<Vec<usize>>,
}

impl Pool {
    /// An empty pool.
    pub(crate) fn new(way: Connections, servers: usize) -> Self {
        Self { way, servers, idle: vec![Vec::new(); servers] }
    }

    /// May connections rest at all?
    pub(crate) fn keeps(&self) -> bool {
        self.way != Connections::PerRequest
    }

    /// The connection that a request of `user` to `server` may take.
    #[inline]
    pub(crate) fn take(&mut self, user: u32, server: usize) -> Option<usize> {
        let place = self.place(user, server);
        self.idle.get_mut(place)?.pop()
    }

    /// Connection `id` waits.
    #[inline]
    pub(crate) fn put(&mut self, user: u32, server: usize, id: usize) {
        let place = self.place(user, server);
        if place >= self.idle.len() {
            self.idle.resize_with(place + 1, Vec::new);
        }
        self.idle[place].push(id);
    }

    /// Connection `id` waits no longer.
    pub(crate) fn remove(&mut self, user: u32, server: usize, id: usize) {
        let place = self.place(user, server);
        if let Some(idle) = self.idle.get_mut(place) {
            idle.retain(|&other| other != id);
        }
    }

    /// All that wait.
    pub(crate) fn drain(&mut self) -> Vec<usize> {
        self.idle.iter_mut().flat_map(std::mem::take).collect()
    }

    fn place(&self, user: u32, server: usize) -> usize {
        match self.way {
            Connections::PerUser | Connections::PerSession if user != NOBODY => {
                user as usize * self.servers + server
            }
            _ => server,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_share_no_connections() {
        let mut pool = Pool::new(Connections::Pooled, 2);
        pool.put(3, 1, 10);
        pool.put(4, 1, 11);
        assert_eq!(pool.take(0, 0), None);
        assert_eq!((pool.take(9, 1), pool.take(9, 1), pool.take(9, 1)), (Some(11), Some(10), None));
    }

    #[test]
    fn a_user_keeps_its_own() {
        let mut pool = Pool::new(Connections::PerUser, 2);
        pool.put(3, 1, 10);
        assert_eq!((pool.take(4, 1), pool.take(3, 0)), (None, None));
        assert_eq!(pool.take(3, 1), Some(10));
        pool.put(3, 1, 10);
        pool.put(0, 0, 11);
        pool.remove(3, 1, 10);
        assert_eq!(pool.drain(), [11]);
    }
}
