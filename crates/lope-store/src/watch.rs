//! Change notification: a coalesced "something changed" from a store, local or from another process.
//!
//! It is a hint: whoever is woken looks for itself, and polls now and then in case a hint was lost.

use tokio::sync::watch;

/// The receiving end: remembers which change it saw last, so that a change between two waits is not missed.
#[derive(Debug, Clone)]
pub struct Watch(watch::Receiver<u64>);

/// The sending end, held by a store.
#[derive(Debug)]
pub struct Bell(watch::Sender<u64>);

impl Bell {
    /// Nobody who begins to watch later is owed this change: what they then read holds it.
    pub fn ring(&self) {
        if self.0.receiver_count() == 0 {
            return;
        }
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub fn watch(&self) -> Watch {
        Watch(self.0.subscribe())
    }

    /// Does anybody wait for it? A store need not look for changes that nobody asks for.
    pub fn is_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }
}

impl Default for Bell {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Watch {
    /// Returns when something changed since the last call (or since the watch began); never if the store is gone.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Did something change since the last call? Does not wait.
    pub fn take(&mut self) -> bool {
        let changed = self.0.has_changed().unwrap_or(false);
        self.0.mark_unchanged();
        changed
    }
}
