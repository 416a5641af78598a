//! Steering runs: each call is mail to the run and takes effect when its owner reads it.

use lope_engine::client::{self, InputError};
use lope_engine::codec;
use lope_flow::law::{EventKind, Fed};
use lope_model::{Epoch, RunId, Value};
use lope_store::StoreResult;
use lope_store::runs::{Delivered, RunRecord, RunStatus};
use uuid::Uuid;

use super::Client;

/// What many runs at once may be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Steering {
    Cancel,
    Pause,
    Resume,
    Retry,
}

impl Client {
    /// Ask a run something under an id: whoever asks again under the same id asks once.
    pub async fn steer_once(
        &self,
        run: RunId,
        what: Steering,
        id: String,
    ) -> StoreResult<Delivered> {
        let epoch = Epoch::default();
        let kind = match what {
            Steering::Cancel => EventKind::Cancel { force: false },
            Steering::Pause => EventKind::Pause { reason: None },
            Steering::Resume => EventKind::Resume,
            Steering::Retry => EventKind::Retry { epoch },
        };
        client::tell(self.store(), run, &kind, Some(id)).await
    }

    /// Send a signal that a step may wait for.
    pub async fn signal(&self, run: RunId, name: &str, value: Value) -> StoreResult<Delivered> {
        let name = name.into();
        self.tell(run, EventKind::Signal { name, value }).await
    }

    /// The same, where an id makes it arrive once; absent: a fresh one.
    pub async fn signal_once(
        &self,
        run: RunId,
        name: &str,
        value: Value,
        id: Option<String>,
    ) -> StoreResult<Delivered> {
        let name = name.into();
        let kind = EventKind::Signal { name, value };
        client::tell(self.store(), run, &kind, id).await
    }

    /// Feed an open run an input that its workflow takes.
    pub async fn feed(&self, record: &RunRecord, input: Value) -> Result<Delivered, InputError> {
        let run = record.run;
        let plan = self.plan(record).await?;
        client::validate_input(plan.name(), &plan.definition().input, &input)?;
        if matches!(record.status, RunStatus::Live(_)) && !self.is_open(run).await? {
            return Err(InputError::NotOpen { run });
        }
        let fed = Fed::new(&Uuid::now_v7().to_string(), input);
        Ok(self.tell(run, EventKind::Input(Box::new(fed))).await?)
    }

    /// Does a run take inputs beside its first?
    pub async fn is_open(&self, run: RunId) -> StoreResult<bool> {
        let rows = self.store().runs.journal(run, 0, 1).await?;
        let start = rows.first().and_then(|row| codec::kind_of(row).ok());
        Ok(!matches!(start, Some(EventKind::Start(start)) if !start.open))
    }

    /// Ask a run to end; `finally` blocks still run.
    pub async fn cancel(&self, run: RunId) -> StoreResult<Delivered> {
        self.tell(run, EventKind::Cancel { force: false }).await
    }

    /// End a run at once.
    pub async fn kill(&self, run: RunId) -> StoreResult<Delivered> {
        self.tell(run, EventKind::Cancel { force: true }).await
    }

    /// Start no further step of a run. The reason is shown to whoever asks why.
    pub async fn pause(&self, run: RunId, reason: Option<&str>) -> StoreResult<Delivered> {
        let reason = reason.map(Into::into);
        self.tell(run, EventKind::Pause { reason }).await
    }

    /// Go on after a pause.
    pub async fn resume(&self, run: RunId) -> StoreResult<Delivered> {
        self.tell(run, EventKind::Resume).await
    }

    /// Go on with a failed run where it failed.
    pub async fn retry(&self, run: RunId) -> StoreResult<Delivered> {
        let epoch = Epoch::default();
        self.tell(run, EventKind::Retry { epoch }).await
    }

    async fn tell(&self, run: RunId, kind: EventKind) -> StoreResult<Delivered> {
        client::tell(self.store(), run, &kind, None).await
    }
}
