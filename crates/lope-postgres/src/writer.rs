//! Group commit for runs: callers leave their commands in a queue; a few writers take what waits,
//! carry it out in one transaction each, and answer after it is on disk. Writers are spawned here
//! and end when the queue is closed.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lope_model::RunId;
use lope_store::runs::{Admit, Admitted, CommitReply, Deliver, Delivered, RunCommit};
use lope_store::watch::Hint;
use lope_store::{StoreError, StoreResult};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::connection::DbConnection;
use crate::failure::{FaultResponse, Worked};
use crate::group::{self, GroupOutcome, GroupWork};
use crate::notify::Notifiers;
use crate::options::{GroupLimits, WRITER_QUEUE_MAX};
use crate::pool::Connector;
use crate::size::{self, Size, Weighed};
use crate::versions::Versions;

/// How often a group that was rolled back because others stood in its way is tried again.
const TRIES_MAX: u32 = 10;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(2);

/// What one caller wants, and where its answer goes.
pub(crate) enum RunJob {
    Admit(Vec<Admit>, JobReply<Admitted>),
    Commit(Vec<RunCommit>, JobReply<CommitReply>),
    Deliver(Vec<Deliver>, JobReply<Delivered>),
}

pub(crate) type JobReply<T> = oneshot::Sender<StoreResult<Vec<T>>>;

/// The callers' end of the queue.
#[derive(Debug)]
pub(crate) struct Writers {
    queue: std::sync::Mutex<Option<mpsc::Sender<RunJob>>>,
    tasks: std::sync::Mutex<Vec<JoinHandle<()>>>,
}

/// The writers' end.
struct JobQueue {
    queue: mpsc::Receiver<RunJob>,
    /// Jobs that came out of the queue and did not fit into a group.
    held_back: VecDeque<RunJob>,
}

/// What every writer needs.
pub(crate) struct WriterParts {
    pub(crate) connector: Arc<Connector>,
    pub(crate) versions: Arc<Versions>,
    pub(crate) notifiers: Arc<Notifiers>,
}

impl Writers {
    pub(crate) fn start(parts: WriterParts) -> Self {
        let (sender, queue) = mpsc::channel(WRITER_QUEUE_MAX);
        let waiting = Arc::new(Mutex::new(JobQueue {
            queue,
            held_back: VecDeque::new(),
        }));
        let number = parts.connector.options.writers.max(1);
        let parts = Arc::new(parts);
        let tasks = (0..number)
            .map(|_| tokio::spawn(work(Arc::clone(&waiting), Arc::clone(&parts))))
            .collect();
        Self {
            queue: std::sync::Mutex::new(Some(sender)),
            tasks: std::sync::Mutex::new(tasks),
        }
    }

    /// Leave commands, in as many jobs as they need, and wait for the answers.
    pub(crate) async fn ask<C: Weighed, T>(
        &self,
        commands: Vec<C>,
        job: impl Fn(Vec<C>, JobReply<T>) -> RunJob,
    ) -> StoreResult<Vec<T>> {
        let mut answers = Vec::with_capacity(commands.len());
        self.queue()?;
        for part in size::parts(commands)? {
            let (reply, answer) = oneshot::channel();
            self.queue()?
                .send(job(part, reply))
                .await
                .map_err(|_| StoreError::Closed)?;
            answers.extend(answer.await.unwrap_or(Err(StoreError::Closed))?);
        }
        Ok(answers)
    }

    fn queue(&self) -> StoreResult<mpsc::Sender<RunJob>> {
        self.queue
            .lock()
            .expect("nobody panics while holding it")
            .clone()
            .ok_or(StoreError::Closed)
    }

    /// Take no more jobs and wait until those there are done.
    pub(crate) async fn close(&self) {
        self.queue
            .lock()
            .expect("nobody panics while holding it")
            .take();
        let tasks =
            std::mem::take(&mut *self.tasks.lock().expect("nobody panics while holding it"));
        for task in tasks {
            // A writer that panicked has answered nobody; its callers were told when their channels
            // closed.
            let _ = task.await;
        }
    }
}

async fn work(waiting: Arc<Mutex<JobQueue>>, parts: Arc<WriterParts>) {
    let mut db = None;
    loop {
        let group = waiting
            .lock()
            .await
            .next_group(parts.connector.options.group)
            .await;
        if group.is_empty() {
            return;
        }
        carry_out(group, &mut db, &parts).await;
    }
}

impl JobQueue {
    /// Everything that waits, up to the limits; empty when the queue is closed and drained.
    async fn next_group(&mut self, limits: GroupLimits) -> Vec<RunJob> {
        let first = match self.held_back.pop_front() {
            Some(job) => Some(job),
            None => self.queue.recv().await,
        };
        let mut group = WriteGroup::default();
        group.jobs.extend(first);
        group
            .jobs
            .iter()
            .for_each(|job| job.note(&mut group.runs, &mut group.size));
        while group.has_room(limits)
            && let Some(job) = self
                .held_back
                .pop_front()
                .or_else(|| self.queue.try_recv().ok())
        {
            if !group.has_room_for(&job) {
                self.held_back.push_back(job);
                break;
            }
            group.take(job);
        }
        group.jobs
    }
}

/// Jobs of one transaction: no run is committed twice in it.
#[derive(Default)]
struct WriteGroup {
    jobs: Vec<RunJob>,
    runs: HashSet<RunId>,
    size: Size,
}

impl WriteGroup {
    fn has_room(&self, limits: GroupLimits) -> bool {
        !self.jobs.is_empty() && self.size.rows < limits.rows && self.size.bytes < limits.bytes
    }

    fn has_room_for(&self, job: &RunJob) -> bool {
        match job {
            RunJob::Commit(commits, _) => commits
                .iter()
                .all(|commit| !self.runs.contains(&commit.run)),
            RunJob::Admit(..) | RunJob::Deliver(..) => true,
        }
    }

    fn take(&mut self, job: RunJob) {
        job.note(&mut self.runs, &mut self.size);
        self.jobs.push(job);
    }
}

impl RunJob {
    fn note(&self, runs: &mut HashSet<RunId>, size: &mut Size) {
        match self {
            Self::Admit(admits, _) => admits.iter().for_each(|admit| size.add(admit.size())),
            Self::Deliver(mail, _) => mail.iter().for_each(|mail| size.add(mail.size())),
            Self::Commit(commits, _) => {
                for commit in commits {
                    runs.insert(commit.run);
                    size.add(commit.size());
                }
            }
        }
    }

    fn refuse(self, error: &StoreError) {
        // A caller that went away needs no answer.
        match self {
            Self::Admit(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Commit(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Deliver(_, reply) => drop(reply.send(Err(error.clone()))),
        }
    }
}

/// Carry out a group, job by job if the server refuses what one of them carries.
async fn carry_out(group: Vec<RunJob>, db: &mut Option<DbConnection>, parts: &WriterParts) {
    let result = attempt(&group, db, parts).await;
    match result {
        Ok(outcome) => answer(group, outcome, &parts.notifiers),
        Err(fault) if fault.response != FaultResponse::Tell && group.len() > 1 => {
            for job in group {
                let alone = vec![job];
                match attempt(&alone, db, parts).await {
                    Ok(outcome) => answer(alone, outcome, &parts.notifiers),
                    Err(fault) => alone.into_iter().for_each(|job| job.refuse(&fault.error)),
                }
            }
        }
        Err(fault) => group.into_iter().for_each(|job| job.refuse(&fault.error)),
    }
}

async fn attempt(
    group: &[RunJob],
    db: &mut Option<DbConnection>,
    parts: &WriterParts,
) -> Worked<GroupOutcome> {
    let work = work_of(group);
    let mut tries = 0;
    loop {
        let db = usable(db, &parts.connector).await?;
        match group::perform(db, &work, &parts.versions).await {
            Err(fault) if fault.response == FaultResponse::Again && tries < TRIES_MAX => {
                tries += 1;
                tokio::time::sleep(TRY_AGAIN_AFTER * tries).await;
            }
            done => return done,
        }
    }
}

async fn usable<'db>(
    db: &'db mut Option<DbConnection>,
    connector: &Connector,
) -> StoreResult<&'db DbConnection> {
    if !db.as_ref().is_some_and(DbConnection::is_usable) {
        *db = Some(connector.connect().await?);
    }
    Ok(db.as_ref().expect("just connected"))
}

fn work_of(group: &[RunJob]) -> GroupWork<'_> {
    let mut work = GroupWork::default();
    for job in group {
        match job {
            RunJob::Admit(admits, _) => work.admits.extend(admits),
            RunJob::Commit(commits, _) => work.commits.extend(commits),
            RunJob::Deliver(mail, _) => work.mail.extend(mail),
        }
    }
    work
}

/// Give every caller its part of the outcome, after those who may have work now are woken.
fn answer(group: Vec<RunJob>, outcome: GroupOutcome, notifiers: &Notifiers) {
    let made = made_work(&group, &outcome);
    notifiers.runs_changed(made.runs);
    if made.messages {
        notifiers.tables_changed();
    }
    let (mut admitted, mut replies) = (outcome.admitted.into_iter(), outcome.replies.into_iter());
    let mut delivered = outcome.delivered.into_iter();
    for job in group {
        match job {
            RunJob::Admit(admits, reply) => {
                drop(reply.send(whole(admitted.by_ref().take(admits.len()))));
            }
            RunJob::Commit(commits, reply) => {
                drop(reply.send(whole(replies.by_ref().take(commits.len()))));
            }
            RunJob::Deliver(mail, reply) => {
                drop(reply.send(Ok(delivered.by_ref().take(mail.len()).collect())));
            }
        }
    }
}

/// All answers of a caller, or none.
fn whole<T>(answers: impl Iterator<Item = Option<T>>) -> StoreResult<Vec<T>> {
    let answers: Vec<Option<T>> = answers.collect();
    answers
        .into_iter()
        .map(|answer| answer.ok_or_else(group::unanswered))
        .collect()
}

/// Whom a group's outcome may concern.
#[derive(Clone, Copy, Default)]
struct MadeWork {
    runs: Hint,
    /// Workers of mailboxes are.
    messages: bool,
}

fn made_work(group: &[RunJob], outcome: &GroupOutcome) -> MadeWork {
    let is_open =
        |answer: &Option<Admitted>| matches!(answer, Some(Admitted::Created { owned: false, .. }));
    let is_done = |answer: &Option<CommitReply>| matches!(answer, Some(CommitReply::Done { .. }));
    let commits = group.iter().flat_map(|job| match job {
        RunJob::Commit(commits, _) => commits.as_slice(),
        RunJob::Admit(..) | RunJob::Deliver(..) => &[],
    });
    let done = commits
        .zip(&outcome.replies)
        .filter(|(_, answer)| is_done(answer))
        .map(|(commit, _)| commit);
    let mut made = MadeWork::default();
    if outcome.admitted.iter().any(is_open) || outcome.delivered.contains(&Delivered::Accepted) {
        made.runs = Hint::Work;
    }
    for commit in done {
        made.runs = made.runs.max(commit.hint());
        made.messages |= !commit.mailbox_sends.is_empty();
    }
    made
}
