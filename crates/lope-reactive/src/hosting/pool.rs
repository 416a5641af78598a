//! A pool of threads that host spaces: a dispatcher finds the spaces that need a host and wakes
//! them by name; each space lives on the thread that its name falls to.
//!
//! Scripts belong to the thread they were made on, so a space never changes threads. A thread has a
//! runtime of its own on which its spaces take turns; store calls and effects run on the runtime
//! that the pool was started on.

mod host_thread;
mod space_loop;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use lope_cells::id::SpaceName;
use lope_model::{Clock, Digest, Failure, Span, Timestamp};
use lope_store::Tables;
use tokio::sync::{Notify, mpsc, watch};

use super::HostError;
use super::directory::Directory;
use super::effects::{EffectPerformer, RequestedEffect};
use super::lease::HostIdentity;
use super::on_runtime::OnRuntime;
use crate::limit;
use crate::machine::{NOT_DEPLOYED, SpaceAction, SpaceCommand};
use crate::module::Modules;
use lope_cells::javascript::ScriptLimits;

/// Longest time between two looks for spaces that need a host.
const POLL: Span = Span::from_secs(2);

/// How often old receipts and changes are deleted.
const PRUNE_EVERY: Span = Span::from_secs(10 * 60);

/// How a pool hosts spaces.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    pub identity: HostIdentity,
    pub threads: usize,
    /// How long a host that does not answer keeps its spaces.
    pub lease: Span,
    /// How long a space that has nothing to do is kept in memory.
    pub idle: Span,
    pub modules: Modules,
    pub scripts: ScriptLimits,
}

impl PoolOptions {
    pub fn new(identity: HostIdentity) -> Self {
        Self {
            identity,
            threads: 2,
            lease: Span::from_secs(15),
            idle: Span::from_secs(60),
            modules: Modules::default(),
            scripts: ScriptLimits::default(),
        }
    }
}

/// Threads that host spaces until the pool is stopped.
pub struct SpacePool {
    inner: Arc<SpacePoolInner>,
    wakes: Vec<mpsc::UnboundedSender<SpaceName>>,
    threads: Vec<JoinHandle<()>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    stop: watch::Sender<bool>,
}

/// What the threads of a pool have together.
struct SpacePoolInner {
    directory: Directory,
    clock: Arc<dyn Clock>,
    performer: Arc<dyn EffectPerformer>,
    options: PoolOptions,
    runtime: tokio::runtime::Handle,
    /// Spaces that somebody else has, and when to try again.
    held: Mutex<BTreeMap<SpaceName, Timestamp>>,
    /// Spaces that cannot be hosted as they are, and why.
    broken: Mutex<BTreeMap<SpaceName, String>>,
    /// Spaces that are to be woken whatever changes, because they look at others.
    onlookers: Mutex<BTreeSet<SpaceName>>,
    /// Effects under way, and who waits for their end.
    effects: AtomicUsize,
    effects_done: Notify,
    /// Spaces that have something to do.
    at_work: Mutex<BTreeSet<SpaceName>>,
    /// Effects that cannot be begun yet, by space and key.
    parked: Mutex<BTreeSet<(SpaceName, Arc<str>)>>,
    stopped: watch::Receiver<bool>,
}

impl SpacePool {
    /// Hosts every space of a store that needs a host.
    pub async fn start(
        tables: Arc<dyn Tables>,
        clock: Arc<dyn Clock>,
        performer: Arc<dyn EffectPerformer>,
        options: PoolOptions,
    ) -> Result<Self, HostError> {
        let mut pool = Self::start_quiet(Arc::clone(&tables), clock, performer, options).await?;
        let look = look_for_spaces(
            Arc::clone(&pool.inner),
            pool.wakes.clone(),
            tables.watch(),
            pool.stop.subscribe(),
        );
        pool.tasks.push(tokio::spawn(look));
        let pruning = prune_spaces(Arc::clone(&pool.inner));
        pool.tasks.push(tokio::spawn(pruning));
        Ok(pool)
    }

    /// Hosts the spaces it is woken for.
    pub(super) async fn start_quiet(
        tables: Arc<dyn Tables>,
        clock: Arc<dyn Clock>,
        performer: Arc<dyn EffectPerformer>,
        options: PoolOptions,
    ) -> Result<Self, HostError> {
        let runtime = tokio::runtime::Handle::current();
        let tables: Arc<dyn Tables> = Arc::new(OnRuntime::new(tables, runtime.clone()));
        let options = PoolOptions {
            identity: options.identity.apart().retaking(),
            ..options
        };
        let stop = watch::Sender::new(false);
        let inner = Arc::new(SpacePoolInner {
            directory: Directory::open(tables).await?,
            clock,
            performer,
            options,
            runtime,
            held: Mutex::default(),
            broken: Mutex::default(),
            onlookers: Mutex::default(),
            effects: AtomicUsize::new(0),
            effects_done: Notify::new(),
            at_work: Mutex::default(),
            parked: Mutex::default(),
            stopped: stop.subscribe(),
        });
        inner.renew().await?;
        let renewal = keep_spaces(Arc::clone(&inner), stop.subscribe());
        let mut pool = Self {
            wakes: Vec::new(),
            threads: Vec::new(),
            tasks: vec![tokio::spawn(renewal)],
            inner,
            stop,
        };
        for number in 0..pool.inner.options.threads.max(1) {
            let (wake, woken) = mpsc::unbounded_channel();
            let inner = Arc::clone(&pool.inner);
            let stopped = pool.stop.subscribe();
            let thread = std::thread::Builder::new().name(format!("spaces-{number}"));
            let thread = thread.spawn(move || host_thread::run(inner, woken, stopped));
            pool.threads.push(thread.map_err(HostError::Thread)?);
            pool.wakes.push(wake);
        }
        Ok(pool)
    }

    /// Has a space looked at now.
    pub fn wake(&self, space: &SpaceName) {
        wake(&self.wakes, space.clone());
    }

    /// Why a space cannot be hosted, if that was found out.
    pub(super) fn why_broken(&self, space: &SpaceName) -> Option<String> {
        self.inner.broken().get(space).cloned()
    }

    /// Waits for the effects under way, and until nothing is left to run of what is too much for one wave,
    /// then stops.
    pub(super) async fn finish(self) {
        let inner = &self.inner;
        while inner.effects.load(Ordering::Acquire) > 0 || !inner.at_work().is_empty() {
            self.inner.effects_done.notified().await;
        }
        self.stop().await;
    }

    /// Gives every space back and ends the threads. Effects under way are asked for again by
    /// whoever takes their space.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        self.wakes.clear();
        let threads = std::mem::take(&mut self.threads);
        let joined = tokio::task::spawn_blocking(move || {
            threads.into_iter().for_each(|thread| {
                // A thread that panicked has told so, and its spaces are free when its lease ends.
                let _ = thread.join();
            });
        });
        let _ = joined.await;
        for task in &self.tasks {
            task.abort();
        }
        let owner = Arc::clone(&self.inner.options.identity.owner);
        if let Err(error) = self.inner.directory.end_host(&owner).await {
            tracing::warn!(%error, "the spaces are free when the lease ends");
        }
    }
}

impl Drop for SpacePool {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

impl SpacePoolInner {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn renew(&self) -> Result<(), HostError> {
        let until = self.now().plus(self.options.lease);
        let owner = &self.options.identity.owner;
        self.directory.renew_host(owner, until).await
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<SpaceName, Timestamp>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn broken(&self) -> MutexGuard<'_, BTreeMap<SpaceName, String>> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at_work(&self) -> MutexGuard<'_, BTreeSet<SpaceName>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A space has nothing to do for now.
    fn rests(&self, space: &SpaceName) {
        self.at_work().remove(space);
        self.tell_finisher();
    }

    /// Whoever waits for the end of what is under way looks again.
    fn tell_finisher(&self) {
        self.effects_done.notify_waiters();
        self.effects_done.notify_one();
    }

    fn is_stopped(&self) -> bool {
        *self.stopped.borrow()
    }

    fn parked(&self) -> MutexGuard<'_, BTreeSet<(SpaceName, Arc<str>)>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn onlookers(&self) -> MutexGuard<'_, BTreeSet<SpaceName>> {
        self.onlookers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Does an effect, and tells the space what came of it. `attempt` tells this time from earlier
    /// ones.
    fn perform(self: &Arc<Self>, effect: RequestedEffect, attempt: String) {
        self.effects.fetch_add(1, Ordering::AcqRel);
        let inner = Arc::clone(self);
        self.runtime.spawn(async move {
            if let Some(wait) = effect.chain.wait() {
                tokio::time::sleep(wait.to_duration()).await;
            }
            let outcome = inner.performer.perform(&effect).await;
            let is_early = matches!(&outcome, Some(Err(why)) if &*why.kind == NOT_DEPLOYED);
            if let Some(outcome) = outcome {
                let key = effect.key.clone();
                let done = SpaceAction::EffectDone { key, outcome };
                let id = format!("effect:{}:{attempt}", effect.key);
                inner.tell(&effect, id, done).await;
            }
            inner.effects.fetch_sub(1, Ordering::AcqRel);
            inner.tell_finisher();
            if is_early {
                inner.ask_later(&effect, &attempt).await;
            }
        });
    }

    /// Has a space ask for an effect again once that can be begun, if it still wants it.
    async fn ask_later(&self, effect: &RequestedEffect, attempt: &str) {
        let parked = (effect.space.clone(), Arc::clone(&effect.key));
        let is_first = self.parked().insert(parked.clone());
        if !is_first {
            return;
        }
        while !self.is_stopped() && !self.performer.can_begin(effect).await {
            tokio::time::sleep(POLL.to_duration()).await;
        }
        self.parked().remove(&parked);
        if !self.is_stopped() {
            let key = effect.key.clone();
            let request = effect.asked();
            let again = SpaceAction::EffectAgain { key, request };
            let id = format!("effect-again:{}:{attempt}", effect.key);
            self.tell(effect, id, again).await;
        }
    }

    /// Puts what became of an effect before its space, again and again until the store takes it.
    async fn tell(&self, effect: &RequestedEffect, id: String, action: SpaceAction) {
        let id = id.into();
        let mut command = SpaceCommand { id, action };
        let store = self.directory.space(effect.space.clone());
        let mut pause = Span::from_millis(100);
        while let Err(error) = store.ask_after(&command, effect.chain.clone()).await {
            if let (HostError::Message(bad), SpaceAction::EffectDone { outcome, .. }) =
                (&error, &mut command.action)
                && outcome.is_ok()
            {
                *outcome = Err(Failure::new("TooLarge", bad.to_string()));
                continue;
            }
            if !error.is_passing() {
                tracing::warn!(space = %effect.space, %error, "an outcome cannot be told");
                return;
            }
            tokio::time::sleep(pause.to_duration()).await;
            pause = pause.times(2).min(Span::from_secs(10));
        }
    }
}

/// Finds spaces that need a host and wakes them, when something changed and now and then.
async fn look_for_spaces(
    inner: Arc<SpacePoolInner>,
    wakes: Vec<mpsc::UnboundedSender<SpaceName>>,
    mut changes: lope_store::watch::Watch,
    mut stop: watch::Receiver<bool>,
) {
    while !*stop.borrow() {
        match inner.directory.needing_hosts().await {
            Ok(spaces) => {
                let now = inner.now();
                inner.held().retain(|_, until| *until > now);
                let is_held = |space: &SpaceName| inner.held().contains_key(space);
                let onlookers = inner.onlookers().clone();
                let wanted = spaces.into_iter().filter(|space| !is_held(space));
                let wanted: BTreeSet<SpaceName> = wanted.chain(onlookers).collect();
                wanted.into_iter().for_each(|space| wake(&wakes, space));
            }
            Err(error) => tracing::warn!(%error, "cannot look for spaces that need a host"),
        }
        tokio::select! {
            () = changes.changed() => {}
            () = tokio::time::sleep(POLL.to_duration()) => {}
            _ = stop.changed() => {}
        }
    }
}

/// Renews the lease of this host on all its spaces.
async fn keep_spaces(inner: Arc<SpacePoolInner>, mut stop: watch::Receiver<bool>) {
    let pause = inner.options.lease.to_duration() / 4;
    while !*stop.borrow() {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.changed() => return,
        }
        if let Err(error) = inner.renew().await {
            tracing::warn!(%error, "the lease on spaces was not renewed");
        }
    }
}

/// Forgets what is older than it is kept, now and then.
async fn prune_spaces(inner: Arc<SpacePoolInner>) {
    loop {
        tokio::time::sleep(PRUNE_EVERY.to_duration()).await;
        let before = inner.now().minus(limit::RECEIPT_KEPT);
        match inner.directory.prune(before, false).await {
            Ok(rows) => tracing::debug!(rows, "old receipts and changes of spaces are gone"),
            Err(error) => tracing::warn!(%error, "old rows of spaces were not deleted"),
        }
    }
}

/// The thread that a space lives on is told.
fn wake(wakes: &[mpsc::UnboundedSender<SpaceName>], space: SpaceName) {
    let place = Digest::of(space.as_str().as_bytes()).short() as usize;
    if let Some(thread) = wakes.get(place % wakes.len().max(1)) {
        // A thread that is gone has no spaces.
        let _ = thread.send(space);
    }
}

impl fmt::Debug for SpacePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpacePool")
            .field("threads", &self.wakes.len())
            .finish_non_exhaustive()
    }
}
