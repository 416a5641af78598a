//! The door *Runs* with a watcher at it: how long each verb took, and whether the store answered.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use lope_model::{Digest, Revision, RunId, RunnerId, VersionId};
use lope_store::runs::{
    Admit, Admitted, Beat, Claim, Claimed, ClaimedRun, CommitReply, Counts, Deliver, Delivered, Deploy, DueSchedules,
    FoundSchedule, Held, JournalRow, Loaded, Mail, Prune, Pruned, Register, RunCommit, RunFilter, RunRecord,
    RunnerRecord, Runs, ScheduleWrite, Scheduled, Serves, StoredDefinition, TakenOver, Takeover,
};
use lope_store::watch::Watch;
use lope_store::{Store, StoreResult};
use tracing::Instrument;

use super::tower::Tower;

struct Seen {
    runs: Arc<dyn Runs>,
    tower: Arc<Tower>,
}

pub(crate) fn observed(store: Store, tower: &Arc<Tower>) -> Store {
    let runs = Arc::new(Seen { runs: store.runs, tower: Arc::clone(tower) });
    Store { runs, ..store }
}

impl Seen {
    async fn through<T>(&self, verb: &'static str, call: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        let began = Instant::now();
        self.tower.call_began(verb);
        let answer = call.instrument(tracing::debug_span!("lope.store", operation = verb)).await;
        self.tower.call_ended(verb, began.elapsed(), answer.as_ref().err());
        answer
    }
}

#[async_trait]
impl Runs for Seen {
    async fn deploy(&self, deploy: Deploy) -> StoreResult<()> {
        self.through("deploy", self.runs.deploy(deploy)).await
    }

    async fn definition(&self, version: VersionId) -> StoreResult<Option<StoredDefinition>> {
        self.through("definition", self.runs.definition(version)).await
    }

    async fn latest(&self, name: &str) -> StoreResult<Option<StoredDefinition>> {
        self.through("latest", self.runs.latest(name)).await
    }

    async fn definitions(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<StoredDefinition>> {
        self.through("definitions", self.runs.definitions(after, limit)).await
    }

    async fn admit(&self, admits: Vec<Admit>) -> StoreResult<Vec<Admitted>> {
        self.through("admit", self.runs.admit(admits)).await
    }

    async fn claim(&self, claim: Claim) -> StoreResult<Held<Claimed>> {
        self.through("claim", self.runs.claim(claim)).await
    }

    async fn load(&self, runs: &[RunId]) -> StoreResult<Vec<Option<Loaded>>> {
        self.through("load", self.runs.load(runs)).await
    }

    async fn blobs(&self, run: RunId, digests: &[Digest]) -> StoreResult<Vec<Option<Vec<u8>>>> {
        self.through("blobs", self.runs.blobs(run, digests)).await
    }

    async fn commit(&self, commits: Vec<RunCommit>) -> StoreResult<Vec<CommitReply>> {
        let runs: Vec<RunId> = commits.iter().map(|commit| commit.run).collect();
        let answer = self.through("commit", self.runs.commit(commits)).await;
        if let Err(error) = &answer {
            self.tower.commit_failed(&runs, error);
        }
        answer
    }

    async fn deliver(&self, mail: Vec<Deliver>) -> StoreResult<Vec<Delivered>> {
        self.through("deliver", self.runs.deliver(mail)).await
    }

    async fn register(&self, register: Register) -> StoreResult<Beat> {
        self.through("register", self.runs.register(register)).await
    }

    async fn heartbeat(&self, runner: RunnerId) -> StoreResult<Held<Beat>> {
        self.through("heartbeat", self.runs.heartbeat(runner)).await
    }

    async fn announce(&self, runner: RunnerId, serves: Serves) -> StoreResult<Held<()>> {
        self.through("announce", self.runs.announce(runner, serves)).await
    }

    async fn takeover(&self, takeover: Takeover) -> StoreResult<TakenOver> {
        self.through("takeover", self.runs.takeover(takeover)).await
    }

    async fn release(&self, runner: RunnerId) -> StoreResult<u64> {
        self.through("release", self.runs.release(runner)).await
    }

    async fn owned(&self, runner: RunnerId, after: Option<RunId>, limit: usize) -> StoreResult<Vec<ClaimedRun>> {
        self.through("owned", self.runs.owned(runner, after, limit)).await
    }

    async fn waiting(&self, runner: RunnerId, limit: usize) -> StoreResult<Vec<(RunId, Vec<Mail>)>> {
        self.through("waiting", self.runs.waiting(runner, limit)).await
    }

    async fn runners(&self, limit: usize) -> StoreResult<Vec<RunnerRecord>> {
        self.through("runners", self.runs.runners(limit)).await
    }

    async fn run(&self, run: RunId) -> StoreResult<Option<RunRecord>> {
        self.through("run", self.runs.run(run)).await
    }

    async fn find_key(&self, key: &str) -> StoreResult<Option<RunId>> {
        self.through("find_key", self.runs.find_key(key)).await
    }

    async fn list(&self, filter: RunFilter) -> StoreResult<Vec<RunRecord>> {
        self.through("list", self.runs.list(filter)).await
    }

    async fn journal(&self, run: RunId, after: u64, limit: usize) -> StoreResult<Vec<JournalRow>> {
        self.through("journal", self.runs.journal(run, after, limit)).await
    }

    async fn counts(&self) -> StoreResult<Counts> {
        self.through("counts", self.runs.counts()).await
    }

    async fn schedule(&self, write: ScheduleWrite) -> StoreResult<Scheduled> {
        self.through("schedule", self.runs.schedule(write)).await
    }

    async fn unschedule(&self, name: &str, over: Option<Revision>) -> StoreResult<bool> {
        self.through("unschedule", self.runs.unschedule(name, over)).await
    }

    async fn find_schedule(&self, name: &str) -> StoreResult<Option<FoundSchedule>> {
        self.through("find_schedule", self.runs.find_schedule(name)).await
    }

    async fn schedules(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<FoundSchedule>> {
        self.through("schedules", self.runs.schedules(after, limit)).await
    }

    async fn due_schedules(&self, limit: usize) -> StoreResult<DueSchedules> {
        self.through("due_schedules", self.runs.due_schedules(limit)).await
    }

    async fn prune(&self, prune: Prune) -> StoreResult<Pruned> {
        self.through("prune", self.runs.prune(prune)).await
    }

    fn watch(&self) -> Watch {
        self.runs.watch()
    }
}
