//! The door *Runs*: each verb is checked, carried out, and notifies where it made work. What the
//! verbs do is in their files.

use lope_model::{Digest, Revision, RunId, RunnerId, VersionId};
use lope_store::runs::{
    Admit, Admitted, Beat, Claim, Claimed, ClaimedRun, CommitReply, Deliver, Delivered, Deploy,
    DueSchedules, FoundSchedule, JournalRow, Loaded, Mail, Prune, Pruned, QueueCount, Register,
    ResultHead, RunCommit, RunCounts, RunFilter, RunRecord, RunnerRecord, RunsVerbs, ScheduleWrite,
    Scheduled, Serves, SessionResult, StoredDefinition, TakenOver, Takeover, validate,
};
use lope_store::watch::Hint;
use lope_store::{StoreResult, Watch};

use crate::inner::Handle;
use crate::writer::RunJob;

impl RunsVerbs for Handle {
    async fn deploy(&self, deploy: Deploy) -> StoreResult<()> {
        validate::deploy(&deploy)?;
        Ok(self.0.deploy(&deploy).await?)
    }

    async fn definition(&self, version: VersionId) -> StoreResult<Option<StoredDefinition>> {
        Ok(self.0.definition(version).await?)
    }

    async fn latest(&self, name: String) -> StoreResult<Option<StoredDefinition>> {
        Ok(self.0.latest(&name).await?)
    }

    async fn definitions(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> StoreResult<Vec<StoredDefinition>> {
        Ok(self.0.definitions(after.as_deref(), limit).await?)
    }

    async fn admit(&self, admits: Vec<Admit>) -> StoreResult<Vec<Admitted>> {
        validate::admits(&admits)?;
        self.0.writers.ask(admits, RunJob::Admit).await
    }

    async fn claim(&self, claim: Claim) -> StoreResult<SessionResult<Claimed>> {
        Ok(self.0.claim(&claim).await?)
    }

    async fn load(&self, runs: Vec<RunId>) -> StoreResult<Vec<Option<Loaded>>> {
        Ok(self.0.load(&runs).await?)
    }

    async fn blobs(&self, run: RunId, digests: Vec<Digest>) -> StoreResult<Vec<Option<Vec<u8>>>> {
        Ok(self.0.blobs(run, &digests).await?)
    }

    async fn commit(&self, commits: Vec<RunCommit>) -> StoreResult<Vec<CommitReply>> {
        validate::commits(&commits)?;
        self.0.writers.ask(commits, RunJob::Commit).await
    }

    async fn deliver(&self, mail: Vec<Deliver>) -> StoreResult<Vec<Delivered>> {
        validate::deliveries(&mail)?;
        self.0.writers.ask(mail, RunJob::Deliver).await
    }

    async fn register(&self, register: Register) -> StoreResult<Beat> {
        validate::register(&register)?;
        Ok(self.0.register(&register).await?)
    }

    async fn heartbeat(&self, runner: RunnerId) -> StoreResult<SessionResult<Beat>> {
        Ok(self.0.heartbeat(runner).await?)
    }

    async fn announce(&self, runner: RunnerId, serves: Serves) -> StoreResult<SessionResult<()>> {
        validate::serves(&serves)?;
        Ok(self.0.announce(runner, &serves).await?)
    }

    async fn takeover(&self, takeover: Takeover) -> StoreResult<TakenOver> {
        let taken = self.0.takeover(takeover).await?;
        if taken.runs > 0 {
            self.0.notifiers.runs_changed(Hint::Work);
        }
        Ok(taken)
    }

    async fn release(&self, runner: RunnerId) -> StoreResult<u64> {
        let released = self.0.release(runner).await?;
        if released > 0 {
            self.0.notifiers.runs_changed(Hint::Work);
        }
        Ok(released)
    }

    async fn owned(
        &self,
        runner: RunnerId,
        after: Option<RunId>,
        limit: usize,
    ) -> StoreResult<Vec<ClaimedRun>> {
        Ok(self.0.owned(runner, after, limit).await?)
    }

    async fn waiting(
        &self,
        runner: RunnerId,
        limit: usize,
    ) -> StoreResult<Vec<(RunId, Vec<Mail>)>> {
        Ok(self.0.waiting(runner, limit).await?)
    }

    async fn runners(&self, limit: usize) -> StoreResult<Vec<RunnerRecord>> {
        Ok(self.0.runners(limit).await?)
    }

    async fn live(&self, runners: Vec<RunnerId>) -> StoreResult<Vec<bool>> {
        Ok(self.0.live(&runners).await?)
    }

    async fn run(&self, run: RunId) -> StoreResult<Option<RunRecord>> {
        Ok(self.0.run(run).await?)
    }

    async fn listed(&self, runs: Vec<RunId>) -> StoreResult<Vec<RunRecord>> {
        Ok(self.0.listed(&runs).await?)
    }

    async fn result(&self, run: RunId, most: usize) -> StoreResult<Option<ResultHead>> {
        Ok(self.0.result(run, most).await?)
    }

    async fn find_key(&self, key: String) -> StoreResult<Option<RunId>> {
        Ok(self.0.find_key(&key).await?)
    }

    async fn list(&self, filter: RunFilter) -> StoreResult<Vec<RunRecord>> {
        Ok(self.0.list(&filter).await?)
    }

    async fn journal(&self, run: RunId, after: u64, limit: usize) -> StoreResult<Vec<JournalRow>> {
        Ok(self.0.journal(run, after, limit).await?)
    }

    async fn counts(&self) -> StoreResult<RunCounts> {
        Ok(self.0.counts().await?)
    }

    async fn queues(&self) -> StoreResult<Vec<QueueCount>> {
        Ok(self.0.queues().await?)
    }

    async fn prune(&self, prune: Prune) -> StoreResult<Pruned> {
        Ok(self.0.prune(&prune).await?)
    }

    async fn schedule(&self, write: Box<ScheduleWrite>) -> StoreResult<Scheduled> {
        validate::schedule(&write)?;
        let scheduled = self.0.schedule(&write).await?;
        if scheduled == Scheduled::Done {
            self.0.notifiers.runs_changed(Hint::Work);
        }
        Ok(scheduled)
    }

    async fn unschedule(&self, name: String, over: Option<Revision>) -> StoreResult<bool> {
        Ok(self.0.unschedule(&name, over).await?)
    }

    async fn find_schedule(&self, name: String) -> StoreResult<Option<FoundSchedule>> {
        Ok(self.0.find_schedule(&name).await?)
    }

    async fn schedules(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> StoreResult<Vec<FoundSchedule>> {
        Ok(self.0.schedules(after.as_deref(), limit).await?)
    }

    async fn due_schedules(&self, limit: usize) -> StoreResult<DueSchedules> {
        self.0.due_schedules(limit).await
    }

    fn watch(&self) -> Watch {
        self.0.notifiers.watch_runs()
    }
}
