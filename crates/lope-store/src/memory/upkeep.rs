//! Upkeep of the memory: it can be checked and closed; it has no schema and no file to copy.

use std::path::PathBuf;

use lope_model::RunId;

use super::handle::Handle;
use super::run_entry::RunEntry;
use super::state::RunState;
use crate::clock::Reading;
use crate::error::{StoreError, StoreResult};
use crate::store::{Finding, UpkeepVerbs};
use crate::transfer::Transfer;
use crate::verdict::{self, RemoveFacts};

impl UpkeepVerbs for Handle {
    fn describe(&self) -> String {
        "memory:".to_owned()
    }

    fn transfer(&self) -> Option<&dyn Transfer> {
        None
    }

    fn stopped_writer(&self) -> Option<Finding> {
        None
    }

    async fn reading(&self) -> StoreResult<Reading> {
        drop(self.runs()?);
        Ok(Reading::of(&*self.inner.clock))
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
        Err(StoreError::refused(
            "a store in memory ends with its process; there is nothing to back up",
        ))
    }

    async fn remove_run(&self, run: RunId) -> StoreResult<bool> {
        let mut runs = self.runs()?;
        let Some(entry) = runs.runs.get(&run) else {
            return Ok(false);
        };
        let owner = entry.record.owner;
        let moment = Reading::of(&*self.inner.clock).moment;
        let facts = RemoveFacts {
            owner,
            owner_lives: owner.is_some_and(|owner| runs.is_held(owner, moment)),
        };
        verdict::remove(run, &facts)?;
        runs.forget(run);
        Ok(true)
    }

    async fn compact(&self) -> StoreResult<u64> {
        drop(self.runs()?);
        Ok(0)
    }

    async fn close(&self) -> StoreResult<()> {
        self.close();
        Ok(())
    }
}

impl RunState {
    fn check(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self
            .runs
            .values()
            .flat_map(|entry| self.check_run(entry))
            .collect();
        let parked = self
            .runs
            .values()
            .filter(|entry| entry.is_live() && entry.record.parked.is_some())
            .count();
        if self.queue_index.len() + parked != self.runs.len() {
            findings.push(broken(
                "lease",
                "the queue holds runs that are not there".to_owned(),
            ));
        }
        findings
    }

    fn check_run(&self, entry: &RunEntry) -> Vec<Finding> {
        let run = entry.run();
        let mut findings = Vec::new();
        let numbered = entry
            .journal
            .iter()
            .zip(entry.journal_base + 1..)
            .all(|(row, seq)| row.seq == seq);
        if !numbered || entry.journal_base + entry.journal.len() as u64 != entry.record.head {
            findings.push(broken(
                "journal",
                format!("the journal of run {run} has a gap"),
            ));
        }
        if !self.queue_index.holds(run, &entry.position()) {
            findings.push(broken(
                "lease",
                format!("run {run} does not stand where its record says"),
            ));
        }
        findings
    }
}

fn broken(rule: &'static str, message: String) -> Finding {
    Finding {
        rule,
        message,
        hint: "this is a bug in the memory store".to_owned(),
    }
}
