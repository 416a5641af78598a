//! Runners of other machines are watched before their silence is believed. Their signs of life are
//! judged by a clock that somebody may have set forward just now: whoever looks for the first time
//! cannot tell that from silence. A runner that lives gives another sign meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use lope_model::{RunnerId, Span};
use serde::{Deserialize, Serialize};

use crate::records::AgentRunnerRecord;

/// Since when runners have given no other sign of life, by the clock of whoever watches them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct WatchedRunners(BTreeMap<String, WatchedBeat>);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct WatchedBeat {
    /// The sign of life, by the store's clock.
    beat: i64,
    /// When it was first seen.
    seen: i64,
}

impl WatchedRunners {
    /// Look once more: those whose last sign of life was not watched for so long. Runners that are no
    /// longer there are forgotten.
    pub fn look<'a>(
        &mut self,
        runners: impl Iterator<Item = &'a AgentRunnerRecord>,
        awake: i64,
        long: Span,
    ) -> BTreeSet<RunnerId> {
        let mut before = std::mem::take(&mut self.0);
        let mut unwatched = BTreeSet::new();
        for runner in runners {
            let id = runner.id.to_string();
            let beat = runner.beat.0;
            let known = before.remove(&id);
            let known = known.filter(|known| known.beat == beat && known.seen <= awake);
            let seen = known.map_or(awake, |known| known.seen);
            if awake - seen < long.millis().cast_signed() {
                unwatched.insert(runner.id);
            }
            self.0.insert(id, WatchedBeat { beat, seen });
        }
        unwatched
    }
}
