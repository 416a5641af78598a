//! A crew: workers that are started, stopped and joined together. They may serve one inbox or many; on one store their commits
//! are grouped by the store.

use super::{Worker, WorkerError};
use crate::counters::Counts;

/// Workers under one command.
#[derive(Debug, Default)]
pub struct Crew {
    workers: Vec<Worker>,
}

impl Crew {
    pub fn add(&mut self, worker: Worker) {
        self.workers.push(worker);
    }

    pub fn workers(&self) -> &[Worker] {
        &self.workers
    }

    /// Start every worker on a thread of its own. If one cannot be, those before it are stopped again.
    pub fn start(&mut self) -> Result<(), WorkerError> {
        for index in 0..self.workers.len() {
            if let Err(error) = self.workers[index].start() {
                for started in &mut self.workers[..index] {
                    started.request_stop();
                    started.join()?;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    pub fn request_stop(&self) {
        self.workers.iter().for_each(Worker::request_stop);
    }

    /// Wait until every thread has ended; answers with the first error. Blocks; ask for a stop first.
    pub fn join(&mut self) -> Result<(), WorkerError> {
        let mut first = Ok(());
        for worker in &mut self.workers {
            let joined = worker.join();
            if first.is_ok() {
                first = joined;
            }
        }
        first
    }

    /// What all of them did.
    pub fn counts(&self) -> Counts {
        self.workers.iter().fold(Counts::default(), |sum, worker| sum.plus(&worker.counters().read()))
    }
}
