//! The runner: one worker's inbox, timers and leases on a store. It reads, asks the law, calls the handler, commits.
//!
//! Life of a message: `claim` puts a lease on a batch; `work` calls the handler for one message after the other, outside any
//! transaction, and stages what it wants; the staged steps are committed in one call, each a batch of its own: guards on
//! lease, row and reads, then state, outbox, timers, dedupe row, and the removal of the message and its lease. What a
//! commit refuses is handled again with a fresh view.
//!
//! **Leases.** A claim writes one row a *stretch* of messages and not one a message: that is what makes batches cheap. All that
//! a lease promises of a message holds of a stretch: it has owner, deadline, attempts and epoch, it is in the lease table
//! before a handler is called, and every commit about a message in it is refused once the row has changed. When its holder dies,
//! it is taken over in ever smaller pieces, so that attempts are counted against the message that was in hand. A message
//! that stands alone, or failed before, has a row under its own inbox key. Claims of one worker are put in line by its head
//! row, so two never take the same message; the head counts them, which makes epochs that never restart.

mod attend;
mod chores;
mod claim;
mod forward;
mod hand;
mod handed;
mod settle;
mod step;
mod turn;
mod upkeep;
mod work;

use std::sync::Arc;

use lope_model::{Epoch, Moment};
use lope_store::Tables;
use lope_store::tables::{Batch, Manifest};

pub use hand::Tally;

use crate::config::Config;
use crate::counters::Counters;
use crate::error::BootError;
use crate::handler::Handler;
use crate::law::floor::Floor;
use crate::law::weight::Weight;
use crate::stop::Stop;
use crate::time::TimeHooks;
use crate::trace::Observer;
use chores::Chores;
use hand::Hand;

/// One worker on one store.
pub struct Runner {
    tables: Arc<dyn Tables>,
    handler: Arc<dyn Handler>,
    config: Config,
    time: TimeHooks,
    counters: Arc<Counters>,
    observer: Option<Arc<dyn Observer>>,
    stop: Stop,
    state: State,
    /// The first claim of this process, and the claims whose messages it has in hand.
    since: Option<Epoch>,
    in_hand: Vec<Epoch>,
    inbox_floor: Floor,
    timer_floor: Floor,
    weight: Weight,
    /// Did the last claim leave messages because they were too large to be held at once?
    cut_short: bool,
    /// Claims in a row that left nothing for timers.
    starved: u32,
    /// Leases of others that stood in the way of the last claim, and when the first of them ends.
    busy: usize,
    next_open: Option<Moment>,
    /// A claim made ahead, while the batch before it was committed.
    ahead: Option<Hand>,
    /// Leases to be given back with the next commit, and the claims that they are of.
    closing: Vec<Batch>,
    closing_epochs: Vec<Epoch>,
    chores: Chores,
}

/// Does a runner run?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunnerState {
    /// It was not booted, was shut down, or its boot failed with this error.
    Stopped(Option<BootError>),
    Running,
}

enum State {
    Stopped(Option<BootError>),
    Running(Arc<Manifest>),
}

impl Runner {
    /// A runner that is not running yet.
    pub fn new(tables: Arc<dyn Tables>, handler: Arc<dyn Handler>, config: Config) -> Self {
        Self {
            tables,
            handler,
            config,
            time: TimeHooks::default(),
            counters: Arc::default(),
            observer: None,
            stop: Stop::default(),
            state: State::Stopped(None),
            since: None,
            in_hand: Vec::new(),
            inbox_floor: Floor::default(),
            timer_floor: Floor::default(),
            weight: Weight::default(),
            cut_short: false,
            starved: 0,
            busy: 0,
            next_open: None,
            ahead: None,
            closing: Vec::new(),
            closing_epochs: Vec::new(),
            chores: Chores::default(),
        }
    }

    pub fn set_time(&mut self, time: TimeHooks) {
        self.time = time;
    }

    /// Count into these, which others may share.
    pub fn set_counters(&mut self, counters: Arc<Counters>) {
        self.counters = counters;
    }

    /// Show every attempt and its result to this observer.
    pub fn set_observer(&mut self, observer: Arc<dyn Observer>) {
        self.observer = Some(observer);
    }

    /// Stop when this is requested.
    pub fn set_stop(&mut self, stop: Stop) {
        self.stop = stop;
    }

    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    pub fn time(&self) -> &TimeHooks {
        &self.time
    }

    pub fn tables(&self) -> &Arc<dyn Tables> {
        &self.tables
    }

    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    pub fn state(&self) -> RunnerState {
        match &self.state {
            State::Stopped(why) => RunnerState::Stopped(why.clone()),
            State::Running(_) => RunnerState::Running,
        }
    }

    /// Open the tables, check the schema marker, run. Whatever fails, the runner stays stopped with that error.
    pub async fn boot(&mut self) -> Result<(), BootError> {
        match crate::boot::boot(&*self.tables, &self.config.boot).await {
            Ok(manifest) => {
                self.state = State::Running(Arc::new(manifest));
                Ok(())
            }
            Err(error) => {
                self.state = State::Stopped(Some(error.clone()));
                Err(error)
            }
        }
    }

    fn manifest(&self) -> Option<Arc<Manifest>> {
        match &self.state {
            State::Running(manifest) => Some(Arc::clone(manifest)),
            State::Stopped(_) => None,
        }
    }

    fn take_closing(&mut self) -> Vec<Batch> {
        let epochs = std::mem::take(&mut self.closing_epochs);
        self.in_hand.retain(|epoch| !epochs.contains(epoch));
        std::mem::take(&mut self.closing)
    }
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("config", &self.config).field("state", &self.state()).finish_non_exhaustive()
    }
}
