//! Runs that a shard fell over. They are given back to the store, so that whoever claims them next
//! begins under a higher epoch from what is written; one that makes shards fall again and again is
//! set aside for a person.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lope_model::{Epoch, RunId, RunnerId, Span, Timestamp, limit};
use lope_store::runs::{LiveStatus, Release, Wake};

use super::{Adopter, let_go};
use crate::drive::supervisor::caught;

/// Falls over one run after which it is set aside.
const FALLS_MAX: u32 = 3;
/// Most runs whose falls are remembered; beyond, all are forgotten.
const REMEMBERED_MAX: usize = 10_000;
/// Pause before a run that was given back may be claimed again; it doubles with each fall.
const PAUSE: Span = Span::from_millis(100);
/// Pause before a store that did not answer is asked again.
const AGAIN: Duration = Duration::from_millis(200);

/// How often shards fell over which run.
#[derive(Debug, Default)]
pub(super) struct Fallen(Mutex<HashMap<RunId, u32>>);

impl Fallen {
    /// One more fall. `None`: enough, and they are forgotten.
    fn count(&self, run: RunId) -> Option<u32> {
        let mut falls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if falls.len() >= REMEMBERED_MAX {
            falls.clear();
        }
        let times = falls.entry(run).or_default();
        *times += 1;
        let times = *times;
        if times >= FALLS_MAX {
            falls.remove(&run);
        }
        (times < FALLS_MAX).then_some(times)
    }
}

impl Adopter {
    /// A shard fell over this run: give it back, or set it aside if that has happened too often.
    pub(crate) async fn give_up(
        &self,
        run: RunId,
        epoch: Epoch,
        why: &str,
        now: Timestamp,
    ) -> Vec<RunId> {
        let wake = match self.fallen.count(run) {
            Some(times) => Wake::At(now.plus(PAUSE.times(1 << times))),
            None => Wake::parked(format!(
                "the engine panicked {FALLS_MAX} times when it worked on it: {why}"
            )),
        };
        tracing::error!(%run, why, ?wake, "the engine panicked when it worked on a run; the run is given back");
        self.give_back(vec![(run, epoch)], wake).await
    }

    /// What a shard holds, or is about to.
    pub(crate) fn held_by(&self, shard: usize) -> Vec<(RunId, Epoch)> {
        let held = self.held().all();
        held.into_iter()
            .filter(|(run, _)| self.shards.shard_of(*run) == shard)
            .collect()
    }

    /// A shard lost everything: give back what it held, or was about to.
    pub(crate) async fn give_up_shard(
        &self,
        lost: Vec<(RunId, Epoch)>,
        now: Timestamp,
    ) -> Vec<RunId> {
        tracing::error!(
            runs = lost.len(),
            "a shard lost what it held; its runs are given back"
        );
        self.give_back(lost, Wake::At(now)).await
    }

    /// Runs stay held until the store knows that they are not ours, so that comparing leaves them
    /// alone. Those that were.
    pub(super) async fn give_back(&self, runs: Vec<(RunId, Epoch)>, wake: Wake) -> Vec<RunId> {
        let owner = self.runner();
        for part in runs.chunks(limit::CLAIM_MAX) {
            let release = || Release {
                status: status_of(&wake),
                wake: wake.clone(),
                seen: u64::MAX,
            };
            let commits = || {
                part.iter()
                    .map(|(run, epoch)| let_go(*run, owner, *epoch, release()))
                    .collect()
            };
            while self.is(owner)
                && !matches!(caught(self.store.runs.commit(commits())).await, Ok(Ok(_)))
            {
                tokio::time::sleep(AGAIN).await;
            }
        }
        let were_held = runs
            .into_iter()
            .filter(|(run, epoch)| self.left(*run, *epoch));
        were_held.map(|(run, _)| run).collect()
    }

    /// Is this still the session? Otherwise there is nothing to give back.
    fn is(&self, owner: RunnerId) -> bool {
        self.runner() == owner
    }
}

fn status_of(wake: &Wake) -> LiveStatus {
    match wake {
        Wake::At(_) | Wake::OnMail => LiveStatus::Running,
        Wake::Parked(_) => LiveStatus::Paused,
    }
}
