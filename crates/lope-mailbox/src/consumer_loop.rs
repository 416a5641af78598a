//! The consumer loop: a consumer with a loop around it. It ticks while there is work, sleeps when
//! there is none, wakes when the store notifies it or a timer is due, and stops when asked.
//!
//! The loop runs where the host calls `run`, or on a thread of its own between `start` and `join`.

mod error;
#[cfg(all(test, not(feature = "threads")))]
mod no_threads;
mod pool;
mod run;
#[cfg(feature = "threads")]
mod thread;

use std::sync::Arc;

use lope_model::Span;
use lope_store::Tables;

pub use error::ConsumerLoopError;
pub use pool::ConsumerPool;
pub use run::Until;

use crate::config::ConsumerConfig;
use crate::consumer::{Consumer, Tally};
use crate::counters::Counters;
use crate::error::{BootError, ConsumerError};
use crate::handler::Handler;
use crate::stop::StopSignal;
use crate::time::TimeHooks;
use crate::trace::Observer;

/// A consumer that can be ticked by hand, run, or started on a thread.
#[derive(Debug)]
pub struct ConsumerLoop {
    location: Location,
    stop: StopSignal,
    counters: Arc<Counters>,
}

#[derive(Debug)]
enum Location {
    Here(Box<Consumer>),
    #[cfg(feature = "threads")]
    Thread(thread::ConsumerThread),
    /// Its thread ended without giving it back.
    #[cfg(feature = "threads")]
    Gone,
}

impl ConsumerLoop {
    /// Boot a consumer for this worker.
    pub async fn init(
        tables: Arc<dyn Tables>,
        handler: Arc<dyn Handler>,
        config: ConsumerConfig,
        time: TimeHooks,
    ) -> Result<Self, BootError> {
        let mut consumer = Consumer::new(tables, handler, config);
        consumer.set_time(time);
        consumer.boot().await?;
        Ok(Self::of(consumer))
    }

    /// A loop around a consumer that was made by hand.
    pub fn of(consumer: Consumer) -> Self {
        let (stop, counters) = (consumer.stop().clone(), Arc::clone(consumer.counters()));
        Self {
            location: Location::Here(Box::new(consumer)),
            stop,
            counters,
        }
    }

    fn consumer(&mut self) -> Result<&mut Consumer, ConsumerLoopError> {
        match &mut self.location {
            Location::Here(consumer) => Ok(consumer),
            #[cfg(feature = "threads")]
            Location::Thread(_) => Err(ConsumerLoopError::Busy),
            #[cfg(feature = "threads")]
            Location::Gone => Err(ConsumerLoopError::Panicked),
        }
    }

    /// Handle up to `max_batch` messages across inbox and due timers.
    pub async fn tick(&mut self) -> Result<Tally, ConsumerLoopError> {
        Ok(self.consumer()?.tick().await?)
    }

    /// The longest sleep when there is nothing to do.
    pub fn set_idle_policy(&mut self, max_idle: Span) -> Result<(), ConsumerLoopError> {
        self.consumer()?.config_mut().max_idle = max_idle;
        Ok(())
    }

    pub fn set_time_hooks(&mut self, time: TimeHooks) -> Result<(), ConsumerLoopError> {
        self.consumer()?.set_time(time);
        Ok(())
    }

    pub fn set_observer(&mut self, observer: Arc<dyn Observer>) -> Result<(), ConsumerLoopError> {
        self.consumer()?.set_observer(observer);
        Ok(())
    }

    /// How long the worker would sleep now.
    pub async fn idle_sleep(&mut self) -> Result<Span, ConsumerLoopError> {
        Ok(self
            .consumer()?
            .idle_sleep()
            .await
            .map_err(ConsumerError::from)?)
    }

    /// Ask for a stop: no new work, the current message finishes.
    pub fn request_stop(&self) {
        self.stop.request();
    }

    /// What asks this worker to stop, for others to hold.
    pub fn stop(&self) -> StopSignal {
        self.stop.clone()
    }

    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Work until asked to stop, or until there is nothing to do. Leases are given back before this
    /// returns.
    pub async fn run(&mut self, until: Until) -> Result<(), ConsumerLoopError> {
        Ok(run::run_until(self.consumer()?, until).await?)
    }

    /// Stop and give back what is held. A worker that was shut down answers busy.
    pub async fn shutdown(&mut self) -> Result<(), ConsumerLoopError> {
        self.stop.request();
        Ok(self
            .consumer()?
            .shutdown()
            .await
            .map_err(ConsumerError::from)?)
    }

    /// Work on a thread of its own until asked to stop.
    #[cfg(feature = "threads")]
    pub fn start(&mut self) -> Result<(), ConsumerLoopError> {
        self.consumer()?;
        let Location::Here(consumer) = std::mem::replace(&mut self.location, Location::Gone) else {
            return Err(ConsumerLoopError::Busy);
        };
        self.location = Location::Thread(thread::ConsumerThread::start(consumer)?);
        Ok(())
    }

    /// Wait until the thread has ended. Blocks; ask for a stop first.
    #[cfg(feature = "threads")]
    pub fn join(&mut self) -> Result<(), ConsumerLoopError> {
        match std::mem::replace(&mut self.location, Location::Gone) {
            Location::Thread(running) => {
                let (consumer, result) = running.join()?;
                self.location = Location::Here(consumer);
                Ok(result?)
            }
            location => {
                self.location = location;
                Err(ConsumerLoopError::NotStarted)
            }
        }
    }

    #[cfg(not(feature = "threads"))]
    pub fn start(&mut self) -> Result<(), ConsumerLoopError> {
        Err(ConsumerLoopError::NoThreads)
    }

    #[cfg(not(feature = "threads"))]
    pub fn join(&mut self) -> Result<(), ConsumerLoopError> {
        Err(ConsumerLoopError::NoThreads)
    }
}
