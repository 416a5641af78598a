//! The door *Runs*: each verb is checked, carried out, and rings where it made work. What the verbs do is in their files.

use async_trait::async_trait;
use lope_model::{Digest, Revision, RunId, RunnerId, VersionId};
use lope_store::runs::{
    Admit, Admitted, Beat, Claim, Claimed, ClaimedRun, CommitReply, Counts, Deliver, Delivered, Deploy, DueSchedules,
    FoundSchedule, Held, JournalRow, Loaded, Mail, Prune, Pruned, Register, RunCommit, RunFilter, RunRecord,
    RunnerRecord, Runs, ScheduleWrite, Scheduled, Serves, StoredDefinition, TakenOver, Takeover, check,
};
use lope_store::{StoreResult, Watch};

use crate::inner::Handle;
use crate::writer::Job;

#[async_trait]
impl Runs for Handle {
    async fn deploy(&self, deploy: Deploy) -> StoreResult<()> {
        check::deploy(&deploy)?;
        Ok(self.0.deploy(&deploy).await?)
    }

    async fn definition(&self, version: VersionId) -> StoreResult<Option<StoredDefinition>> {
        Ok(self.0.definition(version).await?)
    }

    async fn latest(&self, name: &str) -> StoreResult<Option<StoredDefinition>> {
        Ok(self.0.latest(name).await?)
    }

    async fn definitions(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<StoredDefinition>> {
        Ok(self.0.definitions(after, limit).await?)
    }

    async fn admit(&self, admits: Vec<Admit>) -> StoreResult<Vec<Admitted>> {
        check::admits(&admits)?;
        self.0.writers.ask(admits, Job::Admit).await
    }

    async fn claim(&self, claim: Claim) -> StoreResult<Held<Claimed>> {
        Ok(self.0.claim(&claim).await?)
    }

    async fn load(&self, runs: &[RunId]) -> StoreResult<Vec<Option<Loaded>>> {
        Ok(self.0.load(runs).await?)
    }

    async fn blobs(&self, run: RunId, digests: &[Digest]) -> StoreResult<Vec<Option<Vec<u8>>>> {
        Ok(self.0.blobs(run, digests).await?)
    }

    async fn commit(&self, commits: Vec<RunCommit>) -> StoreResult<Vec<CommitReply>> {
        check::commits(&commits)?;
        self.0.writers.ask(commits, Job::Commit).await
    }

    async fn deliver(&self, mail: Vec<Deliver>) -> StoreResult<Vec<Delivered>> {
        check::deliveries(&mail)?;
        self.0.writers.ask(mail, Job::Deliver).await
    }

    async fn register(&self, register: Register) -> StoreResult<Beat> {
        check::register(&register)?;
        Ok(self.0.register(&register).await?)
    }

    async fn heartbeat(&self, runner: RunnerId) -> StoreResult<Held<Beat>> {
        Ok(self.0.heartbeat(runner).await?)
    }

    async fn announce(&self, runner: RunnerId, serves: Serves) -> StoreResult<Held<()>> {
        check::serves(&serves)?;
        Ok(self.0.announce(runner, &serves).await?)
    }

    async fn takeover(&self, takeover: Takeover) -> StoreResult<TakenOver> {
        let taken = self.0.takeover(takeover).await?;
        if taken.runs > 0 {
            self.0.bells.runs_changed(true);
        }
        Ok(taken)
    }

    async fn release(&self, runner: RunnerId) -> StoreResult<u64> {
        let released = self.0.release(runner).await?;
        if released > 0 {
            self.0.bells.runs_changed(true);
        }
        Ok(released)
    }

    async fn owned(&self, runner: RunnerId, after: Option<RunId>, limit: usize) -> StoreResult<Vec<ClaimedRun>> {
        Ok(self.0.owned(runner, after, limit).await?)
    }

    async fn waiting(&self, runner: RunnerId, limit: usize) -> StoreResult<Vec<(RunId, Vec<Mail>)>> {
        Ok(self.0.waiting(runner, limit).await?)
    }

    async fn runners(&self, limit: usize) -> StoreResult<Vec<RunnerRecord>> {
        Ok(self.0.runners(limit).await?)
    }

    async fn run(&self, run: RunId) -> StoreResult<Option<RunRecord>> {
        Ok(self.0.run(run).await?)
    }

    async fn find_key(&self, key: &str) -> StoreResult<Option<RunId>> {
        Ok(self.0.find_key(key).await?)
    }

    async fn list(&self, filter: RunFilter) -> StoreResult<Vec<RunRecord>> {
        Ok(self.0.list(&filter).await?)
    }

    async fn journal(&self, run: RunId, after: u64, limit: usize) -> StoreResult<Vec<JournalRow>> {
        Ok(self.0.journal(run, after, limit).await?)
    }

    async fn counts(&self) -> StoreResult<Counts> {
        Ok(self.0.counts().await?)
    }

    async fn prune(&self, prune: Prune) -> StoreResult<Pruned> {
        Ok(self.0.prune(&prune).await?)
    }

    async fn schedule(&self, write: ScheduleWrite) -> StoreResult<Scheduled> {
        check::schedule(&write)?;
        let scheduled = self.0.schedule(&write).await?;
        if scheduled == Scheduled::Done {
            self.0.bells.runs_changed(true);
        }
        Ok(scheduled)
    }

    async fn unschedule(&self, name: &str, over: Option<Revision>) -> StoreResult<bool> {
        Ok(self.0.unschedule(name, over).await?)
    }

    async fn find_schedule(&self, name: &str) -> StoreResult<Option<FoundSchedule>> {
        Ok(self.0.find_schedule(name).await?)
    }

    async fn schedules(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<FoundSchedule>> {
        Ok(self.0.schedules(after, limit).await?)
    }

    async fn due_schedules(&self, limit: usize) -> StoreResult<DueSchedules> {
        self.0.due_schedules(limit).await
    }

    fn watch(&self) -> Watch {
        self.0.bells.watch_runs()
    }
}
