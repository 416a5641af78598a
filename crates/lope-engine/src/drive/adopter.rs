//! From a claimed run to one in memory: definition, snapshot, journal and mail are fetched and
//! given to the run's shard.

mod fallen;
mod held_runs;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use lope_flow::law::{Event, Plan};
use lope_model::{Epoch, RunId, RunnerId, Timestamp};
use lope_store::runs::{
    Admit, ClaimedRun, LiveStatus, Loaded, Mail, Release, RunCommit, Then, Wake, damaged,
};
use lope_store::{Store, StoreError, StoreResult};
use tokio::sync::Mutex as AsyncMutex;

use super::shards::Shards;
use crate::codec::{self, Blobs, Unreadable};
use crate::plans::Plans;
use crate::query;
use crate::settings::Settings;
use crate::shard::{Adoption, Home, Past, ShardInput};
use fallen::Fallen;
use held_runs::HeldRuns;

/// The epoch of a run that is born claimed.
const BORN: Epoch = Epoch(1);
/// Runs loaded at once.
const LOAD: usize = 200;

#[derive(Debug)]
pub(crate) struct Adopter {
    pub(crate) store: Store,
    pub(crate) shards: Arc<Shards>,
    pub(crate) plans: Plans,
    held: Mutex<HeldRuns>,
    /// One part is loaded after the other, so that each is counted as it is before the next begins.
    loading: AsyncMutex<()>,
    /// Most runs that are held: beyond that none is born claimed.
    most: usize,
    /// Most bytes that they take together: beyond that none is taken up.
    bytes_most: u64,
    /// Is the session known to be held? Until then nothing is born claimed in its name.
    registered: AtomicBool,
    fallen: Fallen,
}

/// A run that is about to be born claimed: it is held from before the store is asked, so that
/// comparing leaves it alone. Dropped without having been given to its shard, it is let go, and
/// comparing finds it if it was born.
#[derive(Debug)]
pub(crate) struct Expected<'a> {
    adopter: &'a Adopter,
    run: RunId,
    owner: RunnerId,
    adoption: Option<Box<Adoption>>,
}

impl Expected<'_> {
    pub(crate) const fn owner(&self) -> RunnerId {
        self.owner
    }

    /// It was born claimed, and its shard takes it: everything about it is known without asking the
    /// store. False: its session has ended meanwhile.
    pub(crate) fn give(mut self) -> bool {
        let adopter = self.adopter;
        let held = adopter.held();
        if held.epoch_of(self.run) != Some(BORN) || held.runner() != self.owner {
            return false;
        }
        drop(held);
        let Some(adoption) = self.adoption.take() else {
            return false;
        };
        adopter.shards.send(self.run, ShardInput::Adopt(adoption));
        true
    }
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        // A later session may hold it under the same epoch.
        if self.adoption.is_some() && self.adopter.runner() == self.owner {
            self.adopter.left(self.run, BORN);
        }
    }
}

impl Adopter {
    pub(crate) fn new(
        store: Store,
        shards: Arc<Shards>,
        runner: RunnerId,
        settings: &Settings,
    ) -> Self {
        Self {
            store,
            shards,
            most: settings.max_runs,
            bytes_most: settings.resident_bytes,
            plans: Plans::default(),
            held: Mutex::new(HeldRuns::of(runner)),
            loading: AsyncMutex::default(),
            registered: AtomicBool::new(false),
            fallen: Fallen::default(),
        }
    }

    pub(crate) fn runner(&self) -> RunnerId {
        self.held().runner()
    }

    pub(crate) fn set_registered(&self, registered: bool) {
        self.registered.store(registered, Ordering::Release);
    }

    /// A run is about to be admitted; `None` if it cannot be born claimed, because the session is
    /// not known to be held or there is no room.
    pub(crate) fn expect(
        &self,
        admit: &Admit,
        start: Event,
        plan: &Arc<Plan>,
    ) -> Option<Expected<'_>> {
        if !self.registered.load(Ordering::Acquire) {
            return None;
        }
        let run = admit.run;
        let mut held = self.held();
        let is_full = held.len() >= self.most || held.resident_bytes() >= self.bytes_most;
        if is_full || held.insert(run, BORN, admit.weight).is_some() {
            return None;
        }
        let owner = held.runner();
        drop(held);
        let size = admit.rows.iter().map(|row| row.body.len()).sum();
        let adoption = Adoption {
            run,
            epoch: BORN,
            owner,
            plan: Arc::clone(plan),
            home: Home {
                queue: admit.queue.clone(),
                realm: admit.realm.clone(),
                priority: admit.priority,
            },
            parent: admit.parent.clone(),
            past: Past::Born { start, size },
            mail: Vec::new(),
            seen: 0,
        };
        Some(Expected {
            adopter: self,
            run,
            owner,
            adoption: Some(Box::new(adoption)),
        })
    }

    /// Forget what was held: it belongs to a session that has ended.
    pub(crate) fn begin_as(&self, runner: RunnerId) {
        *self.held() = HeldRuns::of(runner);
    }

    fn held(&self) -> MutexGuard<'_, HeldRuns> {
        self.held.lock().expect("no panic while the set is held")
    }

    /// Of what the store says we own, what is not held.
    pub(crate) fn forgotten(&self, owned: Vec<ClaimedRun>) -> Vec<ClaimedRun> {
        let held = self.held();
        owned
            .into_iter()
            .filter(|run| held.epoch_of(run.run) != Some(run.epoch))
            .collect()
    }

    pub(crate) fn has(&self, run: RunId) -> bool {
        self.held().epoch_of(run).is_some()
    }

    pub(crate) fn holds(&self) -> usize {
        self.held().len()
    }

    /// A run left its shard. Was it held under this epoch? If not, it was claimed anew meanwhile,
    /// or its session has ended.
    pub(crate) fn left(&self, run: RunId, epoch: Epoch) -> bool {
        self.held().remove(run, epoch)
    }

    /// A run takes so many bytes of memory now.
    pub(crate) fn weighs(&self, run: RunId, bytes: usize) {
        self.held().weighs(run, bytes as u64);
    }

    /// How many bytes the runs in memory take, and those on their way.
    pub(crate) fn bytes(&self) -> u64 {
        self.held().bytes()
    }

    /// Load runs and give them to their shards, in the name of the session that claimed them. How
    /// many were not given: some are on their way already, others could not be loaded and are found
    /// again by comparing, for some there is no room and they are given back.
    pub(crate) async fn adopt(&self, owner: RunnerId, runs: &[ClaimedRun]) -> usize {
        let mut fresh = Vec::new();
        let mut dropped = 0;
        for run in runs {
            // One held under an earlier epoch has left the shard, or will; nobody will count that.
            let before = self.held().insert(run.run, run.epoch, run.weight);
            dropped += usize::from(before.is_some());
            if before != Some(run.epoch) {
                fresh.push(run.clone());
            }
        }
        let mut rest = &fresh[..];
        while !rest.is_empty() {
            let _turn = self.loading.lock().await;
            let room = self.held().room(self.bytes_most).min(rest.len());
            if room == 0 {
                let rest = rest.iter().map(|run| (run.run, run.epoch)).collect();
                return dropped + self.give_back(rest, Wake::At(Timestamp::EPOCH)).await.len();
            }
            let (part, others) = rest.split_at(room.min(LOAD));
            dropped += self.adopt_part(owner, part).await;
            rest = others;
        }
        dropped
    }

    async fn adopt_part(&self, owner: RunnerId, part: &[ClaimedRun]) -> usize {
        let ids: Vec<RunId> = part.iter().map(|run| run.run).collect();
        let loaded = match self.store.runs.load(&ids).await {
            Ok(loaded) => loaded,
            Err(StoreError::Corrupt { message }) => {
                return self.adopt_around_damage(owner, part, &message).await;
            }
            Err(error) => {
                tracing::warn!(%error, runs = ids.len(), "claimed runs could not be loaded yet");
                return part
                    .iter()
                    .filter(|claimed| self.left(claimed.run, claimed.epoch))
                    .count();
            }
        };
        let mut dropped = 0;
        for (claimed, loaded) in part.iter().zip(loaded) {
            if let Some(missing) = loaded.as_ref().and_then(Loaded::missing_rows) {
                dropped += self.set_aside(claimed, &missing).await;
                continue;
            }
            let given = self.give(owner, claimed, loaded).await;
            if let Err(error) = &given {
                tracing::error!(run = %claimed.run, %error, "a run cannot be taken up");
            }
            if !given.unwrap_or(false) {
                dropped += usize::from(self.left(claimed.run, claimed.epoch));
            }
        }
        dropped
    }

    /// Something of these runs cannot be read: each is loaded alone, so that one that is damaged is
    /// set aside and its neighbours go on.
    async fn adopt_around_damage(
        &self,
        owner: RunnerId,
        part: &[ClaimedRun],
        damage: &str,
    ) -> usize {
        let mut dropped = 0;
        if let [alone] = part {
            return self.set_aside(alone, damage).await;
        }
        for alone in part.chunks(1) {
            dropped += Box::pin(self.adopt_part(owner, alone)).await;
        }
        dropped
    }

    /// A damaged run leaves the queue with the reason. How many were dropped.
    async fn set_aside(&self, claimed: &ClaimedRun, damage: &str) -> usize {
        let parked = self.park(claimed.run, claimed.epoch, damaged(damage)).await;
        if let Err(error) = parked {
            tracing::error!(run = %claimed.run, %error, "a damaged run cannot be set aside");
        }
        usize::from(self.left(claimed.run, claimed.epoch))
    }

    /// Give a run to its shard; false if it is not ours, or cannot be folded.
    async fn give(
        &self,
        owner: RunnerId,
        claimed: &ClaimedRun,
        loaded: Option<Loaded>,
    ) -> StoreResult<bool> {
        let Some(loaded) = loaded else {
            return Err(lope_store::StoreError::corrupt("it has no record"));
        };
        // What the store said we own may have ended, or gone to another, before it was loaded.
        if loaded.record.owner != Some(owner) || loaded.record.epoch != claimed.epoch {
            return Ok(false);
        }
        let plan = match self.plans.get(&self.store, claimed.version).await {
            Ok(plan) => plan,
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => {
                return self
                    .park(claimed.run, claimed.epoch, error.to_string())
                    .await
                    .map(|()| false);
            }
        };
        let blobs = match self.blobs(claimed.run, &loaded).await? {
            Ok(blobs) => blobs,
            Err(unreadable) => {
                return self
                    .park(claimed.run, claimed.epoch, unreadable.to_string())
                    .await
                    .map(|()| false);
            }
        };
        let large: usize = blobs.values().map(Vec::len).sum();
        self.weighs(claimed.run, loaded.size() + large);
        let adoption = Adoption {
            run: claimed.run,
            epoch: claimed.epoch,
            owner,
            plan,
            home: Home {
                queue: claimed.queue.clone(),
                realm: claimed.realm.clone(),
                priority: claimed.priority,
            },
            parent: loaded.record.parent,
            past: Past::Stored {
                snapshot: loaded.snapshot,
                rows: loaded.rows,
                blobs,
            },
            mail: loaded.mail,
            seen: loaded.record.mail,
        };
        self.shards
            .send(claimed.run, ShardInput::Adopt(Box::new(adoption)));
        Ok(true)
    }

    /// The large values that a run's snapshot and journal refer to.
    async fn blobs(&self, run: RunId, loaded: &Loaded) -> StoreResult<Result<Blobs, Unreadable>> {
        match codec::needs(loaded.snapshot.as_ref(), &loaded.rows) {
            Ok(digests) => Ok(Ok(query::fetch(&self.store, run, digests).await?)),
            Err(unreadable) => Ok(Err(unreadable)),
        }
    }

    /// Put a run that cannot be folded aside, with the reason, for a person to look at.
    pub(crate) async fn park(&self, run: RunId, epoch: Epoch, reason: String) -> StoreResult<()> {
        tracing::error!(%run, %reason, "a run is set aside: `lope runs why` tells what mends it");
        let release = Release {
            status: LiveStatus::Paused,
            wake: Wake::parked(reason),
            seen: u64::MAX,
        };
        self.store
            .runs
            .commit(vec![let_go(run, self.runner(), epoch, release)])
            .await
            .map(drop)
    }

    /// Mail to the shards of its runs.
    pub(crate) fn hand_over(&self, mail: Vec<(RunId, Vec<Mail>)>) {
        self.shards.send_all(
            mail.into_iter()
                .map(|(run, mail)| (run, ShardInput::Mail(run, mail))),
        );
    }
}

/// A commit that writes nothing and lets a run go.
fn let_go(run: RunId, owner: RunnerId, epoch: Epoch, release: Release) -> RunCommit {
    RunCommit::new(run, owner, epoch, Then::Release(release))
}
