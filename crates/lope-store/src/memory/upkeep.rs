//! Upkeep of the memory: it can be checked and closed; it has no schema and no file to copy.

use std::path::PathBuf;

use async_trait::async_trait;

use super::entry::Entry;
use super::handle::Handle;
use super::state::RunState;
use crate::clock::Reading;
use crate::error::{StoreError, StoreResult};
use crate::store::{Finding, Upkeep};

#[async_trait]
impl Upkeep for Handle {
    fn describe(&self) -> String {
        "memory:".to_owned()
    }

    async fn reading(&self) -> StoreResult<Reading> {
        drop(self.runs()?);
        Ok(Reading::of(&*self.home.clock))
    }

    async fn check(&self) -> StoreResult<Vec<Finding>> {
        Ok(self.runs()?.check())
    }

    async fn schema(&self) -> StoreResult<String> {
        drop(self.runs()?);
        Ok("-- a store in memory has no schema\n".to_owned())
    }

    async fn backup(&self, _to: PathBuf) -> StoreResult<()> {
        drop(self.runs()?);
        Err(StoreError::refused("a store in memory ends with its process; there is nothing to back up"))
    }

    async fn close(&self) -> StoreResult<()> {
        self.close();
        Ok(())
    }
}

impl RunState {
    fn check(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.runs.values().flat_map(|entry| self.check_run(entry)).collect();
        let parked = self.runs.values().filter(|entry| entry.is_live() && entry.record.parked.is_some()).count();
        if self.places.len() + parked != self.runs.len() {
            findings.push(broken("lease", "the queue holds runs that are not there".to_owned()));
        }
        findings
    }

    fn check_run(&self, entry: &Entry) -> Vec<Finding> {
        let run = entry.run();
        let mut findings = Vec::new();
        let numbered = entry.journal.iter().zip(entry.journal_base + 1..).all(|(row, seq)| row.seq == seq);
        if !numbered || entry.journal_base + entry.journal.len() as u64 != entry.record.head {
            findings.push(broken("journal", format!("the journal of run {run} has a gap")));
        }
        if !self.places.holds(run, &entry.place()) {
            findings.push(broken("lease", format!("run {run} does not stand where its record says")));
        }
        findings
    }
}

fn broken(rule: &'static str, message: String) -> Finding {
    Finding { rule, message, hint: "this is a bug in the memory store".to_owned() }
}
