//! The door *Runs* with a hook before it.

use async_trait::async_trait;
use lope_model::{Digest, Revision, RunId, RunnerId, VersionId};

use super::{Door, Faulty};
use crate::error::StoreResult;
use crate::runs::{
    Admit, Admitted, Beat, Claim, Claimed, ClaimedRun, CommitReply, Counts, Deliver, Delivered, Deploy, DueSchedules,
    FoundSchedule, Held, JournalRow, Loaded, Mail, Prune, Pruned, Register, RunCommit, RunFilter, RunRecord,
    RunnerRecord, Runs, ScheduleWrite, Scheduled, Serves, StoredDefinition, TakenOver, Takeover,
};
use crate::watch::Watch;

const DOOR: Door = Door::Runs;

#[async_trait]
impl Runs for Faulty {
    async fn deploy(&self, deploy: Deploy) -> StoreResult<()> {
        self.through(DOOR, "deploy", self.store.runs.deploy(deploy)).await
    }

    async fn definition(&self, version: VersionId) -> StoreResult<Option<StoredDefinition>> {
        self.through(DOOR, "definition", self.store.runs.definition(version)).await
    }

    async fn latest(&self, name: &str) -> StoreResult<Option<StoredDefinition>> {
        self.through(DOOR, "latest", self.store.runs.latest(name)).await
    }

    async fn definitions(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<StoredDefinition>> {
        self.through(DOOR, "definitions", self.store.runs.definitions(after, limit)).await
    }

    async fn admit(&self, admits: Vec<Admit>) -> StoreResult<Vec<Admitted>> {
        self.through(DOOR, "admit", self.store.runs.admit(admits)).await
    }

    async fn claim(&self, claim: Claim) -> StoreResult<Held<Claimed>> {
        self.through(DOOR, "claim", self.store.runs.claim(claim)).await
    }

    async fn load(&self, runs: &[RunId]) -> StoreResult<Vec<Option<Loaded>>> {
        self.through(DOOR, "load", self.store.runs.load(runs)).await
    }

    async fn blobs(&self, run: RunId, digests: &[Digest]) -> StoreResult<Vec<Option<Vec<u8>>>> {
        self.through(DOOR, "blobs", self.store.runs.blobs(run, digests)).await
    }

    async fn commit(&self, commits: Vec<RunCommit>) -> StoreResult<Vec<CommitReply>> {
        self.through(DOOR, "commit", self.store.runs.commit(commits)).await
    }

    async fn deliver(&self, mail: Vec<Deliver>) -> StoreResult<Vec<Delivered>> {
        self.through(DOOR, "deliver", self.store.runs.deliver(mail)).await
    }

    async fn register(&self, register: Register) -> StoreResult<Beat> {
        self.through(DOOR, "register", self.store.runs.register(register)).await
    }

    async fn heartbeat(&self, runner: RunnerId) -> StoreResult<Held<Beat>> {
        self.through(DOOR, "heartbeat", self.store.runs.heartbeat(runner)).await
    }

    async fn announce(&self, runner: RunnerId, serves: Serves) -> StoreResult<Held<()>> {
        self.through(DOOR, "announce", self.store.runs.announce(runner, serves)).await
    }

    async fn takeover(&self, takeover: Takeover) -> StoreResult<TakenOver> {
        self.through(DOOR, "takeover", self.store.runs.takeover(takeover)).await
    }

    async fn release(&self, runner: RunnerId) -> StoreResult<u64> {
        self.through(DOOR, "release", self.store.runs.release(runner)).await
    }

    async fn owned(&self, runner: RunnerId, after: Option<RunId>, limit: usize) -> StoreResult<Vec<ClaimedRun>> {
        self.through(DOOR, "owned", self.store.runs.owned(runner, after, limit)).await
    }

    async fn waiting(&self, runner: RunnerId, limit: usize) -> StoreResult<Vec<(RunId, Vec<Mail>)>> {
        self.through(DOOR, "waiting", self.store.runs.waiting(runner, limit)).await
    }

    async fn runners(&self, limit: usize) -> StoreResult<Vec<RunnerRecord>> {
        self.through(DOOR, "runners", self.store.runs.runners(limit)).await
    }

    async fn run(&self, run: RunId) -> StoreResult<Option<RunRecord>> {
        self.through(DOOR, "run", self.store.runs.run(run)).await
    }

    async fn find_key(&self, key: &str) -> StoreResult<Option<RunId>> {
        self.through(DOOR, "find_key", self.store.runs.find_key(key)).await
    }

    async fn list(&self, filter: RunFilter) -> StoreResult<Vec<RunRecord>> {
        self.through(DOOR, "list", self.store.runs.list(filter)).await
    }

    async fn journal(&self, run: RunId, after: u64, limit: usize) -> StoreResult<Vec<JournalRow>> {
        self.through(DOOR, "journal", self.store.runs.journal(run, after, limit)).await
    }

    async fn counts(&self) -> StoreResult<Counts> {
        self.through(DOOR, "counts", self.store.runs.counts()).await
    }

    async fn schedule(&self, write: ScheduleWrite) -> StoreResult<Scheduled> {
        self.through(DOOR, "schedule", self.store.runs.schedule(write)).await
    }

    async fn unschedule(&self, name: &str, over: Option<Revision>) -> StoreResult<bool> {
        self.through(DOOR, "unschedule", self.store.runs.unschedule(name, over)).await
    }

    async fn find_schedule(&self, name: &str) -> StoreResult<Option<FoundSchedule>> {
        self.through(DOOR, "find_schedule", self.store.runs.find_schedule(name)).await
    }

    async fn schedules(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<FoundSchedule>> {
        self.through(DOOR, "schedules", self.store.runs.schedules(after, limit)).await
    }

    async fn due_schedules(&self, limit: usize) -> StoreResult<DueSchedules> {
        self.through(DOOR, "due_schedules", self.store.runs.due_schedules(limit)).await
    }

    async fn prune(&self, prune: Prune) -> StoreResult<Pruned> {
        self.through(DOOR, "prune", self.store.runs.prune(prune)).await
    }

    /// It cannot fail; a hook may still panic at it.
    fn watch(&self) -> Watch {
        self.noticed(DOOR, "watch");
        self.store.runs.watch()
    }
}
