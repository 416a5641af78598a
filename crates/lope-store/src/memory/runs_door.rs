//! The door *Runs* on the memory: take the lock, read the clock once, do the verb, notify watchers
//! where work was made.

use std::collections::BTreeSet;

use lope_model::{Digest, Revision, RunId, RunnerId, VersionId};

use super::handle::Handle;
use crate::clock::Reading;
use crate::error::StoreResult;
use crate::runs::{
    Admit, Admitted, Beat, Claim, Claimed, ClaimedRun, CommitReply, Deliver, Delivered, Deploy,
    DueSchedules, FoundSchedule, JournalRow, Loaded, Mail, Prune, Pruned, QueueCount, Register,
    ResultHead, RunCommit, RunCounts, RunFilter, RunRecord, RunnerRecord, RunsVerbs, ScheduleWrite,
    Scheduled, Serves, SessionResult, StoredDefinition, TakenOver, Takeover, validate,
};
use crate::tables::Append;
use crate::watch::{Hint, Watch};

impl Handle {
    /// Taken under the lock, so that a later verb never has an earlier time.
    fn reading(&self) -> Reading {
        Reading::of(&*self.inner.clock)
    }

    /// Messages of the commits that were written. The caller holds the lock of the runs, so both
    /// are seen together.
    fn send(&self, mailbox_sends: Vec<Vec<Append>>, replies: &[CommitReply]) -> StoreResult<()> {
        let mailbox_sends = mailbox_sends
            .into_iter()
            .zip(replies)
            .filter(|(_, reply)| is_done(reply))
            .flat_map(|(mailbox_sends, _)| mailbox_sends);
        let mut mailbox_sends = mailbox_sends.peekable();
        if mailbox_sends.peek().is_some() {
            let mut tables = self.tables()?;
            mailbox_sends.for_each(|send| tables.append(send));
            self.inner.tables_notifier.notify();
        }
        Ok(())
    }

    fn notify(&self, made_work: bool) {
        if made_work {
            self.inner.runs_notifier.notify();
        }
    }
}

fn is_done(reply: &CommitReply) -> bool {
    matches!(reply, CommitReply::Done { .. })
}

impl RunsVerbs for Handle {
    async fn deploy(&self, deploy: Deploy) -> StoreResult<()> {
        validate::deploy(&deploy)?;
        self.runs()?.deploy(deploy, self.reading().now);
        Ok(())
    }

    async fn definition(&self, version: VersionId) -> StoreResult<Option<StoredDefinition>> {
        Ok(self.runs()?.definitions.get(&version).cloned())
    }

    async fn latest(&self, name: String) -> StoreResult<Option<StoredDefinition>> {
        Ok(self.runs()?.latest(&name))
    }

    async fn definitions(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> StoreResult<Vec<StoredDefinition>> {
        Ok(self.runs()?.definitions(after.as_deref(), limit))
    }

    async fn admit(&self, admits: Vec<Admit>) -> StoreResult<Vec<Admitted>> {
        validate::admits(&admits)?;
        let mut runs = self.runs()?;
        let admitted = runs.admit(admits, self.reading());
        drop(runs);
        self.notify(
            admitted
                .iter()
                .any(|admitted| matches!(admitted, Admitted::Created { owned: false, .. })),
        );
        Ok(admitted)
    }

    async fn claim(&self, claim: Claim) -> StoreResult<SessionResult<Claimed>> {
        let mut runs = self.runs()?;
        Ok(runs.claim(&claim, self.reading()))
    }

    async fn load(&self, runs: Vec<RunId>) -> StoreResult<Vec<Option<Loaded>>> {
        let state = self.runs()?;
        Ok(runs
            .iter()
            .map(|run| state.runs.get(run).map(|entry| entry.loaded()))
            .collect())
    }

    async fn blobs(&self, run: RunId, digests: Vec<Digest>) -> StoreResult<Vec<Option<Vec<u8>>>> {
        let state = self.runs()?;
        let blobs = state.runs.get(&run).map(|entry| &entry.blobs);
        Ok(digests
            .iter()
            .map(|digest| blobs.and_then(|blobs| blobs.get(digest)).cloned())
            .collect())
    }

    async fn commit(&self, commits: Vec<RunCommit>) -> StoreResult<Vec<CommitReply>> {
        validate::commits(&commits)?;
        let mut runs = self.runs()?;
        let mailbox_sends: Vec<Vec<Append>> = commits
            .iter()
            .map(|commit| commit.mailbox_sends.clone())
            .collect();
        let hints: Vec<Hint> = commits.iter().map(RunCommit::hint).collect();
        let replies = runs.commit(commits, self.reading());
        self.send(mailbox_sends, &replies)?;
        drop(runs);
        let made = hints.into_iter().zip(&replies);
        let made = made.filter(|(_, reply)| is_done(reply));
        self.inner
            .runs_notifier
            .hint(made.map(|(hint, _)| hint).max().unwrap_or_default());
        Ok(replies)
    }

    async fn deliver(&self, mail: Vec<Deliver>) -> StoreResult<Vec<Delivered>> {
        validate::deliveries(&mail)?;
        let mut runs = self.runs()?;
        let delivered = runs.deliver(mail, self.reading().now);
        drop(runs);
        self.notify(delivered.contains(&Delivered::Accepted));
        Ok(delivered)
    }

    async fn register(&self, register: Register) -> StoreResult<Beat> {
        validate::register(&register)?;
        let mut runs = self.runs()?;
        Ok(runs.register(register, self.reading()))
    }

    async fn heartbeat(&self, runner: RunnerId) -> StoreResult<SessionResult<Beat>> {
        let mut runs = self.runs()?;
        Ok(runs.heartbeat(runner, self.reading()))
    }

    async fn announce(&self, runner: RunnerId, serves: Serves) -> StoreResult<SessionResult<()>> {
        validate::serves(&serves)?;
        let mut runs = self.runs()?;
        Ok(runs.announce(runner, serves, self.reading()))
    }

    async fn takeover(&self, takeover: Takeover) -> StoreResult<TakenOver> {
        let mut runs = self.runs()?;
        let taken = runs.takeover(takeover, self.reading());
        drop(runs);
        self.notify(taken.runs > 0);
        Ok(taken)
    }

    async fn release(&self, runner: RunnerId) -> StoreResult<u64> {
        let mut runs = self.runs()?;
        let released = runs.release(runner, self.reading().now);
        drop(runs);
        self.notify(released > 0);
        Ok(released)
    }

    async fn owned(
        &self,
        runner: RunnerId,
        after: Option<RunId>,
        limit: usize,
    ) -> StoreResult<Vec<ClaimedRun>> {
        Ok(self.runs()?.owned(runner, after, limit))
    }

    async fn waiting(
        &self,
        runner: RunnerId,
        limit: usize,
    ) -> StoreResult<Vec<(RunId, Vec<Mail>)>> {
        Ok(self.runs()?.waiting(runner, limit))
    }

    async fn runners(&self, limit: usize) -> StoreResult<Vec<RunnerRecord>> {
        Ok(self.runs()?.runners(limit, self.reading().moment))
    }

    async fn live(&self, runners: Vec<RunnerId>) -> StoreResult<Vec<bool>> {
        Ok(self.runs()?.live(&runners, self.reading().moment))
    }

    async fn run(&self, run: RunId) -> StoreResult<Option<RunRecord>> {
        Ok(self.runs()?.runs.get(&run).map(|entry| entry.shown()))
    }

    async fn listed(&self, runs: Vec<RunId>) -> StoreResult<Vec<RunRecord>> {
        let state = self.runs()?;
        let there: BTreeSet<RunId> = runs.into_iter().collect();
        let there = there.iter().filter_map(|run| state.runs.get(run));
        Ok(there.map(|entry| entry.listed()).collect())
    }

    async fn result(&self, run: RunId, most: usize) -> StoreResult<Option<ResultHead>> {
        let state = self.runs()?;
        let result = state.runs.get(&run).and_then(|entry| entry.result.as_ref());
        Ok(result.map(|result| ResultHead {
            bytes: result[..result.len().min(most)].to_vec(),
            total: result.len() as u64,
        }))
    }

    async fn find_key(&self, key: String) -> StoreResult<Option<RunId>> {
        Ok(self.runs()?.keys.get(&key).copied())
    }

    async fn list(&self, filter: RunFilter) -> StoreResult<Vec<RunRecord>> {
        Ok(self.runs()?.list(&filter))
    }

    async fn journal(&self, run: RunId, after: u64, limit: usize) -> StoreResult<Vec<JournalRow>> {
        Ok(self.runs()?.journal(run, after, limit))
    }

    async fn counts(&self) -> StoreResult<RunCounts> {
        Ok(self.runs()?.counts(self.reading().now))
    }

    async fn queues(&self) -> StoreResult<Vec<QueueCount>> {
        Ok(self.runs()?.counts(self.reading().now).queues)
    }

    async fn prune(&self, prune: Prune) -> StoreResult<Pruned> {
        Ok(self.runs()?.prune(&prune))
    }

    async fn schedule(&self, write: Box<ScheduleWrite>) -> StoreResult<Scheduled> {
        validate::schedule(&write)?;
        let mut runs = self.runs()?;
        let scheduled = runs.schedule(*write, self.reading());
        drop(runs);
        self.notify(scheduled == Scheduled::Done);
        Ok(scheduled)
    }

    async fn unschedule(&self, name: String, over: Option<Revision>) -> StoreResult<bool> {
        Ok(self.runs()?.unschedule(&name, over))
    }

    async fn find_schedule(&self, name: String) -> StoreResult<Option<FoundSchedule>> {
        Ok(self.runs()?.find_schedule(&name))
    }

    async fn schedules(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> StoreResult<Vec<FoundSchedule>> {
        Ok(self.runs()?.schedules(after.as_deref(), limit))
    }

    async fn due_schedules(&self, limit: usize) -> StoreResult<DueSchedules> {
        Ok(self.runs()?.due_schedules(limit, self.reading().now))
    }

    fn watch(&self) -> Watch {
        self.inner.runs_notifier.watch()
    }
}
