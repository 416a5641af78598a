//! Spaces that many threads change: each edit runs on a snapshot without holding anybody up, and
//! runs again if somebody else was there first.

use std::sync::{Mutex, MutexGuard};

use thiserror::Error;

use crate::address::CellAddress;
use crate::error::{CommitError, CommitRefusal};
use crate::snapshot::SpaceSnapshot;
use crate::space::{Committed, Spaces};
use crate::transaction::Transaction;

/// Runs of one edit before it is given up.
pub const EDIT_ATTEMPTS_MAX: usize = 100;

/// Spaces behind a lock that is held for a commit only.
#[derive(Debug, Default)]
pub struct ConcurrentSpaces {
    spaces: Mutex<Spaces>,
}

/// Why an edit was given up.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum EditError {
    /// It cannot be done; it was tried once.
    #[error(transparent)]
    Refused(#[from] CommitRefusal),
    /// Others were there first every time; `at` is what they changed.
    #[error("{at} was changed by somebody else in each of {attempts} attempts")]
    Contended { at: CellAddress, attempts: usize },
}

impl ConcurrentSpaces {
    pub fn new(spaces: Spaces) -> Self {
        Self {
            spaces: Mutex::new(spaces),
        }
    }

    pub fn snapshot(&self) -> SpaceSnapshot {
        self.lock().snapshot().clone()
    }

    pub fn begin(&self) -> Transaction {
        self.lock().begin()
    }

    pub fn commit(&self, transaction: Transaction) -> Result<Committed, CommitError> {
        self.lock().commit(transaction)
    }

    /// Runs `body` in a transaction and commits it, again after every conflict. A refusal, by
    /// `body` or by the commit, ends it and leaves nothing.
    pub fn edit<T>(
        &self,
        mut body: impl FnMut(&mut Transaction) -> Result<T, CommitRefusal>,
    ) -> Result<(T, Committed), EditError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut transaction = self.begin();
            let value = body(&mut transaction)?;
            match self.commit(transaction) {
                Ok(committed) => return Ok((value, committed)),
                Err(CommitError::Refused(refusal)) => return Err(refusal.into()),
                Err(CommitError::Conflict { at }) if attempts >= EDIT_ATTEMPTS_MAX => {
                    return Err(EditError::Contended { at, attempts });
                }
                Err(CommitError::Conflict { .. }) => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Spaces> {
        self.spaces.lock().expect("no panic while the lock is held")
    }
}
