//! What a session holds: runs in memory and runs on their way, each under the epoch of its claim,
//! and how much memory they take.
//!
//! What is on its way counts as the store weighs it; what is loaded counts as it is.

use foldhash::HashMap;
use lope_model::{Epoch, RunId, RunnerId};

/// What a session holds.
#[derive(Debug)]
pub(super) struct HeldRuns {
    runner: RunnerId,
    runs: HashMap<RunId, HeldRun>,
    /// Bytes of runs on their way, and of those that are loaded.
    coming: u64,
    resident: u64,
    /// How many bytes a run takes, as those that were loaded last, and how many were.
    average: u64,
    loaded: usize,
}

#[derive(Debug, Clone, Copy)]
struct HeldRun {
    epoch: Epoch,
    weight: u64,
    is_loaded: bool,
}

impl HeldRuns {
    pub(super) fn of(runner: RunnerId) -> Self {
        Self {
            runner,
            runs: HashMap::default(),
            coming: 0,
            resident: 0,
            average: 0,
            loaded: 0,
        }
    }

    pub(super) fn runner(&self) -> RunnerId {
        self.runner
    }

    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    pub(super) fn epoch_of(&self, run: RunId) -> Option<Epoch> {
        self.runs.get(&run).map(|held| held.epoch)
    }

    pub(super) fn all(&self) -> Vec<(RunId, Epoch)> {
        self.runs
            .iter()
            .map(|(run, held)| (*run, held.epoch))
            .collect()
    }

    /// A run is on its way. The epoch under which it was held before.
    pub(super) fn insert(&mut self, run: RunId, epoch: Epoch, weight: u32) -> Option<Epoch> {
        let held = HeldRun {
            epoch,
            weight: u64::from(weight),
            is_loaded: false,
        };
        *self.sum(false) += held.weight;
        let before = self.runs.insert(run, held)?;
        *self.sum(before.is_loaded) -= before.weight;
        Some(before.epoch)
    }

    /// A run is loaded, or has another size now.
    pub(super) fn weighs(&mut self, run: RunId, bytes: u64) {
        let Some(held) = self.runs.get_mut(&run) else {
            return;
        };
        let before = *held;
        (held.weight, held.is_loaded) = (bytes, true);
        self.average = if self.loaded == 0 {
            bytes
        } else {
            (self.average * 7 + bytes) / 8
        };
        self.loaded = self.loaded.saturating_add(1);
        *self.sum(before.is_loaded) -= before.weight;
        *self.sum(true) += bytes;
    }

    /// It is not held any more. False: not under this epoch.
    pub(super) fn remove(&mut self, run: RunId, epoch: Epoch) -> bool {
        if self.epoch_of(run) != Some(epoch) {
            return false;
        }
        if let Some(held) = self.runs.remove(&run) {
            *self.sum(held.is_loaded) -= held.weight;
        }
        true
    }

    fn sum(&mut self, is_loaded: bool) -> &mut u64 {
        if is_loaded {
            &mut self.resident
        } else {
            &mut self.coming
        }
    }

    /// What is loaded and what is on its way.
    pub(super) fn bytes(&self) -> u64 {
        self.resident + self.coming
    }

    pub(super) fn resident_bytes(&self) -> u64 {
        self.resident
    }

    /// How many more runs may be loaded at once, if they are like those that were: none when what is
    /// loaded takes all there is, and few while few are known.
    pub(super) fn room(&self, most: u64) -> usize {
        let left = most.saturating_sub(self.resident);
        if left == 0 {
            return 0;
        }
        let fit = usize::try_from(left / self.average.max(1)).unwrap_or(usize::MAX);
        fit.clamp(1, self.loaded.saturating_mul(2).saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(n: u8) -> RunId {
        RunId::from_bytes([n; 16])
    }

    #[test]
    fn what_is_loaded_counts_as_it_is_and_what_has_left_not_at_all() {
        let mut held = HeldRuns::of(RunnerId::from_bytes([0; 16]));
        assert_eq!(held.insert(run(1), Epoch(1), 10), None);
        assert_eq!(held.insert(run(2), Epoch(1), 10), None);
        assert_eq!((held.bytes(), held.resident_bytes()), (20, 0));
        held.weighs(run(1), 700);
        assert_eq!((held.bytes(), held.resident_bytes()), (710, 700));
        held.weighs(run(1), 500);
        assert_eq!(held.bytes(), 510);
        assert_eq!(held.insert(run(1), Epoch(2), 30), Some(Epoch(1)));
        assert_eq!((held.bytes(), held.resident_bytes()), (40, 0));
        assert!(!held.remove(run(1), Epoch(1)));
        assert!(held.remove(run(1), Epoch(2)) && held.remove(run(2), Epoch(1)));
        assert_eq!((held.bytes(), held.len()), (0, 0));
        held.weighs(run(1), 5);
        assert_eq!(held.bytes(), 0);
    }

    #[test]
    fn there_is_room_for_as_many_as_fit_if_they_are_like_the_others() {
        let mut held = HeldRuns::of(RunnerId::from_bytes([0; 16]));
        assert_eq!((held.room(0), held.room(100)), (0, 1));
        held.insert(run(1), Epoch(1), 1);
        held.weighs(run(1), 30);
        assert_eq!((held.room(30), held.room(31), held.room(100)), (0, 1, 2));
        assert_eq!(held.room(1_000), 3);
        assert!(held.remove(run(1), Epoch(1)));
        assert_eq!(held.room(60), 2, "what has left is remembered");
    }
}
