//! The worker shell: a runner with a loop around it. It ticks while there is work, sleeps when there is none, wakes when the
//! store rings or a timer is due, and stops when asked.
//!
//! The loop runs where the host calls `run`, or on a thread of its own between `start` and `join`.

mod crew;
mod error;
mod shift;
#[cfg(feature = "threads")]
mod thread;

use std::sync::Arc;

use lope_model::Span;
use lope_store::Tables;

pub use crew::Crew;
pub use error::WorkerError;
pub use shift::Until;

use crate::config::Config;
use crate::counters::Counters;
use crate::error::{BootError, RunnerError};
use crate::handler::Handler;
use crate::runner::{Runner, Tally};
use crate::stop::Stop;
use crate::time::TimeHooks;
use crate::trace::Observer;

/// A worker that can be ticked by hand, run, or started on a thread.
#[derive(Debug)]
pub struct Worker {
    place: Location,
    stop: Stop,
    counters: Arc<Counters>,
}

#[derive(Debug)]
enum Location {
    Here(Box<Runner>),
    #[cfg(feature = "threads")]
    Thread(thread::Running),
    /// Its thread ended without giving it back.
    #[cfg(feature = "threads")]
    Gone,
}

impl Worker {
    /// Boot a runner for this worker.
    pub async fn init(
        tables: Arc<dyn Tables>,
        handler: Arc<dyn Handler>,
        config: Config,
        time: TimeHooks,
    ) -> Result<Self, BootError> {
        let mut runner = Runner::new(tables, handler, config);
        runner.set_time(time);
        runner.boot().await?;
        Ok(Self::of(runner))
    }

    /// A worker around a runner that was made by hand.
    pub fn of(runner: Runner) -> Self {
        let (stop, counters) = (runner.stop().clone(), Arc::clone(runner.counters()));
        Self { place: Location::Here(Box::new(runner)), stop, counters }
    }

    fn runner(&mut self) -> Result<&mut Runner, WorkerError> {
        match &mut self.place {
            Location::Here(runner) => Ok(runner),
            #[cfg(feature = "threads")]
            Location::Thread(_) => Err(WorkerError::Busy),
            #[cfg(feature = "threads")]
            Location::Gone => Err(WorkerError::Panicked),
        }
    }

    /// Handle up to `max_batch` messages across inbox and due timers.
    pub async fn tick(&mut self) -> Result<Tally, WorkerError> {
        Ok(self.runner()?.tick().await?)
    }

    /// The longest sleep when there is nothing to do.
    pub fn set_idle_policy(&mut self, max_idle: Span) -> Result<(), WorkerError> {
        self.runner()?.config_mut().max_idle = max_idle;
        Ok(())
    }

    pub fn set_time_hooks(&mut self, time: TimeHooks) -> Result<(), WorkerError> {
        self.runner()?.set_time(time);
        Ok(())
    }

    pub fn set_observer(&mut self, observer: Arc<dyn Observer>) -> Result<(), WorkerError> {
        self.runner()?.set_observer(observer);
        Ok(())
    }

    /// How long the worker would sleep now.
    pub async fn idle_sleep(&mut self) -> Result<Span, WorkerError> {
        Ok(self.runner()?.idle_sleep().await.map_err(RunnerError::from)?)
    }

    /// Ask for a stop: no new work, the current message finishes.
    pub fn request_stop(&self) {
        self.stop.request();
    }

    /// What asks this worker to stop, for others to hold.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Work until asked to stop, or until there is nothing to do. Leases are given back before this returns.
    pub async fn run(&mut self, until: Until) -> Result<(), WorkerError> {
        Ok(shift::work(self.runner()?, until).await?)
    }

    /// Stop and give back what is held. A worker that was shut down answers busy.
    pub async fn shutdown(&mut self) -> Result<(), WorkerError> {
        self.stop.request();
        Ok(self.runner()?.shutdown().await.map_err(RunnerError::from)?)
    }

    /// Work on a thread of its own until asked to stop.
    #[cfg(feature = "threads")]
    pub fn start(&mut self) -> Result<(), WorkerError> {
        self.runner()?;
        let Location::Here(runner) = std::mem::replace(&mut self.place, Location::Gone) else {
            return Err(WorkerError::Busy);
        };
        self.place = Location::Thread(thread::Running::start(runner)?);
        Ok(())
    }

    /// Wait until the thread has ended. Blocks; ask for a stop first.
    #[cfg(feature = "threads")]
    pub fn join(&mut self) -> Result<(), WorkerError> {
        match std::mem::replace(&mut self.place, Location::Gone) {
            Location::Thread(running) => {
                let (runner, result) = running.join()?;
                self.place = Location::Here(runner);
                Ok(result?)
            }
            place => {
                self.place = place;
                Err(WorkerError::NotStarted)
            }
        }
    }

    #[cfg(not(feature = "threads"))]
    pub fn start(&mut self) -> Result<(), WorkerError> {
        Err(WorkerError::NoThreads)
    }

    #[cfg(not(feature = "threads"))]
    pub fn join(&mut self) -> Result<(), WorkerError> {
        Err(WorkerError::NoThreads)
    }
}
