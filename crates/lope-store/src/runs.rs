//! The door *Runs*: workflow runs from admission to completion, as verbs.
//!
//! `admit → claim → load → commit → …`, guarded by owner and epoch. A store never looks into a
//! journal row, a snapshot or a value: it keeps bytes in order, decides who owns a run, and loses
//! nothing. All times come from the store's clock except those that a command carries. Bounds of
//! commands are in [`validate`]; each store asks there first.

mod admit;
mod claim;
mod commit;
mod definition;
mod deliver;
mod prune;
mod query;
mod record;
mod schedule;
mod serves;
mod session;
pub mod validate;

use lope_model::{Digest, Revision, RunId, RunnerId, VersionId};

pub use lope_model::Blob;

pub use admit::{Admit, Admitted};
pub use claim::{Claim, Claimed, ClaimedRun, STOPPED, damaged};
pub use commit::{CommitReply, Finish, Release, RunCommit, Then, Wake};
pub use definition::{Deploy, StoredDefinition};
pub use deliver::{Deliver, Delivered, Mail, Reach};
pub use prune::{Prune, Pruned};
pub use query::{Cursor, QueueCount, RunCounts, RunFilter};
pub use record::{
    FinalStatus, JournalRow, LiveStatus, Loaded, Parent, ResultHead, RunRecord, RunStatus, Snapshot,
};
pub use schedule::{DueSchedules, FoundSchedule, ScheduleWrite, Scheduled, StoredSchedule};
pub use serves::Serves;
pub use session::{Beat, Register, RunnerRecord, SessionLost, SessionResult, TakenOver, Takeover};

use crate::door::{IntoRequest, door};
use crate::watch::Watch;

impl IntoRequest<Box<Self>> for ScheduleWrite {
    fn into_request(self) -> Box<Self> {
        Box::new(self)
    }
}

door! {
    /// Workflow runs.
    door Runs, verbs RunsVerbs, request RunsRequest, answer RunsAnswer;

    plain {
        /// Wakes when somebody, in this process or another, may have made work: admitted, delivered,
        /// scheduled, released; and when runs have ended. A commit after which the owner goes on with
        /// its run wakes nobody.
        fn watch(&self) -> Watch;
    }

    verbs {
        /// Keep a definition under its version. Repeating it changes nothing but which version of the
        /// name is the latest.
        async fn deploy as Deploy(deploy: Deploy) -> StoreResult<()>;

        /// The definition of a version.
        async fn definition as Definition(
            version: VersionId,
        ) -> StoreResult<Option<StoredDefinition>>;

        /// The definition deployed last under a name.
        async fn latest as Latest(name: &str => String) -> StoreResult<Option<StoredDefinition>>;

        /// The latest version of every name, by name (as bytes), at most `limit` after `after`.
        async fn definitions as Definitions(
            after: Option<&str> => Option<String>,
            limit: usize,
        ) -> StoreResult<Vec<StoredDefinition>>;

        /// Store runs with their first journal rows and their place in the queue: each all or nothing,
        /// one after the other (the second of two with one key finds the first), all durable on return.
        async fn admit as Admit(admits: Vec<Admit>) -> StoreResult<Vec<Admitted>>;

        /// Take due runs that nobody owns, highest priority first, then earliest due. No run goes to
        /// two claimers.
        async fn claim as Claim(claim: Claim) -> StoreResult<SessionResult<Claimed>>;

        /// What is needed to go on with these runs: record, snapshot, the journal behind it, waiting
        /// mail. Each run as it was at one moment: an owner that releases with this record's mail
        /// counter must have been given that mail.
        async fn load as Load(runs: &[RunId] => Vec<RunId>) -> StoreResult<Vec<Option<Loaded>>>;

        /// Values of a run stored by content.
        async fn blobs as Blobs(
            run: RunId,
            digests: &[Digest] => Vec<Digest>,
        ) -> StoreResult<Vec<Option<Vec<u8>>>>;

        /// Write what happened to many runs. Each is guarded by owner and epoch and is all or nothing;
        /// one that is lost leaves the others alone. What is answered as done is durable.
        async fn commit as Commit(commits: Vec<RunCommit>) -> StoreResult<Vec<CommitReply>>;

        /// Put mail (a signal, an input, a cancel…) before a run, whoever owns it, and wake it. One
        /// after the other: the second of two with one id is a duplicate.
        async fn deliver as Deliver(mail: Vec<Deliver>) -> StoreResult<Vec<Delivered>>;

        /// Enter a runner into the registry and begin its session.
        async fn register as Register(register: Register) -> StoreResult<Beat>;

        /// Extend a session, and with it every lease of the runner.
        async fn heartbeat as Heartbeat(runner: RunnerId) -> StoreResult<SessionResult<Beat>>;

        /// Say anew what a runner serves.
        async fn announce as Announce(
            runner: RunnerId,
            serves: Serves,
        ) -> StoreResult<SessionResult<()>>;

        /// End the sessions that have expired (or whose process is proven dead) and put their runs back
        /// into the queue, due now, with a higher epoch.
        async fn takeover as Takeover(takeover: Takeover) -> StoreResult<TakenOver>;

        /// Give back everything a runner owns, due now, and end its session. The number of runs given
        /// back.
        async fn release as Release(runner: RunnerId) -> StoreResult<u64>;

        /// What the store says this runner owns, by run id, at most `limit` after `after`.
        async fn owned as Owned(
            runner: RunnerId,
            after: Option<RunId>,
            limit: usize,
        ) -> StoreResult<Vec<ClaimedRun>>;

        /// Runs of this runner's that have mail not yet taken, each with that mail in order of arrival;
        /// at most `limit` runs.
        async fn waiting as Waiting(
            runner: RunnerId,
            limit: usize,
        ) -> StoreResult<Vec<(RunId, Vec<Mail>)>>;

        /// The runners of the registry, live and ended, youngest first.
        async fn runners as Runners(limit: usize) -> StoreResult<Vec<RunnerRecord>>;

        /// Of these runners, whose sessions live: in order. One that does not will never again.
        async fn live as Live(runners: &[RunnerId] => Vec<RunnerId>) -> StoreResult<Vec<bool>>;

        /// One run, with its result.
        async fn run as Run(run: RunId) -> StoreResult<Option<RunRecord>>;

        /// Those of these runs that are there, in no order, without their results, as a listing shows
        /// them: one that cannot be read is left out.
        async fn listed as Listed(runs: &[RunId] => Vec<RunId>) -> StoreResult<Vec<RunRecord>>;

        /// The beginning of a run's result, at most `most` bytes of it. Nothing: there is none.
        async fn result as Result(run: RunId, most: usize) -> StoreResult<Option<ResultHead>>;

        /// The run with a key of the user's.
        async fn find_key as FindKey(key: &str => String) -> StoreResult<Option<RunId>>;

        /// Runs that match, youngest first, without their results.
        async fn list as List(filter: RunFilter) -> StoreResult<Vec<RunRecord>>;

        /// Journal rows of a run with `seq > after`, in order, at most `limit`.
        async fn journal as Journal(
            run: RunId,
            after: u64,
            limit: usize,
        ) -> StoreResult<Vec<JournalRow>>;

        /// How many runs there are, by status, and how deep the queues are. Of runs that have ended
        /// the same way at most [`limit::ENDED_COUNTED_MAX`] are counted.
        async fn counts as Counts() -> StoreResult<RunCounts>;

        /// How deep the queues are: by name, those that have unfinished runs.
        async fn queues as Queues() -> StoreResult<Vec<QueueCount>>;

        /// Delete finished runs with all that belongs to them, a bounded number at a time.
        async fn prune as Prune(prune: Prune) -> StoreResult<Pruned>;

        /// Write a schedule, guarded by its revision, together with the run that it starts and the mail
        /// that it sends. Of many who write over one revision one is answered with `Done`.
        async fn schedule as Schedule(
            write: ScheduleWrite => Box<ScheduleWrite>,
        ) -> StoreResult<Scheduled>;

        /// Take a schedule away, if it is there (and of this revision, if one is named). Its runs stay.
        async fn unschedule as Unschedule(
            name: &str => String,
            over: Option<Revision>,
        ) -> StoreResult<bool>;

        /// One schedule.
        async fn find_schedule as FindSchedule(
            name: &str => String,
        ) -> StoreResult<Option<FoundSchedule>>;

        /// Schedules by name (as bytes), at most `limit` after `after`.
        async fn schedules as Schedules(
            after: Option<&str> => Option<String>,
            limit: usize,
        ) -> StoreResult<Vec<FoundSchedule>>;

        /// Schedules that are due by the store's clock, at most `limit`, and when to look again.
        async fn due_schedules as DueSchedules(limit: usize) -> StoreResult<DueSchedules>;
    }
}
