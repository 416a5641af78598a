//! Schedules: what starts workflows again and again.

use lope_engine::fire;
use lope_model::RunId;
use lope_schedule::store::{self, ScheduleChange, ScheduleList, ScheduleRecord};
use lope_schedule::{Schedule, ScheduleEntry};
use lope_store::{StoreError, StoreResult};
use thiserror::Error;

use super::Client;

/// Why a schedule did not start a run when it was asked to.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FireError {
    #[error("there is no such schedule")]
    Missing,
    #[error("{0}")]
    NoRun(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Client {
    /// All schedules that can be read, by name.
    pub async fn schedules(&self) -> StoreResult<Vec<ScheduleRecord>> {
        Ok(self.schedule_list().await?.records)
    }

    /// All schedules, and which of them are damaged.
    pub async fn schedule_list(&self) -> StoreResult<ScheduleList> {
        store::all(self.store()).await
    }

    /// The schedule of a name, with the last run that it started.
    pub async fn schedule(&self, name: &str) -> StoreResult<Option<ScheduleRecord>> {
        store::find(self.store(), name).await
    }

    /// Is there a schedule of this name, readable or not?
    pub async fn has_schedule(&self, name: &str) -> StoreResult<bool> {
        Ok(self.store().runs.find_schedule(name).await?.is_some())
    }

    /// Keep a schedule, counted from the store's time on. Nothing: its name is taken.
    pub async fn add_schedule(&self, schedule: Schedule) -> StoreResult<Option<ScheduleEntry>> {
        let now = self.now().await?;
        store::add(self.store(), schedule, now).await
    }

    /// Keep a schedule over the one of the same name; what became of that one's ticks stays known.
    pub async fn put_schedule(&self, schedule: Schedule) -> StoreResult<ScheduleEntry> {
        let now = self.now().await?;
        store::put(self.store(), schedule, now).await
    }

    /// Start nothing more of a schedule until it is resumed. Nothing: there is none.
    pub async fn pause_schedule(&self, name: &str) -> StoreResult<Option<ScheduleEntry>> {
        self.change_schedule(name, ScheduleEntry::pause).await
    }

    /// Go on with a schedule's next tick. Nothing: there is none.
    pub async fn resume_schedule(&self, name: &str) -> StoreResult<Option<ScheduleEntry>> {
        let now = self.now().await?;
        self.change_schedule(name, |entry| entry.resume(now)).await
    }

    async fn change_schedule(
        &self,
        name: &str,
        how: impl Fn(&mut ScheduleEntry),
    ) -> StoreResult<Option<ScheduleEntry>> {
        Ok(match store::change(self.store(), name, how).await? {
            ScheduleChange::Done(entry) => Some(*entry),
            ScheduleChange::Missing => None,
        })
    }

    /// Start a run of a schedule now, beside its ticks.
    pub async fn fire_schedule(&self, name: &str) -> Result<RunId, FireError> {
        let found = self.schedule(name).await?.ok_or(FireError::Missing)?;
        let now = self.now().await?;
        let fired = fire::at_once(self.store(), &self.plans, &found.entry.schedule, now).await?;
        fired.map_err(FireError::NoRun)
    }

    /// Take a schedule away; its runs stay. False: there was none.
    pub async fn remove_schedule(&self, name: &str) -> StoreResult<bool> {
        self.store().runs.unschedule(name, None).await
    }
}
