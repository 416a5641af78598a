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

/// By the names that steps hold; `None` counts all.
#[derive(Default)]
pub(super) struct LookUps(Mutex<HashMap<Option<Names>, Arc<Semaphore>>>);

impl LookUps {
    /// Wait until secrets of these names may be looked up; they are as long as this is held.
    pub(super) async fn permit(&self, names: Option<Names>) -> Option<[OwnedSemaphorePermit; 2]> {
        let alike = self.of(names, ALIKE_MAX).acquire_owned().await.ok()?;
        let all = self.of(None, ALL_MAX).acquire_owned().await;
        Some([alike, all.ok()?])
    }

    fn of(&self, names: Option<Names>, most: usize) -> Arc<Semaphore> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.entry(names);
        Arc::clone(found.or_insert_with(|| Arc::new(Semaphore::new(most))))
    }
}
