//! The door *Runs* on the memory: take the lock, read the clock once, do the verb, ring the bell where work was made.

use async_trait::async_trait;
use lope_model::{Digest, Revision, RunId, RunnerId, VersionId};

use super::handle::Handle;
use crate::clock::Reading;
use crate::error::StoreResult;
use crate::runs::{
    Admit, Admitted, Beat, Claim, Claimed, ClaimedRun, CommitReply, Counts, Deliver, Delivered, Deploy, DueSchedules,
    FoundSchedule, Held, JournalRow, Loaded, Mail, Prune, Pruned, Register, RunCommit, RunFilter, RunRecord,
    RunnerRecord, Runs, ScheduleWrite, Scheduled, Serves, StoredDefinition, TakenOver, Takeover, check,
};
use crate::tables::Append;
use crate::watch::Watch;

impl Handle {
    /// Taken under the lock, so that a later verb never has an earlier time.
    fn reading(&self) -> Reading {
        Reading::of(&*self.home.clock)
    }

    /// Messages of the commits that were written. The caller holds the lock of the runs, so both are seen together.
    fn post(&self, posts: Vec<Vec<Append>>, replies: &[CommitReply]) -> StoreResult<()> {
        let is_done = |reply: &CommitReply| matches!(reply, CommitReply::Done { .. });
        let posts = posts.into_iter().zip(replies).filter(|(_, reply)| is_done(reply)).flat_map(|(posts, _)| posts);
        let mut posts = posts.peekable();
        if posts.peek().is_some() {
            let mut tables = self.tables()?;
            posts.for_each(|post| tables.append(post));
            self.home.tables_bell.ring();
        }
        Ok(())
    }

    fn ring(&self, made_work: bool) {
        if made_work {
            self.home.runs_bell.ring();
        }
    }
}

#[async_trait]
impl Runs for Handle {
    async fn deploy(&self, deploy: Deploy) -> StoreResult<()> {
        check::deploy(&deploy)?;
        self.runs()?.deploy(deploy, self.reading().now);
        Ok(())
    }

    async fn definition(&self, version: VersionId) -> StoreResult<Option<StoredDefinition>> {
        Ok(self.runs()?.definitions.get(&version).cloned())
    }

    async fn latest(&self, name: &str) -> StoreResult<Option<StoredDefinition>> {
        Ok(self.runs()?.latest(name))
    }

    async fn definitions(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<StoredDefinition>> {
        Ok(self.runs()?.definitions(after, limit))
    }

    async fn admit(&self, admits: Vec<Admit>) -> StoreResult<Vec<Admitted>> {
        check::admits(&admits)?;
        let mut runs = self.runs()?;
        let admitted = runs.admit(admits, self.reading());
        drop(runs);
        self.ring(admitted.iter().any(|admitted| matches!(admitted, Admitted::Created { owned: false, .. })));
        Ok(admitted)
    }

    async fn claim(&self, claim: Claim) -> StoreResult<Held<Claimed>> {
        let mut runs = self.runs()?;
        Ok(runs.claim(&claim, self.reading()))
    }

    async fn load(&self, runs: &[RunId]) -> StoreResult<Vec<Option<Loaded>>> {
        let state = self.runs()?;
        Ok(runs.iter().map(|run| state.runs.get(run).map(|entry| entry.loaded())).collect())
    }

    async fn blobs(&self, run: RunId, digests: &[Digest]) -> StoreResult<Vec<Option<Vec<u8>>>> {
        let state = self.runs()?;
        let blobs = state.runs.get(&run).map(|entry| &entry.blobs);
        Ok(digests.iter().map(|digest| blobs.and_then(|blobs| blobs.get(digest)).cloned()).collect())
    }

    async fn commit(&self, commits: Vec<RunCommit>) -> StoreResult<Vec<CommitReply>> {
        check::commits(&commits)?;
        let mut runs = self.runs()?;
        let posts: Vec<Vec<Append>> = commits.iter().map(|commit| commit.posts.clone()).collect();
        let replies = runs.commit(commits, self.reading());
        self.post(posts, &replies)?;
        drop(runs);
        self.ring(replies.iter().any(|reply| matches!(reply, CommitReply::Done { .. })));
        Ok(replies)
    }

    async fn deliver(&self, mail: Vec<Deliver>) -> StoreResult<Vec<Delivered>> {
        check::deliveries(&mail)?;
        let mut runs = self.runs()?;
        let delivered = runs.deliver(mail, self.reading().now);
        drop(runs);
        self.ring(delivered.contains(&Delivered::Accepted));
        Ok(delivered)
    }

    async fn register(&self, register: Register) -> StoreResult<Beat> {
        check::register(&register)?;
        let mut runs = self.runs()?;
        Ok(runs.register(register, self.reading()))
    }

    async fn heartbeat(&self, runner: RunnerId) -> StoreResult<Held<Beat>> {
        let mut runs = self.runs()?;
        Ok(runs.heartbeat(runner, self.reading()))
    }

    async fn announce(&self, runner: RunnerId, serves: Serves) -> StoreResult<Held<()>> {
        check::serves(&serves)?;
        let mut runs = self.runs()?;
        Ok(runs.announce(runner, serves, self.reading()))
    }

    async fn takeover(&self, takeover: Takeover) -> StoreResult<TakenOver> {
        let mut runs = self.runs()?;
        let taken = runs.takeover(takeover, self.reading());
        drop(runs);
        self.ring(taken.runs > 0);
        Ok(taken)
    }

    async fn release(&self, runner: RunnerId) -> StoreResult<u64> {
        let mut runs = self.runs()?;
        let released = runs.release(runner, self.reading().now);
        drop(runs);
        self.ring(released > 0);
        Ok(released)
    }

    async fn owned(&self, runner: RunnerId, after: Option<RunId>, limit: usize) -> StoreResult<Vec<ClaimedRun>> {
        Ok(self.runs()?.owned(runner, after, limit))
    }

    async fn waiting(&self, runner: RunnerId, limit: usize) -> StoreResult<Vec<(RunId, Vec<Mail>)>> {
        Ok(self.runs()?.waiting(runner, limit))
    }

    async fn runners(&self, limit: usize) -> StoreResult<Vec<RunnerRecord>> {
        Ok(self.runs()?.runners(limit, self.reading().moment))
    }

    async fn run(&self, run: RunId) -> StoreResult<Option<RunRecord>> {
        Ok(self.runs()?.runs.get(&run).map(|entry| entry.shown()))
    }

    async fn find_key(&self, key: &str) -> StoreResult<Option<RunId>> {
        Ok(self.runs()?.keys.get(key).copied())
    }

    async fn list(&self, filter: RunFilter) -> StoreResult<Vec<RunRecord>> {
        Ok(self.runs()?.list(&filter))
    }

    async fn journal(&self, run: RunId, after: u64, limit: usize) -> StoreResult<Vec<JournalRow>> {
        Ok(self.runs()?.journal(run, after, limit))
    }

    async fn counts(&self) -> StoreResult<Counts> {
        Ok(self.runs()?.counts(self.reading().now))
    }

    async fn prune(&self, prune: Prune) -> StoreResult<Pruned> {
        Ok(self.runs()?.prune(&prune))
    }

    async fn schedule(&self, write: ScheduleWrite) -> StoreResult<Scheduled> {
        check::schedule(&write)?;
        let mut runs = self.runs()?;
        let scheduled = runs.schedule(write, self.reading());
        drop(runs);
        self.ring(scheduled == Scheduled::Done);
        Ok(scheduled)
    }

    async fn unschedule(&self, name: &str, over: Option<Revision>) -> StoreResult<bool> {
        Ok(self.runs()?.unschedule(name, over))
    }

    async fn find_schedule(&self, name: &str) -> StoreResult<Option<FoundSchedule>> {
        Ok(self.runs()?.find_schedule(name))
    }

    async fn schedules(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<FoundSchedule>> {
        Ok(self.runs()?.schedules(after, limit))
    }

    async fn due_schedules(&self, limit: usize) -> StoreResult<DueSchedules> {
        Ok(self.runs()?.due_schedules(limit, self.reading().now))
    }

    fn watch(&self) -> Watch {
        self.home.runs_bell.watch()
    }
}
