//! How many attempts have their secrets looked up at a time.
//!
//! A look-up that hangs keeps its thread, and others need threads too: so all together are bounded,
//! and those of the same secrets to a part of it, so that one vault that hangs leaves room for the
//! rest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const ALL_MAX: usize = 256;
const ALIKE_MAX: usize = 32;

type Names = Arc<[Arc<str>]>;

#[derive(Debug)]
pub(super) struct LookUps {
    all: Arc<Semaphore>,
    alike: Mutex<HashMap<Names, Arc<Semaphore>>>,
}

/// Held by one look-up until it has ended.
pub(super) type LookUpPermit = [OwnedSemaphorePermit; 2];

impl LookUps {
    pub(super) fn new() -> Self {
        Self {
            all: Arc::new(Semaphore::new(ALL_MAX)),
            alike: Mutex::default(),
        }
    }

    /// Wait until secrets of these names may be looked up.
    pub(super) async fn permit(&self, names: Names) -> Option<LookUpPermit> {
        let alike = self.of(names).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some([alike, all])
    }

    fn of(&self, names: Names) -> Arc<Semaphore> {
        let mut alike = self.alike.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever has its permit or waits for one holds it too.
        if alike.len() >= ALL_MAX && !alike.contains_key(&names) {
            alike.retain(|_, held| {
                Arc::strong_count(held) > 1 || held.available_permits() < ALIKE_MAX
            });
        }
        let of_names = alike.entry(names);
        Arc::clone(of_names.or_insert_with(|| Arc::new(Semaphore::new(ALIKE_MAX))))
    }
}
