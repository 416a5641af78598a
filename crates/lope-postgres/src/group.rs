//! One transaction for many callers: admissions, commits and mail that waited together. In: the
//! commands; out: an answer to each.
//!
//! Order within the transaction: admissions, the runs themselves, their children, all mail. What
//! needs no answer from an earlier part travels in one pipeline with the `commit`; children and
//! mail of commits wait for the verdict on these.

use std::collections::HashMap;

use lope_model::RunId;
use lope_store::StoreError;
use lope_store::runs::{Admit, Admitted, CommitReply, Deliver, Delivered, RunCommit};
use lope_store::verdict::{self, ChildFacts};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::admit::{self, ADMIT, AdmitColumns};
use crate::commit::{self, FINISH, FinishColumns, HOLD, HoldColumns};
use crate::connection::{DbConnection, Pipeline, Ready};
use crate::deliver::{self, ArrivedMail, DELIVER, LOCK, LOCK_ENDED, MailColumns};
use crate::failure::Worked;
use crate::lone_hold::LoneHold;
use crate::mailbox_send::SendColumns;
use crate::versions::Versions;

/// How often a command is judged again when what stood against it is gone by the time it is asked
/// about.
const ROUNDS_MAX: usize = 5;

/// Commands of one transaction. No run is committed twice.
#[derive(Default)]
pub(crate) struct GroupWork<'a> {
    pub(crate) admits: Vec<&'a Admit>,
    pub(crate) commits: Vec<&'a RunCommit>,
    pub(crate) mail: Vec<&'a Deliver>,
}

/// Answers in the order of the commands. One that could not be found out is absent.
#[derive(Default, Debug)]
pub(crate) struct GroupOutcome {
    pub(crate) admitted: Vec<Option<Admitted>>,
    pub(crate) replies: Vec<Option<CommitReply>>,
    pub(crate) delivered: Vec<Delivered>,
}

/// What the server said to the parts of a transaction.
#[derive(Default)]
struct ServerAnswers {
    created: Vec<HashMap<RunId, bool>>,
    /// Runs that were written, with their mail counters.
    written: HashMap<RunId, u64>,
    arrivals: Vec<ArrivedMail>,
    undelivered: HashMap<RunId, Vec<RunId>>,
}

/// The statements of a group, ready on its connection.
struct Statements {
    lock: Ready,
    lock_ended: Ready,
    admit: Ready,
    hold: Ready,
    finish: Ready,
    deliver: Ready,
}

impl Statements {
    /// Prepared side by side, the first time.
    async fn on(db: &DbConnection) -> Worked<Self> {
        let (lock, lock_ended, admit, hold, finish, deliver) = tokio::try_join!(
            db.ready(&LOCK),
            db.ready(&LOCK_ENDED),
            db.ready(&ADMIT),
            db.ready(&HOLD),
            db.ready(&FINISH),
            db.ready(&DELIVER)
        )?;
        Ok(Self {
            lock,
            lock_ended,
            admit,
            hold,
            finish,
            deliver,
        })
    }
}

/// Carry out the commands in one transaction, then find out why some were left out.
pub(crate) async fn perform(
    db: &DbConnection,
    work: &GroupWork<'_>,
    versions: &Versions,
) -> Worked<GroupOutcome> {
    let mut outcome = GroupOutcome::default();
    outcome.admitted.resize(work.admits.len(), None);
    outcome.replies.resize(work.commits.len(), None);
    let (mut admits, mut commits): (Vec<usize>, Vec<usize>) = (
        (0..work.admits.len()).collect(),
        (0..work.commits.len()).collect(),
    );
    for round in 0..ROUNDS_MAX {
        let mail = if round == 0 {
            work.mail.clone()
        } else {
            Vec::new()
        };
        let part = GroupWork {
            admits: admits.iter().map(|index| work.admits[*index]).collect(),
            commits: commits.iter().map(|index| work.commits[*index]).collect(),
            mail,
        };
        let answer = perform_once(db, &part, versions).await;
        let done = match answer {
            Ok(done) => done,
            // Earlier rounds are written: what they answered stands.
            Err(_) if round > 0 => return Ok(outcome),
            Err(fault) => return Err(fault),
        };
        if round == 0 {
            outcome.delivered = done.delivered;
        }
        admits = settle(&mut outcome.admitted, &admits, done.admitted);
        commits = settle(&mut outcome.replies, &commits, done.replies);
        if !done.found_out || (admits.is_empty() && commits.is_empty()) {
            break;
        }
    }
    Ok(outcome)
}

/// Keep the answers; the places that have none are left.
fn settle<T>(answers: &mut [Option<T>], indexes: &[usize], given: Vec<Option<T>>) -> Vec<usize> {
    let mut left = Vec::new();
    for (index, answer) in indexes.iter().zip(given) {
        if answer.is_none() {
            left.push(*index);
        }
        answers[*index] = answer;
    }
    left
}

struct AttemptedGroup {
    admitted: Vec<Option<Admitted>>,
    replies: Vec<Option<CommitReply>>,
    delivered: Vec<Delivered>,
    /// Could everything be asked? If so, what has no answer may be tried again.
    found_out: bool,
}

async fn perform_once(
    db: &DbConnection,
    work: &GroupWork<'_>,
    versions: &Versions,
) -> Worked<AttemptedGroup> {
    let barred = barred(db, work, versions).await?;
    let said = transact(db, work, &barred).await?;
    versions.learn(
        work.admits
            .iter()
            .filter(|admit| said.is_created(admit.run))
            .map(|admit| admit.version),
    );
    let (admitted, replies) = tokio::join!(
        admit::answers(db, work.admits.iter().copied(), said.created.clone()),
        replies(db, work, &said, &barred)
    );
    let found_out = admitted.is_ok() && replies.is_ok();
    Ok(AttemptedGroup {
        admitted: admitted.unwrap_or_else(|_| vec![None; work.admits.len()]),
        replies: replies.unwrap_or_else(|_| said.plain_replies(work)),
        delivered: said
            .arrivals
            .iter()
            .map(|arrival| arrival.delivered)
            .collect(),
        found_out,
    })
}

/// Why a commit is not even sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bar {
    /// Its own rows leave a number out.
    Rows,
    /// A child's version was never deployed.
    Version,
}

async fn barred(
    db: &DbConnection,
    work: &GroupWork<'_>,
    versions: &Versions,
) -> Worked<HashMap<RunId, Bar>> {
    let children: Vec<&Admit> = work
        .commits
        .iter()
        .flat_map(|commit| &commit.children)
        .collect();
    let strange: Vec<&Admit> = children
        .into_iter()
        .filter(|child| !versions.knows(child.version))
        .collect();
    let found = commit::child_facts(db, &strange).await?;
    let known = ChildFacts {
        version_known: true,
        exists: false,
    };
    let facts = |child: &Admit| found.get(&child.run).copied().unwrap_or(known);
    let bar = |commit: &&RunCommit| {
        if !verdict::is_consecutive(&commit.rows) {
            Some((commit.run, Bar::Rows))
        } else if verdict::children(commit.children.iter().map(facts)).is_err() {
            Some((commit.run, Bar::Version))
        } else {
            None
        }
    };
    Ok(work.commits.iter().filter_map(bar).collect())
}

/// The transaction: one pipeline, or two if children or mail depend on commits.
async fn transact(
    db: &DbConnection,
    work: &GroupWork<'_>,
    barred: &HashMap<RunId, Bar>,
) -> Worked<ServerAnswers> {
    let sent: Vec<&RunCommit> = work
        .commits
        .iter()
        .copied()
        .filter(|one| !barred.contains_key(&one.run))
        .collect();
    if work.admits.is_empty()
        && work.mail.is_empty()
        && let [alone] = sent[..]
        && let Some(alone) = LoneHold::of(alone)
    {
        return Ok(ServerAnswers {
            written: alone.write(db).await?,
            ..ServerAnswers::default()
        });
    }
    // Boxed: a future that prepares every statement is large, and is rarely awaited.
    let statements = Box::pin(Statements::on(db)).await?;
    let (holds, finishes) = commit::columns(sent.iter().copied());
    let admits: Vec<AdmitColumns> = admit::waves(work.admits.iter().copied())
        .iter()
        .map(|wave| AdmitColumns::of(wave))
        .collect();
    let locks = Locks::of(&sent, &work.mail, !holds.is_empty() && !finishes.is_empty());
    let follows = sent.iter().any(|commit| has_followers(commit));
    let own_mail = MailWaves::of(if follows {
        Vec::new()
    } else {
        work.mail.clone()
    });

    let mut pipeline = Pipeline::begin(db);
    let mut plan = vec![PipelineStage::Other];
    locks.lock(&statements, &mut pipeline, &mut plan);
    for columns in &admits {
        pipeline.query(statements.admit.clone(), columns.params());
        plan.push(PipelineStage::Admit);
    }
    commits(&statements, &mut pipeline, &mut plan, &holds, &finishes);
    own_mail.send(&statements, &mut pipeline, &mut plan);
    if !follows {
        pipeline.commit();
        plan.push(PipelineStage::Other);
    }
    let mut said = ServerAnswers::default();
    let answers = pipeline.run().await?;
    let arrivals = said.hear(&plan, &answers)?;
    said.arrivals = own_mail.sorted(arrivals);
    if follows {
        follow(db, &statements, work, &sent, &mut said).await?;
    }
    Ok(said)
}

/// Does anything of a commit wait for the verdict on it?
fn has_followers(commit: &RunCommit) -> bool {
    !commit.children.is_empty() || !commit.deliveries.is_empty() || !commit.mailbox_sends.is_empty()
}

/// What one stage of a pipeline was, so that its answer is understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PipelineStage {
    Admit,
    Commit,
    Mail,
    Other,
}

fn commits<'a>(
    statements: &Statements,
    pipeline: &mut Pipeline<'a>,
    plan: &mut Vec<PipelineStage>,
    holds: &'a HoldColumns<'_>,
    finishes: &'a FinishColumns<'_>,
) {
    if !holds.is_empty() {
        pipeline.query(statements.hold.clone(), holds.params());
        plan.push(PipelineStage::Commit);
    }
    if !finishes.is_empty() {
        pipeline.query(statements.finish.clone(), finishes.params());
        plan.push(PipelineStage::Commit);
    }
}

/// Children, messages and mail of the commits that were written, and the callers' own mail behind
/// them.
async fn follow(
    db: &DbConnection,
    statements: &Statements,
    work: &GroupWork<'_>,
    sent: &[&RunCommit],
    said: &mut ServerAnswers,
) -> Worked<()> {
    let written: Vec<&RunCommit> = sent
        .iter()
        .copied()
        .filter(|one| said.written.contains_key(&one.run))
        .collect();
    let children: Vec<AdmitColumns> =
        admit::waves(written.iter().flat_map(|commit| &commit.children))
            .iter()
            .map(|wave| AdmitColumns::of(wave))
            .collect();
    let of_commits: Vec<(RunId, &Deliver)> = written
        .iter()
        .flat_map(|commit| commit.deliveries.iter().map(|mail| (commit.run, mail)))
        .collect();
    let all: Vec<&Deliver> = of_commits
        .iter()
        .map(|(_, mail)| *mail)
        .chain(work.mail.iter().copied())
        .collect();
    let mails = MailWaves::of(all);
    let mailbox_sends = SendColumns::of(&written);
    let ready = mailbox_sends.ready(db).await?;
    let mut pipeline = Pipeline::within(db);
    let mut plan = Vec::new();
    for columns in &children {
        pipeline.query(statements.admit.clone(), columns.params());
        plan.push(PipelineStage::Other);
    }
    mails.send(statements, &mut pipeline, &mut plan);
    plan.extend(vec![
        PipelineStage::Other;
        mailbox_sends.send(ready, &mut pipeline)
    ]);
    pipeline.commit();
    plan.push(PipelineStage::Other);
    let answers = pipeline.run().await?;
    let arrivals = said.hear(&plan, &answers)?;
    let mut arrivals = mails.sorted(arrivals);
    said.arrivals = arrivals.split_off(of_commits.len());
    said.note_deliveries(&of_commits, &arrivals);
    Ok(())
}

/// Mail of one pipeline, in as many statements as it needs.
struct MailWaves<'a> {
    waves: Vec<(Vec<usize>, MailColumns<'a>)>,
    count: usize,
}

impl<'a> MailWaves<'a> {
    fn of(mail: Vec<&'a Deliver>) -> Self {
        let waves = deliver::waves(&mail).into_iter().map(|indexes| {
            let part: Vec<&Deliver> = indexes.iter().map(|index| mail[*index]).collect();
            (indexes, MailColumns::of(&part))
        });
        Self {
            waves: waves.collect(),
            count: mail.len(),
        }
    }

    fn send<'b>(
        &'b self,
        statements: &Statements,
        pipeline: &mut Pipeline<'b>,
        plan: &mut Vec<PipelineStage>,
    ) {
        for (_, columns) in &self.waves {
            pipeline.query(statements.deliver.clone(), columns.params());
            plan.push(PipelineStage::Mail);
        }
    }

    /// Arrivals as the statements gave them, in the order of the mail.
    fn sorted(&self, arrivals: Vec<ArrivedMail>) -> Vec<ArrivedMail> {
        let indexes = self
            .waves
            .iter()
            .flat_map(|(indexes, _)| indexes.iter().copied());
        let mut sorted: Vec<(usize, ArrivedMail)> = indexes.zip(arrivals).collect();
        sorted.sort_by_key(|(index, _)| *index);
        debug_assert_eq!(sorted.len(), self.count, "every delivery has an answer");
        sorted.into_iter().map(|(_, arrival)| arrival).collect()
    }
}

/// Rows that are locked before anything is looked at, by id.
#[derive(Default)]
struct Locks {
    queue: Vec<Uuid>,
    ended: Vec<Uuid>,
}

impl Locks {
    /// A single statement locks in order by itself; several, or mail, need the locks first.
    fn of(commits: &[&RunCommit], mail: &[&Deliver], mixed: bool) -> Self {
        let mails: Vec<&Deliver> = commits
            .iter()
            .flat_map(|commit| &commit.deliveries)
            .chain(mail.iter().copied())
            .collect();
        if mails.is_empty() && !mixed {
            return Self::default();
        }
        let mut queue: Vec<Uuid> = commits.iter().map(|commit| commit.run.uuid()).collect();
        queue.extend(mails.iter().map(|letter| letter.run.uuid()));
        queue.sort_unstable();
        queue.dedup();
        Self {
            queue,
            ended: deliver::reopened(&mails),
        }
    }

    fn lock<'a>(
        &'a self,
        statements: &Statements,
        pipeline: &mut Pipeline<'a>,
        plan: &mut Vec<PipelineStage>,
    ) {
        for (runs, statement) in [
            (&self.queue, &statements.lock),
            (&self.ended, &statements.lock_ended),
        ] {
            if !runs.is_empty() {
                pipeline.query(statement.clone(), vec![runs]);
                plan.push(PipelineStage::Other);
            }
        }
    }
}

impl ServerAnswers {
    /// Understand the answers of a pipeline; the arrivals among them are handed back.
    fn hear(&mut self, plan: &[PipelineStage], answers: &[Vec<Row>]) -> Worked<Vec<ArrivedMail>> {
        let mut arrivals = Vec::new();
        for (part, rows) in plan.iter().zip(answers) {
            match part {
                PipelineStage::Admit => self.created.push(admit::created(rows)),
                PipelineStage::Commit => self.written.extend(commit::written(rows)),
                PipelineStage::Mail => arrivals.extend(deliver::arrivals(rows)?),
                PipelineStage::Other => {}
            }
        }
        Ok(arrivals)
    }

    fn is_created(&self, run: RunId) -> bool {
        self.created.iter().any(|wave| wave.contains_key(&run))
    }

    fn note_deliveries(&mut self, mail: &[(RunId, &Deliver)], arrivals: &[ArrivedMail]) {
        for ((sender, letter), arrival) in mail.iter().zip(arrivals) {
            match arrival.delivered {
                Delivered::Accepted | Delivered::Duplicate => {}
                Delivered::Finished | Delivered::Missing | Delivered::Full => {
                    self.undelivered
                        .entry(*sender)
                        .or_default()
                        .push(letter.run);
                }
            }
            if let Some(mail) = self.written.get_mut(&letter.run) {
                *mail = arrival.mail.max(*mail);
            }
        }
    }

    fn reply(&self, commit: &RunCommit) -> Option<CommitReply> {
        let mail = *self.written.get(&commit.run)?;
        let undelivered = self
            .undelivered
            .get(&commit.run)
            .cloned()
            .unwrap_or_default();
        Some(CommitReply::Done { mail, undelivered })
    }

    /// Answers to what was written, none to the rest.
    fn plain_replies(&self, work: &GroupWork<'_>) -> Vec<Option<CommitReply>> {
        work.commits
            .iter()
            .map(|commit| self.reply(commit))
            .collect()
    }
}

async fn replies(
    db: &DbConnection,
    work: &GroupWork<'_>,
    said: &ServerAnswers,
    barred: &HashMap<RunId, Bar>,
) -> Worked<Vec<Option<CommitReply>>> {
    let mut replies = said.plain_replies(work);
    let open: Vec<usize> = (0..replies.len())
        .filter(|index| replies[*index].is_none())
        .collect();
    let left_out: Vec<&RunCommit> = open.iter().map(|index| work.commits[*index]).collect();
    for (index, reason) in open.iter().zip(commit::explain(db, &left_out).await?) {
        let bar = barred.get(&work.commits[*index].run);
        replies[*index] =
            reason.or_else(|| (bar == Some(&Bar::Version)).then_some(CommitReply::UnknownVersion));
    }
    Ok(replies)
}

/// The error of a caller whose command could not be answered though its transaction was committed.
pub(crate) fn unanswered() -> StoreError {
    StoreError::unknown("the connection was lost before the answer could be found out")
}
