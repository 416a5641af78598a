//! Change notification: a coalesced "something changed" from a store, local or from another
//! process.
//!
//! It is a hint: whoever is woken looks for itself, and polls now and then in case a hint was lost.

use tokio::sync::watch;

/// What a change means to those who watch: more than one that came together is the most of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Hint {
    /// Nobody else is concerned: an owner goes on with its run.
    #[default]
    Nothing,
    /// Runs have ended. Whoever waits for one is concerned, and whoever claims from bounded queues.
    Ended,
    /// Something may be there to be claimed, or mail to be read.
    Work,
}

/// The receiving end: remembers which change it saw last, so that a change between two waits is not
/// missed.
#[derive(Debug, Clone)]
pub struct Watch {
    changes: watch::Receiver<u64>,
    work: watch::Receiver<u64>,
}

/// The sending end, held by a store.
#[derive(Debug)]
pub struct Notifier {
    changes: watch::Sender<u64>,
    work: watch::Sender<u64>,
}

impl Notifier {
    /// There may be work. Nobody who begins to watch later is owed this change: what they then read
    /// holds it.
    pub fn notify(&self) {
        self.hint(Hint::Work);
    }

    /// Notify those whom this concerns.
    pub fn hint(&self, hint: Hint) {
        if hint >= Hint::Work {
            count_up(&self.work);
        }
        if hint >= Hint::Ended {
            count_up(&self.changes);
        }
    }

    pub fn watch(&self) -> Watch {
        Watch {
            changes: self.changes.subscribe(),
            work: self.work.subscribe(),
        }
    }

    /// Does anybody wait for it? A store need not look for changes that nobody asks for.
    pub fn is_watched(&self) -> bool {
        self.work.receiver_count() > 0
    }
}

fn count_up(notifications: &watch::Sender<u64>) {
    if notifications.receiver_count() > 0 {
        notifications.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl Default for Notifier {
    fn default() -> Self {
        Self {
            changes: watch::Sender::new(0),
            work: watch::Sender::new(0),
        }
    }
}

impl Watch {
    /// Hears no longer of ends, only of work.
    #[must_use]
    pub fn only_work(self) -> Self {
        Self {
            changes: self.work.clone(),
            work: self.work,
        }
    }

    /// Returns when something changed since the last call (or since the watch began); never if the
    /// store is gone.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Did something change since the last call? Does not wait.
    pub fn take(&mut self) -> bool {
        let changed = self.changes.has_changed().unwrap_or(false);
        self.changes.mark_unchanged();
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hears_what_concerns_it() {
        let notifier = Notifier::default();
        let (mut all, mut work) = (notifier.watch(), notifier.watch().only_work());
        for (hint, heard) in [
            (Hint::Nothing, (false, false)),
            (Hint::Ended, (true, false)),
            (Hint::Work, (true, true)),
        ] {
            notifier.hint(hint);
            assert_eq!((all.take(), work.take()), heard, "{hint:?}");
        }
        drop(all);
        assert!(notifier.is_watched());
        drop(work);
        assert!(!notifier.is_watched());
    }
}
