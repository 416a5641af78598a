//! Wrong tokens, counted by where they come from: whoever guesses is told to wait. A token that is
//! right opens in any case, so that nobody behind the same proxy is locked out by another.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wrong tokens that one address may send in a while.
const GUESSES: u32 = 20;
const WHILE: Duration = Duration::from_secs(60);
/// Addresses that are remembered.
const PEERS: usize = 10_000;

/// Who is at the other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer(pub IpAddr);

/// Who guessed how often, and since when.
#[derive(Debug, Default)]
pub struct Guesses(Mutex<HashMap<Option<IpAddr>, (Instant, u32)>>);

impl Guesses {
    /// A wrong token came. False: it were too many.
    pub fn note(&self, peer: Option<Peer>) -> bool {
        let now = Instant::now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= PEERS {
            all.retain(|_, (since, _)| now.duration_since(*since) < WHILE);
        }
        if all.len() >= PEERS {
            return false;
        }
        let peer = peer.map(|Peer(address)| address);
        let (since, count) = all.entry(peer).or_insert((now, 0));
        if now.duration_since(*since) >= WHILE {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count <= GUESSES
    }
}
