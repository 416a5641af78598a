//! A pool: consumers that are started, stopped and joined together. They may serve one inbox or
//! many; on one store their commits are grouped by the store.

use super::{ConsumerLoop, ConsumerLoopError};
use crate::counters::MailboxCounts;

/// Consumers under one command.
#[derive(Debug, Default)]
pub struct ConsumerPool {
    consumers: Vec<ConsumerLoop>,
}

impl ConsumerPool {
    pub fn add(&mut self, consumer: ConsumerLoop) {
        self.consumers.push(consumer);
    }

    pub fn consumers(&self) -> &[ConsumerLoop] {
        &self.consumers
    }

    /// Start every consumer on a thread of its own. If one cannot be, those before it are stopped
    /// again.
    pub fn start(&mut self) -> Result<(), ConsumerLoopError> {
        for index in 0..self.consumers.len() {
            if let Err(error) = self.consumers[index].start() {
                for started in &mut self.consumers[..index] {
                    started.request_stop();
                    started.join()?;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    pub fn request_stop(&self) {
        self.consumers.iter().for_each(ConsumerLoop::request_stop);
    }

    /// Wait until every thread has ended; answers with the first error. Blocks; ask for a stop
    /// first.
    pub fn join(&mut self) -> Result<(), ConsumerLoopError> {
        let mut first = Ok(());
        for consumer in &mut self.consumers {
            let joined = consumer.join();
            if first.is_ok() {
                first = joined;
            }
        }
        first
    }

    /// What all of them did.
    pub fn counts(&self) -> MailboxCounts {
        self.consumers
            .iter()
            .fold(MailboxCounts::default(), |sum, consumer| {
                sum.plus(&consumer.counters().read())
            })
    }
}
