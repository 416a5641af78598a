//! Ownership for a while: owner, expiry, and an epoch that grows with every change of owner.
//!
//! Whether a lease has expired is judged by the store's clock; this file only compares.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::RunnerId;
use crate::time::Moment;

/// How often something has changed owner. It never restarts, so a write that carries an old one can
/// always be refused.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Ownership of something until a moment on the store's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lease {
    pub owner: RunnerId,
    pub epoch: Epoch,
    pub expires: Moment,
}

impl Lease {
    pub fn is_held_at(&self, now: Moment) -> bool {
        now < self.expires
    }
}
