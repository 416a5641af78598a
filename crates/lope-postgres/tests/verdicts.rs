//! What the statements of Postgres decide is what `lope_store::verdict` decides: every combination
//! of facts is written into the tables, every kind of command is sent, and the answers and what they
//! left behind are held against the verdicts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::HashMap;

use lope_model::{Epoch, RunId, RunnerId, Timestamp, limit};
use lope_store::Store;
use lope_store::runs::{
    CommitReply, Deliver, Delivered, FinalStatus, Finish, LiveStatus, Reach, Release, RunCommit,
    RunRecord, RunStatus, Snapshot, Then, Wake,
};
use lope_store::verdict::{self, CommitFacts, DeliverFacts, Granted};
use tokio_postgres::Client;

use crate::fixture::commands::{admission, deploy, row, run_id};
use crate::fixture::{Schema, connect, server};

const ME: RunnerId = RunnerId::from_bytes([1; 16]);
const OTHER: RunnerId = RunnerId::from_bytes([2; 16]);
const HEAD: u64 = 7;
const MAIL: u64 = 2;
const EPOCH: Epoch = Epoch(3);
/// Commands of one call.
const CALL: usize = 200;

/// What a store holds of one test.
struct Scene {
    schema: Schema,
    store: Store,
    beside: Client,
}

impl Scene {
    async fn new(url: &str) -> Self {
        let schema = Schema::new(url);
        let store = schema.open().await;
        deploy(&store).await;
        let beside = connect(url).await;
        Self {
            schema,
            store,
            beside,
        }
    }

    /// So many live runs that nobody owns.
    async fn admit(&self, count: usize) -> Vec<RunId> {
        let runs: Vec<RunId> = (0..count).map(|_| run_id()).collect();
        for some in runs.chunks(CALL) {
            let admits = some.iter().map(|run| admission(*run)).collect();
            self.store.runs.admit(admits).await.unwrap();
        }
        runs
    }

    async fn record(&self, run: RunId) -> RunRecord {
        self.store.runs.run(run).await.unwrap().unwrap()
    }

    async fn end(self) {
        self.store.upkeep.close().await.unwrap();
    }
}

/// A way to end a commit.
fn thens() -> Vec<Then> {
    let mut thens = vec![Then::Hold(LiveStatus::Running)];
    for seen in [MAIL - 1, MAIL] {
        let wakes = [
            Wake::At(Timestamp::EPOCH),
            Wake::At(Timestamp::from_millis(i64::from(u32::MAX) * 4_000)),
            Wake::OnMail,
            Wake::Parked("paused".to_owned()),
        ];
        thens.extend(wakes.map(|wake| {
            Then::Release(Release {
                status: LiveStatus::Waiting,
                wake,
                seen,
            })
        }));
    }
    thens.extend([None, Some(MAIL - 1), Some(MAIL)].map(|seen| {
        Then::Finish(Finish {
            status: FinalStatus::Failed,
            result: None,
            error: None,
            seen,
        })
    }));
    thens
}

/// Every commit against every state of a run: facts, and what is asked.
fn commits() -> Vec<(CommitFacts, RunCommit)> {
    let mut cases = Vec::new();
    for then in thens() {
        for owner in [None, Some(ME), Some(OTHER)] {
            for epoch in [EPOCH, Epoch(EPOCH.0 + 1)] {
                for numbers in [
                    vec![],
                    vec![HEAD + 1],
                    vec![HEAD + 1, HEAD + 2],
                    vec![HEAD],
                    vec![HEAD + 2],
                ] {
                    let reach = HEAD + numbers.len() as u64;
                    for snapshot in [None, Some(reach), Some(reach + 1)] {
                        let facts = CommitFacts {
                            owner,
                            epoch,
                            head: HEAD,
                            mail: MAIL,
                        };
                        let nobody = RunId::from_bytes([0; 16]);
                        let commit = RunCommit {
                            rows: numbers.iter().map(|seq| row(*seq)).collect(),
                            snapshot: snapshot.map(|seq| Snapshot {
                                seq,
                                law: 1,
                                body: vec![1],
                            }),
                            ..RunCommit::new(nobody, ME, EPOCH, then.clone())
                        };
                        cases.push((facts, commit));
                    }
                }
            }
        }
    }
    cases
}

fn reply(verdict: Result<Granted, CommitReply>, mail: u64) -> CommitReply {
    match verdict {
        Ok(_) => CommitReply::Done {
            mail,
            undelivered: Vec::new(),
        },
        Err(refused) => refused,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_decided_in_sql_as_the_verdict_decides_it() {
    let Some(url) = server() else { return };
    let scene = Scene::new(&url).await;
    let mut cases = commits();
    let runs = scene.admit(cases.len()).await;
    for ((_, commit), run) in cases.iter_mut().zip(&runs) {
        commit.run = *run;
    }
    let name = &scene.schema.name;
    let text = format!(
        "update {name}.queue q set owner = i.owner, epoch = i.epoch, head = {HEAD}, mail = {MAIL}, taken = {MAIL}
         from unnest($1::uuid[], $2::uuid[], $3::bigint[]) as i (run_id, owner, epoch) where q.run_id = i.run_id"
    );
    let ids: Vec<_> = runs.iter().map(|run| run.uuid()).collect();
    let owners: Vec<_> = cases
        .iter()
        .map(|(facts, _)| facts.owner.map(RunnerId::uuid))
        .collect();
    let epochs: Vec<_> = cases
        .iter()
        .map(|(facts, _)| facts.epoch.0 as i64)
        .collect();
    let written = scene
        .beside
        .execute(&text, &[&ids, &owners, &epochs])
        .await
        .unwrap();
    assert_eq!(written as usize, cases.len());
    let mut granted = HashMap::new();
    for some in cases.chunks(CALL) {
        let before = scene.store.upkeep.reading().await.unwrap().now;
        let sent = some.iter().map(|(_, commit)| commit.clone()).collect();
        let replies = scene.store.runs.commit(sent).await.unwrap();
        let after = scene.store.upkeep.reading().await.unwrap().now;
        for ((facts, commit), found) in some.iter().zip(replies) {
            let verdict = verdict::commit(commit, Some(facts));
            assert_eq!(found, reply(verdict.clone(), MAIL), "{facts:?} {commit:?}");
            let record = scene.record(commit.run).await;
            check_written(&record, facts, commit, &verdict, (before, after));
            *granted.entry(verdict.is_ok()).or_insert(0) += 1;
        }
    }
    assert!(granted[&true] > 50 && granted[&false] > 500, "{granted:?}");
    let missing = RunCommit::new(run_id(), ME, EPOCH, Then::Hold(LiveStatus::Running));
    let expected = reply(verdict::commit(&missing, None), 0);
    assert_eq!(
        scene.store.runs.commit(vec![missing]).await.unwrap(),
        [expected]
    );
    scene.end().await;
}

/// What stands there afterwards is what the verdict says.
fn check_written(
    record: &RunRecord,
    facts: &CommitFacts,
    commit: &RunCommit,
    verdict: &Result<Granted, CommitReply>,
    (before, after): (Timestamp, Timestamp),
) {
    let Ok(Granted { head }) = verdict else {
        assert_eq!((record.owner, record.epoch), (facts.owner, facts.epoch));
        assert_eq!((record.head, record.mail), (facts.head, facts.mail));
        return;
    };
    assert_eq!(record.head, *head, "{commit:?}");
    assert_eq!(record.epoch, facts.epoch);
    match &commit.then {
        Then::Hold(status) => {
            assert_eq!(record.owner, Some(ME));
            assert_eq!(record.status, RunStatus::Live(*status));
        }
        Then::Release(release) => {
            assert_eq!(record.owner, None);
            let earliest = verdict::release(release, facts.mail, before);
            let latest = verdict::release(release, facts.mail, after);
            let due = record.due.unwrap();
            assert!(
                (earliest.due..=latest.due).contains(&due),
                "{due:?} {earliest:?} {latest:?} {release:?}"
            );
            assert_eq!(record.parked.as_deref(), earliest.parked, "{release:?}");
        }
        Then::Finish(finish) => assert_eq!(record.status, RunStatus::Final(finish.status)),
    }
}

/// A run in every state, and mail for it.
fn deliveries() -> Vec<(DeliverFacts, Deliver)> {
    let mut cases = Vec::new();
    for ended in std::iter::once(None).chain(FinalStatus::ALL.map(Some)) {
        for seen in [false, true] {
            for waiting in [0, limit::MAIL_MAX - 1, limit::MAIL_MAX] {
                // Nothing waits for a run that has ended.
                let waiting = if ended.is_some() { 0 } else { waiting };
                for reach in [Reach::Live, Reach::Unpark, Reach::Reopen] {
                    let facts = DeliverFacts {
                        ended,
                        seen,
                        waiting,
                    };
                    let mail = Deliver {
                        run: RunId::from_bytes([0; 16]),
                        id: if seen { "before" } else { "fresh" }.to_owned(),
                        kind: "signal".to_owned(),
                        body: vec![1],
                        reach,
                        reserved: waiting % 2 == 0,
                    };
                    cases.push((facts, mail));
                }
            }
        }
    }
    cases
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_is_decided_in_sql_as_the_verdict_decides_it() {
    let Some(url) = server() else { return };
    let scene = Scene::new(&url).await;
    let mut cases = deliveries();
    let runs = scene.admit(cases.len()).await;
    for ((_, mail), run) in cases.iter_mut().zip(&runs) {
        mail.run = *run;
    }
    for (facts, mail) in &cases {
        scene.prepare(facts, mail.run).await;
    }
    let sent = cases.iter().map(|(_, mail)| mail.clone()).collect();
    let answers = scene.store.runs.deliver(sent).await.unwrap();
    let mut reopened = 0;
    for ((facts, mail), found) in cases.iter().zip(answers) {
        let verdict = verdict::deliver(mail, Some(facts));
        let expected = verdict.map_or_else(|refused| refused, |_| Delivered::Accepted);
        assert_eq!(found, expected, "{facts:?} {mail:?}");
        let record = scene.record(mail.run).await;
        let Ok(accepted) = verdict else { continue };
        assert!(matches!(record.status, RunStatus::Live(_)), "{facts:?}");
        assert_eq!(
            record.parked.is_none(),
            accepted.unparks,
            "{facts:?} {mail:?}"
        );
        reopened += usize::from(accepted.reopens);
    }
    assert!(reopened > 0);
    let missing = Deliver {
        run: run_id(),
        ..cases[0].1.clone()
    };
    let expected = verdict::deliver(&missing, None).unwrap_err();
    assert_eq!(
        scene.store.runs.deliver(vec![missing]).await.unwrap(),
        [expected]
    );
    scene.end().await;
}

impl Scene {
    /// Bring a run into this state: parked if it lives, with mail that arrived before.
    async fn prepare(&self, facts: &DeliverFacts, run: RunId) {
        let name = &self.schema.name;
        if facts.seen {
            let before = Deliver {
                run,
                id: "before".to_owned(),
                kind: "signal".to_owned(),
                body: vec![1],
                reach: Reach::Live,
                reserved: false,
            };
            self.store.runs.deliver(vec![before]).await.unwrap();
        }
        let id = run.uuid();
        let text = format!(
            "update {name}.queue set owner = $2, epoch = {}, parked = 'paused' where run_id = $1",
            EPOCH.0
        );
        let owner = ME.uuid();
        self.beside.execute(&text, &[&id, &owner]).await.unwrap();
        match facts.ended {
            Some(status) => {
                let finish = Finish {
                    status,
                    result: None,
                    error: None,
                    seen: None,
                };
                let commit = RunCommit::new(run, ME, EPOCH, Then::Finish(finish));
                let replies = self.store.runs.commit(vec![commit]).await.unwrap();
                assert!(
                    matches!(replies[0], CommitReply::Done { .. }),
                    "{replies:?}"
                );
            }
            None => {
                let text = format!(
                    "update {name}.queue set mail = {}, taken = {} where run_id = $1",
                    limit::MAIL_MAX + 10,
                    limit::MAIL_MAX + 10 - facts.waiting
                );
                self.beside.execute(&text, &[&id]).await.unwrap();
            }
        }
    }
}
