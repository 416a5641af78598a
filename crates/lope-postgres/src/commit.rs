//! `commit`: what happened to runs. In: commits; out: the columns of the two statements that write
//! them, and the verdicts.
//!
//! A run's row in the queue is the guard: owner, epoch and journal head are compared in the
//! statement that changes it. Whatever was not written is explained afterwards, from what stands
//! there then.

use std::collections::HashMap;

use lope_model::{Epoch, RunId, RunnerId, Timestamp};
use lope_store::runs::{Admit, CommitReply, Finish, Release, RunCommit, Then, Wake};
use lope_store::verdict::{self, ChildFacts, CommitFacts};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::columns::Appends;
use crate::connection::DbConnection;
use crate::failure::Worked;
use crate::statement::{Params, Statement};

pub(crate) static HOLD: Statement = Statement {
    name: "commit_hold",
    text: include_str!("commit_hold.sql"),
    types: "append uuids uuids ints ints ints ints ints texts texts bools ints ints texts",
};

pub(crate) static FINISH: Statement = Statement {
    name: "commit_finish",
    text: include_str!("commit_finish.sql"),
    types: "append uuids uuids ints ints ints ints ints texts ints bytes bytes",
};

static STATE: Statement = Statement {
    name: "commit_state",
    text: include_str!("commit_state.sql"),
    types: "uuids",
};

static VERSIONS: Statement = Statement {
    name: "commit_versions",
    text: include_str!("commit_versions.sql"),
    types: "uuids texts bytes",
};

/// What both statements ask of a run, and what they append to it.
#[derive(Default)]
struct Guards<'a> {
    appends: Appends<'a>,
    run: Vec<Uuid>,
    owner: Vec<Uuid>,
    epoch: Vec<i64>,
    after: Vec<Option<i64>>,
    rows: Vec<i64>,
    snapshot: Vec<Option<i64>>,
    law: Vec<Option<i64>>,
    status: Vec<&'a str>,
}

/// The parameters of `commit_hold.sql`.
#[derive(Default)]
pub(crate) struct HoldColumns<'a> {
    guards: Guards<'a>,
    taken: Vec<Option<String>>,
    release: Vec<bool>,
    due: Vec<i64>,
    seen: Vec<i64>,
    parked: Vec<Option<&'a str>>,
}

/// The parameters of `commit_finish.sql`.
#[derive(Default)]
pub(crate) struct FinishColumns<'a> {
    guards: Guards<'a>,
    seen: Vec<Option<i64>>,
    result: Vec<Option<&'a [u8]>>,
    error: Vec<Option<&'a [u8]>>,
}

impl<'a> Guards<'a> {
    fn add(&mut self, commit: &'a RunCommit, status: &'a str) {
        self.appends.add(
            commit.run,
            &commit.rows,
            &commit.blobs,
            commit.snapshot.as_ref(),
        );
        self.run.push(commit.run.uuid());
        self.owner.push(commit.owner.uuid());
        self.epoch.push(commit.epoch.0 as i64);
        self.after
            .push(commit.rows.first().map(|row| row.seq as i64 - 1));
        self.rows.push(commit.rows.len() as i64);
        self.snapshot
            .push(commit.snapshot.as_ref().map(|snapshot| snapshot.seq as i64));
        self.law.push(
            commit
                .snapshot
                .as_ref()
                .map(|snapshot| i64::from(snapshot.law)),
        );
        self.status.push(status);
    }

    fn params(&self) -> Params<'_> {
        let mut params = self.appends.params();
        params.extend([
            &self.run as &(dyn ToSql + Sync),
            &self.owner,
            &self.epoch,
            &self.after,
            &self.rows,
            &self.snapshot,
            &self.law,
            &self.status,
        ]);
        params
    }
}

impl<'a> HoldColumns<'a> {
    fn add(&mut self, commit: &'a RunCommit, status: &'a str, release: Option<&'a Release>) {
        let due = match release.map(|release| &release.wake) {
            Some(Wake::At(due)) => *due,
            Some(Wake::OnMail | Wake::Parked(_)) | None => Timestamp::NEVER,
        };
        let parked = match release.map(|release| &release.wake) {
            Some(Wake::Parked(reason)) => Some(reason.as_str()),
            Some(Wake::At(_) | Wake::OnMail) | None => None,
        };
        let seen = release.map_or(0, |release| release.seen);
        self.guards.add(commit, status);
        self.taken
            .push((!commit.taken.is_empty()).then(|| array(&commit.taken)));
        self.release.push(release.is_some());
        self.due.push(due.millis());
        self.seen.push(i64::try_from(seen).unwrap_or(i64::MAX));
        self.parked.push(parked);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.release.is_empty()
    }

    pub(crate) fn params(&self) -> Params<'_> {
        let mut params = self.guards.params();
        params.extend([
            &self.taken as &(dyn ToSql + Sync),
            &self.release,
            &self.due,
            &self.seen,
            &self.parked,
        ]);
        params
    }
}

impl<'a> FinishColumns<'a> {
    fn add(&mut self, commit: &'a RunCommit, finish: &'a Finish) {
        self.guards.add(commit, finish.status.as_str());
        let seen = finish
            .seen
            .map(|seen| i64::try_from(seen).unwrap_or(i64::MAX));
        self.seen.push(seen);
        self.result.push(finish.result.as_deref());
        self.error.push(finish.error.as_deref());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    pub(crate) fn params(&self) -> Params<'_> {
        let mut params = self.guards.params();
        params.extend([&self.seen as &(dyn ToSql + Sync), &self.result, &self.error]);
        params
    }
}

/// Sort commits into the two statements, by run id.
pub(crate) fn columns<'a>(
    commits: impl IntoIterator<Item = &'a RunCommit>,
) -> (HoldColumns<'a>, FinishColumns<'a>) {
    let mut sorted: Vec<&RunCommit> = commits.into_iter().collect();
    sorted.sort_unstable_by_key(|commit| commit.run);
    let (mut holds, mut finishes) = (HoldColumns::default(), FinishColumns::default());
    for commit in sorted {
        match &commit.then {
            Then::Hold(status) => holds.add(commit, status.as_str(), None),
            Then::Release(release) => holds.add(commit, release.status.as_str(), Some(release)),
            Then::Finish(finish) => finishes.add(commit, finish),
        }
    }
    (holds, finishes)
}

/// Numbers as Postgres writes an array.
fn array(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    format!("{{{}}}", numbers.join(","))
}

/// The runs that a statement has written, with their mail counters.
pub(crate) fn written(rows: &[Row]) -> impl Iterator<Item = (RunId, u64)> + '_ {
    rows.iter()
        .map(|row| (RunId::from_uuid(row.get(0)), row.get::<_, i64>(1) as u64))
}

/// What is known of children whose versions this process has not met.
pub(crate) async fn child_facts(
    db: &DbConnection,
    children: &[&Admit],
) -> Worked<HashMap<RunId, ChildFacts>> {
    if children.is_empty() {
        return Ok(HashMap::new());
    }
    let runs: Vec<Uuid> = children.iter().map(|child| child.run.uuid()).collect();
    let keys: Vec<Option<&str>> = children.iter().map(|child| child.key.as_deref()).collect();
    let versions: Vec<&[u8]> = children
        .iter()
        .map(|child| &child.version.0.as_bytes()[..])
        .collect();
    let rows = db.read(&VERSIONS, vec![&runs, &keys, &versions]).await?;
    let facts = rows.iter().map(|row| {
        let facts = ChildFacts {
            version_known: row.get(1),
            exists: row.get(2),
        };
        (RunId::from_uuid(row.get(0)), facts)
    });
    Ok(facts.collect())
}

/// Why these commits were not written. `None`: nothing stands against the commit any more.
pub(crate) async fn explain(
    db: &DbConnection,
    commits: &[&RunCommit],
) -> Worked<Vec<Option<CommitReply>>> {
    if commits.is_empty() {
        return Ok(Vec::new());
    }
    let runs: Vec<Uuid> = commits.iter().map(|commit| commit.run.uuid()).collect();
    let rows = db.read(&STATE, vec![&runs]).await?;
    let found: HashMap<RunId, CommitFacts> = rows.iter().map(facts).collect();
    Ok(commits
        .iter()
        .map(|commit| verdict::commit(commit, found.get(&commit.run)).err())
        .collect())
}

fn facts(row: &Row) -> (RunId, CommitFacts) {
    let number = |index| row.get::<_, i64>(index) as u64;
    let owner = row.get::<_, Option<Uuid>>(1).map(RunnerId::from_uuid);
    (
        RunId::from_uuid(row.get(0)),
        CommitFacts {
            owner,
            epoch: Epoch(number(2)),
            head: number(3),
            mail: number(4),
        },
    )
}
