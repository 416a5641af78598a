//! The consumer: one worker's inbox, timers and leases on a store. It reads, asks the law, calls
//! the handler, commits.
//!
//! Life of a message: `claim` puts a lease on a batch; `handle_batch` calls the handler for one
//! message after the other, outside any transaction, and stages what it wants; the staged steps are
//! committed in one call, each a batch of its own: guards on lease, row and reads, then state,
//! outbox, timers, dedupe row, and the removal of the message and its lease. What a commit refuses
//! is handled again with a fresh view.
//!
//! **Leases.** A claim writes one row a *stretch* of messages and not one a message: that is what
//! makes batches cheap. All that a lease promises of a message holds of a stretch: it has owner,
//! deadline, attempts and epoch, it is in the lease table before a handler is called, and every
//! commit about a message in it is refused once the row has changed. When its holder dies, it is
//! taken over in ever smaller pieces, so that attempts are counted against the message that was in
//! hand. A message that stands alone, or failed before, has a row under its own inbox key. Claims
//! of one worker are put in line by its head row, so two never take the same message; the head
//! counts them, which makes epochs that never restart.

mod call;
mod claim;
mod claimed_batch;
mod forward;
mod handle;
mod poll;
mod run_step;
mod settle;
mod step;
mod upkeep;
mod upkeep_schedule;

use std::sync::Arc;

use lope_model::{Epoch, Moment};
use lope_store::Tables;
use lope_store::tables::{Batch, Manifest};

pub use claimed_batch::Tally;

use crate::config::ConsumerConfig;
use crate::counters::Counters;
use crate::error::BootError;
use crate::handler::Handler;
use crate::law::read_cursor::ReadCursor;
use crate::law::weight::Weight;
use crate::stop::StopSignal;
use crate::time::TimeHooks;
use crate::trace::Observer;
use claimed_batch::ClaimedBatch;
use upkeep_schedule::UpkeepSchedule;

/// One worker on one store.
pub struct Consumer {
    tables: Arc<dyn Tables>,
    handler: Arc<dyn Handler>,
    config: ConsumerConfig,
    time: TimeHooks,
    counters: Arc<Counters>,
    observer: Option<Arc<dyn Observer>>,
    stop: StopSignal,
    state: BootState,
    /// The first claim of this process, and the claims whose messages it has in hand.
    since: Option<Epoch>,
    claimed_epochs: Vec<Epoch>,
    inbox_cursor: ReadCursor,
    timer_cursor: ReadCursor,
    weight: Weight,
    /// Did the last claim leave messages because they were too large to be held at once?
    cut_short: bool,
    /// Claims in a row that left nothing for timers.
    starved: u32,
    /// Leases of others that stood in the way of the last claim, and when the first of them ends.
    busy: usize,
    next_open: Option<Moment>,
    /// A claim made ahead, while the batch before it was committed.
    ahead: Option<ClaimedBatch>,
    /// Leases to be given back with the next commit, and the claims that they are of.
    closing: Vec<Batch>,
    closing_epochs: Vec<Epoch>,
    upkeep: UpkeepSchedule,
}

/// Does a consumer run?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsumerState {
    /// It was not booted, was shut down, or its boot failed with this error.
    Stopped(Option<BootError>),
    Running,
}

enum BootState {
    Stopped(Option<BootError>),
    Running(Arc<Manifest>),
}

impl Consumer {
    /// A consumer that is not running yet.
    pub fn new(tables: Arc<dyn Tables>, handler: Arc<dyn Handler>, config: ConsumerConfig) -> Self {
        Self {
            tables,
            handler,
            config,
            time: TimeHooks::default(),
            counters: Arc::default(),
            observer: None,
            stop: StopSignal::default(),
            state: BootState::Stopped(None),
            since: None,
            claimed_epochs: Vec::new(),
            inbox_cursor: ReadCursor::default(),
            timer_cursor: ReadCursor::default(),
            weight: Weight::default(),
            cut_short: false,
            starved: 0,
            busy: 0,
            next_open: None,
            ahead: None,
            closing: Vec::new(),
            closing_epochs: Vec::new(),
            upkeep: UpkeepSchedule::default(),
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
    pub fn set_stop(&mut self, stop: StopSignal) {
        self.stop = stop;
    }

    pub fn stop(&self) -> &StopSignal {
        &self.stop
    }

    pub fn config(&self) -> &ConsumerConfig {
        &self.config
    }

    pub fn config_mut(&mut self) -> &mut ConsumerConfig {
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

    pub fn state(&self) -> ConsumerState {
        match &self.state {
            BootState::Stopped(why) => ConsumerState::Stopped(why.clone()),
            BootState::Running(_) => ConsumerState::Running,
        }
    }

    /// Open the tables, check the schema marker, run. Whatever fails, the consumer stays stopped
    /// with that error.
    pub async fn boot(&mut self) -> Result<(), BootError> {
        match crate::boot::boot(&*self.tables, &self.config.boot).await {
            Ok(manifest) => {
                self.state = BootState::Running(Arc::new(manifest));
                Ok(())
            }
            Err(error) => {
                self.state = BootState::Stopped(Some(error.clone()));
                Err(error)
            }
        }
    }

    fn manifest(&self) -> Option<Arc<Manifest>> {
        match &self.state {
            BootState::Running(manifest) => Some(Arc::clone(manifest)),
            BootState::Stopped(_) => None,
        }
    }

    fn take_closing(&mut self) -> Vec<Batch> {
        let epochs = std::mem::take(&mut self.closing_epochs);
        self.claimed_epochs.retain(|epoch| !epochs.contains(epoch));
        std::mem::take(&mut self.closing)
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer")
            .field("config", &self.config)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
