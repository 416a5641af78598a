//! What the statements of Postgres decide is what `lope_store::verdict` decides: every combination
//! of facts is written into the tables, every kind of command is sent, and the answers and what they
//! left behind are held against the verdicts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::HashMap;

use lope_model::{Digest, Epoch, RunId, RunnerId, Timestamp, VersionId, limit};
use lope_store::Store;
use lope_store::runs::{
    Admit, Admitted, CommitReply, Deliver, Delivered, FinalStatus, Finish, LiveStatus, Reach,
    Release, RunCommit, RunRecord, RunStatus, Snapshot, Then, Wake,
};
use lope_store::verdict::{self, AdmitFacts, CommitFacts, DeliverFacts, Granted};
use tokio_postgres::Client;

use crate::fixture::commands::{admission, deploy, register, row, run_id, version};
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

    /// The cases, each with a run in the state that its facts tell of.
    async fn with_runs(
        &self,
        mut cases: Vec<(CommitFacts, RunCommit)>,
    ) -> Vec<(CommitFacts, RunCommit)> {
        let runs = self.admit(cases.len()).await;
        for ((_, commit), run) in cases.iter_mut().zip(&runs) {
            commit.run = *run;
        }
        let name = &self.schema.name;
        let text = format!(
            "update {name}.queue q set owner = i.owner, epoch = i.epoch, head = {HEAD}, mail = {MAIL}, taken = {MAIL}
             from unnest($1::uuid[], $2::uuid[], $3::bigint[]) as i (run_id, owner, epoch) where q.run_id = i.run_id"
        );
        let ids: Vec<_> = runs.iter().map(|run| run.uuid()).collect();
        let facts = || cases.iter().map(|(facts, _)| facts);
        let owners: Vec<_> = facts()
            .map(|facts| facts.owner.map(RunnerId::uuid))
            .collect();
        let epochs: Vec<_> = facts().map(|facts| facts.epoch.0 as i64).collect();
        let written = self
            .beside
            .execute(&text, &[&ids, &owners, &epochs])
            .await
            .unwrap();
        assert_eq!(written as usize, cases.len());
        cases
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
                    vec![HEAD + 1, HEAD + 3],
                    vec![HEAD + 1, HEAD + 1],
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
    let mut granted = HashMap::new();
    for some in scene.with_runs(commits()).await.chunks(CALL) {
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

/// A commit that is alone in its group has a statement of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_alone_is_decided_in_sql_as_the_verdict_decides_it() {
    let Some(url) = server() else { return };
    let scene = Scene::new(&url).await;
    let alone = commits()
        .into_iter()
        .filter(|(_, commit)| matches!(commit.then, Then::Hold(_)) && commit.snapshot.is_none());
    let cases = scene.with_runs(alone.collect()).await;
    assert_eq!(cases.len(), 3 * 2 * 7);
    for (facts, commit) in cases {
        let verdict = verdict::commit(&commit, Some(&facts));
        let found = scene.store.runs.commit(vec![commit.clone()]).await.unwrap();
        assert_eq!(
            found,
            [reply(verdict.clone(), MAIL)],
            "{facts:?} {commit:?}"
        );
        let record = scene.record(commit.run).await;
        let never = (Timestamp::EPOCH, Timestamp::NEVER);
        check_written(&record, &facts, &commit, &verdict, never);
    }
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

/// Around both bounds of what may wait.
const WAITING: [u64; 5] = [
    0,
    limit::MAIL_MAX - 1,
    limit::MAIL_MAX,
    limit::MAIL_MAX + limit::MAIL_RESERVED - 1,
    limit::MAIL_MAX + limit::MAIL_RESERVED,
];
/// Mail that ever came to a live run.
const CAME: u64 = limit::MAIL_MAX + limit::MAIL_RESERVED + 10;

/// Mail of every kind that is decided differently.
fn mail_forms() -> Vec<Deliver> {
    let mut forms = Vec::new();
    for reach in [Reach::Live, Reach::Unpark, Reach::Reopen] {
        for reserved in [false, true] {
            forms.push(Deliver {
                run: RunId::from_bytes([0; 16]),
                id: String::new(),
                kind: "signal".to_owned(),
                body: vec![1],
                reach,
                reserved,
            });
        }
    }
    forms
}

/// A run in every state, and mail for it.
fn deliveries() -> Vec<(DeliverFacts, Deliver)> {
    let mut cases = Vec::new();
    for ended in std::iter::once(None).chain(FinalStatus::ALL.map(Some)) {
        for seen in [false, true] {
            for waiting in WAITING {
                // Nothing waits for a run that has ended.
                let waiting = if ended.is_some() { 0 } else { waiting };
                for form in mail_forms() {
                    let facts = DeliverFacts {
                        ended,
                        seen,
                        waiting,
                    };
                    let mail = Deliver {
                        id: if seen { "before" } else { "fresh" }.to_owned(),
                        ..form
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
    let mut mail_before = Vec::new();
    for run in &runs {
        mail_before.push(scene.record(*run).await.mail);
    }
    let sent = cases.iter().map(|(_, mail)| mail.clone()).collect();
    let answers = scene.store.runs.deliver(sent).await.unwrap();
    let after = scene.store.upkeep.reading().await.unwrap().now;
    let mut reopened = 0;
    for (((facts, mail), found), before) in cases.iter().zip(answers).zip(mail_before) {
        let verdict = verdict::deliver(mail, Some(facts));
        let expected = verdict.map_or_else(|refused| refused, |_| Delivered::Accepted);
        assert_eq!(found, expected, "{facts:?} {mail:?}");
        let record = scene.record(mail.run).await;
        let Ok(accepted) = verdict else {
            assert_eq!(record.mail, before, "{facts:?} {mail:?}");
            continue;
        };
        assert_eq!(record.mail, before + 1, "{facts:?} {mail:?}");
        assert!(record.due.unwrap() <= after, "{facts:?} {mail:?}");
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
                    CAME,
                    CAME - facts.waiting
                );
                self.beside.execute(&text, &[&id]).await.unwrap();
            }
        }
    }
}

/// Two deliveries to one run in one call: what the first did decides about the second.
fn pairs() -> Vec<(DeliverFacts, [Deliver; 2])> {
    let live = WAITING.map(|waiting| (None, waiting));
    let ended = [FinalStatus::Failed, FinalStatus::Completed].map(|ended| (Some(ended), 0));
    let mut pairs = Vec::new();
    for (ended, waiting) in live.into_iter().chain(ended) {
        for first in mail_forms() {
            for second in mail_forms() {
                for id in ["first", "second"] {
                    let first = Deliver {
                        id: "first".to_owned(),
                        ..first.clone()
                    };
                    let second = Deliver {
                        id: id.to_owned(),
                        ..second.clone()
                    };
                    let facts = DeliverFacts {
                        ended,
                        seen: false,
                        waiting,
                    };
                    pairs.push((facts, [first, second]));
                }
            }
        }
    }
    pairs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_of_one_call_is_decided_in_sql_as_if_it_came_one_by_one() {
    let Some(url) = server() else { return };
    let scene = Scene::new(&url).await;
    let mut cases = pairs();
    let runs = scene.admit(cases.len()).await;
    for ((facts, pair), run) in cases.iter_mut().zip(&runs) {
        pair.iter_mut().for_each(|mail| mail.run = *run);
        scene.prepare(facts, *run).await;
    }
    for some in cases.chunks(CALL / 2) {
        let sent = some.iter().flat_map(|(_, pair)| pair.clone()).collect();
        let answers = scene.store.runs.deliver(sent).await.unwrap();
        for ((facts, pair), found) in some.iter().zip(answers.chunks(2)) {
            let mut now = *facts;
            let mut is_parked = facts.ended.is_none();
            let mut arrived: Vec<&str> = Vec::new();
            let mut expected = Vec::new();
            for mail in pair {
                now.seen = arrived.contains(&&*mail.id);
                expected.push(match verdict::deliver(mail, Some(&now)) {
                    Ok(accepted) => {
                        now.ended = None;
                        now.waiting += 1;
                        is_parked &= !accepted.unparks;
                        arrived.push(&mail.id);
                        Delivered::Accepted
                    }
                    Err(refused) => refused,
                });
            }
            assert_eq!(found, expected, "{facts:?} {pair:?}");
            let record = scene.record(pair[0].run).await;
            assert_eq!(record.parked.is_some(), is_parked, "{facts:?} {pair:?}");
            let before = if facts.ended.is_none() { CAME } else { 0 };
            let mail = before + arrived.len() as u64;
            assert_eq!(record.mail, mail, "{facts:?} {pair:?}");
        }
    }
    scene.end().await;
}

/// What an admission may meet: whose id and key it has, its version, the session it names.
fn admissions(sessions: &[Option<RunnerId>; 4], taken: &[RunId; 2]) -> Vec<(AdmitFacts, Admit)> {
    let [by_id, by_key] = taken;
    let mut cases = Vec::new();
    for (existing, key) in [
        (None, None),
        (None, Some("fresh")),
        (Some(by_id), None),
        (Some(by_id), Some("taken")),
        (None, Some("taken")),
    ] {
        for version_known in [true, false] {
            for (session, claimed_by) in sessions.iter().enumerate() {
                for due in [Timestamp::EPOCH, Timestamp::NEVER] {
                    for (base, rows) in [(None, vec![1, 2]), (Some(5), vec![6]), (Some(5), vec![])]
                    {
                        let known_key = (key == Some("taken")).then_some(by_key);
                        let facts = AdmitFacts {
                            existing: existing
                                .or(known_key)
                                .map(|run| (*run, admission(*run).workflow)),
                            version_known,
                            session_held: session == LIVE,
                        };
                        let unknown = VersionId(Digest::of(b"nobody deployed it"));
                        let key = match key {
                            Some("fresh") => Some(format!("fresh {}", cases.len())),
                            other => other.map(str::to_owned),
                        };
                        let admit = Admit {
                            key,
                            due,
                            claimed_by: *claimed_by,
                            version: if version_known { version() } else { unknown },
                            rows: rows.iter().map(|seq| row(*seq)).collect(),
                            snapshot: base.map(|seq| Snapshot {
                                seq,
                                law: 1,
                                body: vec![1],
                            }),
                            ..admission(existing.copied().unwrap_or_else(run_id))
                        };
                        cases.push((facts, admit));
                    }
                }
            }
        }
    }
    cases
}

/// Which of the sessions lives.
const LIVE: usize = 1;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admission_is_decided_in_sql_as_the_verdict_decides_it() {
    let Some(url) = server() else { return };
    let scene = Scene::new(&url).await;
    let taken = [run_id(), run_id()];
    let keyed = Admit {
        key: Some("taken".to_owned()),
        ..admission(taken[1])
    };
    let first = scene.store.runs.admit(vec![admission(taken[0]), keyed]);
    first.await.unwrap();
    let [live, expired, ended] = [
        register(&scene.store).await.unwrap(),
        register(&scene.store).await.unwrap(),
        register(&scene.store).await.unwrap(),
    ];
    let name = &scene.schema.name;
    for (set, runner) in [("expires = 1", expired), ("ended_at = 1", ended)] {
        let text = format!("update {name}.sessions set {set} where runner_id = $1");
        let changed = scene.beside.execute(&text, &[&runner.uuid()]).await;
        assert_eq!(changed.unwrap(), 1);
    }
    let sessions = [None, Some(live), Some(expired), Some(ended)];
    let cases = admissions(&sessions, &taken);
    let before = scene.store.upkeep.reading().await.unwrap().now;
    let sent = cases.iter().map(|(_, admit)| admit.clone()).collect();
    let answers = scene.store.runs.admit(sent).await.unwrap();
    let after = scene.store.upkeep.reading().await.unwrap().now;
    let mut created = 0;
    for ((facts, admit), found) in cases.iter().zip(answers) {
        let births = [before, after].map(|now| verdict::admit(admit, facts.clone(), now));
        let [Ok(earliest), Ok(latest)] = births else {
            assert_eq!(Err(found), births[0], "{facts:?} {admit:?}");
            continue;
        };
        let expected = Admitted::created(earliest.owner.is_some());
        assert_eq!(found, expected, "{facts:?} {admit:?}");
        let record = scene.record(admit.run).await;
        let written = (record.owner, record.epoch, record.head);
        let birth = (earliest.owner, earliest.epoch, earliest.head);
        assert_eq!(written, birth, "{facts:?} {admit:?}");
        let due = record.due.unwrap();
        assert!((earliest.due..=latest.due).contains(&due), "{admit:?}");
        created += 1;
    }
    assert_eq!(created, 2 * 4 * 2 * 3);
    scene.end().await;
}
