//! Working on runs that were not started under an id of this program: those of its queues, and
//! those it is told to take.

use std::sync::Arc;
use std::time::Duration;

use lope_engine::{News, client};
use lope_flow::law::Plan;
use lope_model::{Realm, RunId, RunnerId};
use lope_store::runs::Admitted;
use tokio::sync::broadcast;

use super::Runner;
use crate::client::PreparedRun;
use crate::error::Result;

impl Runner {
    /// Its id in the store's registry.
    pub async fn id(&self) -> Result<RunnerId> {
        Ok(self.engine().await?.runner())
    }

    /// Start a run of a deployed workflow and work on it here at once. A key that exists answers
    /// with the run that has it, which is taken up here if nobody has it; one of another workflow is
    /// an error.
    pub async fn start(&self, run: PreparedRun) -> Result<(RunId, Admitted)> {
        let fresh = run.new_run.admit.run;
        let key = run.key().map(str::to_owned);
        let answer = self.engine().await?.admit(run.new_run, &run.plan).await?;
        Ok(client::run_of(&run.plan, fresh, key, answer)?)
    }

    /// Keep a plan at hand, so that its first run need not ask the store for it.
    pub async fn keep_at_hand(&self, plan: &Arc<Plan>) -> Result<()> {
        self.engine().await?.know(Arc::clone(plan));
        Ok(())
    }

    /// Work on this run here, if nobody else has it.
    pub async fn take_up(&self, run: RunId) -> Result<()> {
        self.engine().await?.own(run);
        Ok(())
    }

    /// Take runs of this realm too.
    pub async fn serve_realm(&self, realm: Realm) -> Result<()> {
        self.engine().await?.serve(realm);
        Ok(())
    }

    /// What the engine tells of its runs, as it happens. One that is slow misses the oldest.
    pub async fn news(&self) -> Result<broadcast::Receiver<News>> {
        Ok(self.engine().await?.subscribe())
    }

    /// Can it go on? An error says why not.
    pub async fn check_alive(&self) -> Result<()> {
        self.can_go_on().await
    }

    /// Runs that are held in memory at this moment.
    pub async fn resident_runs(&self) -> Result<usize> {
        Ok(self.engine().await?.residents())
    }

    /// As `shutdown`, but the store stays open. How many runs were given back.
    pub async fn give_back(&self, grace: Duration) -> Result<u64> {
        self.give_back_after(tokio::time::sleep(grace)).await
    }

    /// The same; what has begun may finish until `grace` is over.
    pub async fn give_back_after(&self, grace: impl Future<Output = ()>) -> Result<u64> {
        let engine = self.0.engine.write().await.take();
        let engine = engine.ok_or_else(|| self.closed())?;
        Ok(engine.shutdown_after(grace).await?)
    }
}
