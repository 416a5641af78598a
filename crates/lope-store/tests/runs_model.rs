//! Random calls against a model of runs that keeps no index: a list, walked over from end to end
//! for every verb.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::Arc;

use lope_model::{
    Clock, Digest, Epoch, Priority, QueueName, Realm, RunId, RunnerId, Span, Timestamp, VersionId,
};
use lope_store::runs::{
    Admit, Admitted, Claim, CommitReply, Deliver, Delivered, Deploy, FinalStatus, Finish,
    JournalRow, LiveStatus, Prune, Reach, Register, Release, RunCommit, RunStatus, Takeover, Then,
    Wake,
};
use lope_store::{ManualClock, MemoryStore, Store};
use proptest::prelude::*;

const RUNS: u8 = 6;
const RUNNERS: u8 = 3;
const LEASE: Span = Span::from_millis(10);

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Admit {
        run: u8,
        priority: i64,
        queue: bool,
        due: u64,
    },
    Register(u8),
    Heartbeat(u8),
    Claim {
        runner: u8,
        limit: usize,
        both: bool,
    },
    Commit(Writing),
    Deliver {
        run: u8,
        id: u8,
        reach: u8,
    },
    Takeover(usize),
    Release(u8),
    Prune(usize),
}

/// What a commit tries: with an epoch of the future, taking its mail, and then what.
#[derive(Clone, Copy, Debug)]
struct Writing {
    run: u8,
    stale: bool,
    rows: u64,
    take: bool,
    then: u8,
}

fn step() -> impl Strategy<Value = Step> {
    let (run, runner) = (|| 0..RUNS, || 0..RUNNERS);
    prop_oneof![
        3 => (1..8_u64).prop_map(Step::Pass),
        4 => (run(), 0..10_i64, any::<bool>(), 0..6_u64)
            .prop_map(|(run, priority, queue, due)| Step::Admit { run, priority, queue, due }),
        2 => runner().prop_map(Step::Register),
        2 => runner().prop_map(Step::Heartbeat),
        6 => (runner(), 0..4_usize, any::<bool>()).prop_map(|(runner, limit, both)| Step::Claim { runner, limit, both }),
        10 => (run(), prop::bool::weighted(0.2), 0..3_u64, any::<bool>(), 0..8_u8)
            .prop_map(|(run, stale, rows, take, then)| Step::Commit(Writing { run, stale, rows, take, then })),
        5 => (run(), 0..4_u8, 0..3_u8).prop_map(|(run, id, reach)| Step::Deliver { run, id, reach }),
        2 => (0..4_usize).prop_map(Step::Takeover),
        1 => runner().prop_map(Step::Release),
        1 => (0..3_usize).prop_map(Step::Prune),
    ]
}

/// A run as the model knows it.
#[derive(Clone, Debug)]
struct Run {
    priority: Priority,
    queue: QueueName,
    due: Timestamp,
    owner: Option<RunnerId>,
    epoch: u64,
    head: u64,
    mail: u64,
    ids: Vec<u8>,
    waiting: Vec<u64>,
    parked: bool,
    ended: Option<Timestamp>,
    /// Did it end in failure? That may be reopened.
    failed: bool,
}

/// When a session expires, or that it has ended.
type Session = Option<i64>;

struct World {
    store: Store,
    clock: Arc<ManualClock>,
    runs: BTreeMap<RunId, Run>,
    sessions: BTreeMap<RunnerId, Session>,
}

fn run_of(number: u8) -> RunId {
    RunId::from_bytes([number; 16])
}

fn runner_of(number: u8) -> RunnerId {
    RunnerId::from_bytes([number; 16])
}

fn queue_of(second: bool) -> QueueName {
    QueueName::parse(if second { "second" } else { "first" }).expect("a good name")
}

fn version() -> VersionId {
    VersionId(Digest::of(b"model"))
}

impl Run {
    fn is_live(&self) -> bool {
        self.ended.is_none()
    }

    fn is_free(&self) -> bool {
        self.is_live() && self.owner.is_none() && !self.parked
    }
}

impl World {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = MemoryStore::with_clock(Arc::clone(&clock) as Arc<dyn Clock>);
        store
            .runs
            .deploy(Deploy {
                version: version(),
                name: "model".to_owned(),
                body: vec![],
            })
            .await
            .expect("up");
        Self {
            store,
            clock,
            runs: BTreeMap::new(),
            sessions: BTreeMap::new(),
        }
    }

    fn is_held(&self, runner: RunnerId) -> bool {
        self.sessions
            .get(&runner)
            .copied()
            .flatten()
            .is_some_and(|expires| self.clock.moment().0 < expires)
    }

    fn put_back(&mut self, runs: &[RunId]) {
        let now = self.clock.now();
        for run in runs {
            let run = self.runs.get_mut(run).expect("it was found");
            run.owner = None;
            run.epoch += 1;
            run.due = now;
        }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Pass(millis) => self.clock.pass(Span::from_millis(millis)),
            Step::Admit {
                run,
                priority,
                queue,
                due,
            } => self.admit(run_of(run), priority, queue, due).await,
            Step::Register(runner) => self.register(runner_of(runner)).await,
            Step::Heartbeat(runner) => self.heartbeat(runner_of(runner)).await,
            Step::Claim {
                runner,
                limit,
                both,
            } => self.claim(runner_of(runner), limit, both).await,
            Step::Commit(writing) => self.commit(writing).await,
            Step::Deliver { run, id, reach } => self.deliver(run_of(run), id, reach).await,
            Step::Takeover(limit) => self.takeover(limit).await,
            Step::Release(runner) => self.release(runner_of(runner)).await,
            Step::Prune(limit) => self.prune(limit).await,
        }
    }

    async fn admit(&mut self, run: RunId, priority: i64, queue: bool, due: u64) {
        let now = self.clock.now();
        let (priority, queue) = (Priority::new(priority).expect("in range"), queue_of(queue));
        let due = now.plus(Span::from_millis(due));
        let admit = Admit {
            run,
            workflow: "model".to_owned(),
            version: version(),
            key: None,
            queue: queue.clone(),
            priority,
            realm: Realm::default(),
            due,
            law: 1,
            weight: 1,
            tags: BTreeMap::new(),
            parent: None,
            rows: vec![],
            snapshot: None,
            blobs: vec![],
            claimed_by: None,
        };
        let answer = self
            .store
            .runs
            .admit(vec![admit])
            .await
            .expect("up")
            .remove(0);
        if self.runs.contains_key(&run) {
            let workflow = "model".to_owned();
            assert_eq!(answer, Admitted::Exists { run, workflow });
            return;
        }
        assert_eq!(
            answer,
            Admitted::Created {
                epoch: Epoch(0),
                owned: false
            }
        );
        let fresh = Run {
            priority,
            queue,
            due,
            owner: None,
            epoch: 0,
            head: 0,
            mail: 0,
            ids: vec![],
            waiting: vec![],
            parked: false,
            ended: None,
            failed: false,
        };
        self.runs.insert(run, fresh);
    }

    async fn register(&mut self, runner: RunnerId) {
        if self.sessions.contains_key(&runner) {
            return;
        }
        let (name, host, program) = (String::new(), String::new(), String::new());
        let register = Register {
            runner,
            name,
            host,
            pid: 1,
            process: String::new(),
            program,
            serves: lope_store::runs::Serves::default(),
            lease: LEASE,
        };
        self.store.runs.register(register).await.expect("up");
        self.sessions
            .insert(runner, Some(self.clock.moment().plus(LEASE).0));
    }

    async fn heartbeat(&mut self, runner: RunnerId) {
        let held = self.is_held(runner);
        assert_eq!(
            self.store.runs.heartbeat(runner).await.expect("up").is_ok(),
            held
        );
        if held {
            self.sessions
                .insert(runner, Some(self.clock.moment().plus(LEASE).0));
        }
    }

    async fn claim(&mut self, runner: RunnerId, limit: usize, both: bool) {
        let queues = if both {
            vec![queue_of(false), queue_of(true)]
        } else {
            vec![queue_of(false)]
        };
        let claim = Claim {
            runner,
            queues: queues.clone(),
            realms: vec![Realm::default()],
            law: 1,
            limit,
            weight: u64::MAX,
            most: None,
            only: Vec::new(),
        };
        let answer = self.store.runs.claim(claim).await.expect("up");
        if !self.is_held(runner) {
            assert!(answer.is_err());
            return;
        }
        let (answer, now) = (answer.expect("the session is held"), self.clock.now());
        let free = self
            .runs
            .iter()
            .filter(|(_, run)| run.is_free() && queues.contains(&run.queue));
        let mut due: Vec<_> = free
            .map(|(id, run)| (std::cmp::Reverse(run.priority), run.due, *id))
            .collect();
        let later = due
            .iter()
            .map(|(_, due, _)| *due)
            .filter(|due| *due > now && *due < Timestamp::NEVER)
            .min();
        due.retain(|(_, due, _)| *due <= now);
        due.sort();
        let rest = due.len() > limit;
        due.truncate(limit);
        let expected: Vec<RunId> = due.into_iter().map(|(_, _, id)| id).collect();
        assert_eq!(
            answer.runs.iter().map(|run| run.run).collect::<Vec<_>>(),
            expected
        );
        assert_eq!(answer.next_due, if rest { None } else { later });
        for claimed in answer.runs {
            let run = self.runs.get_mut(&claimed.run).expect("it was found");
            run.owner = Some(runner);
            run.epoch += 1;
            assert_eq!(
                (claimed.epoch.0, claimed.mail, claimed.due),
                (run.epoch, run.mail, run.due)
            );
        }
    }

    async fn commit(&mut self, writing: Writing) {
        let Writing {
            run,
            stale,
            rows,
            take,
            then,
        } = writing;
        let id = run_of(run);
        let now = self.clock.now();
        let known = self.runs.get(&id).cloned();
        let owner = known
            .as_ref()
            .and_then(|run| run.owner)
            .unwrap_or(runner_of(0));
        let (epoch, head, mail) = known
            .as_ref()
            .map_or((0, 0, 0), |run| (run.epoch, run.head, run.mail));
        let taken = known
            .as_ref()
            .filter(|_| take)
            .map_or(vec![], |run| run.waiting.clone());
        let commit = RunCommit {
            run: id,
            owner,
            epoch: Epoch(epoch + u64::from(stale)),
            rows: (head + 1..=head + rows).map(row).collect(),
            blobs: vec![],
            snapshot: None,
            taken: taken.clone(),
            children: vec![],
            deliveries: vec![],
            mailbox_sends: vec![],
            then: then_of(then, now, mail),
        };
        let reply = self
            .store
            .runs
            .commit(vec![commit.clone()])
            .await
            .expect("up")
            .remove(0);
        let Some(run) = self.runs.get_mut(&id).filter(|run| run.is_live()) else {
            assert_eq!(reply, CommitReply::Missing);
            return;
        };
        if stale || run.owner.is_none() {
            assert_eq!(
                reply,
                CommitReply::Lost {
                    owner: run.owner,
                    epoch: Epoch(run.epoch)
                }
            );
            return;
        }
        if let Then::Finish(Finish {
            seen: Some(seen), ..
        }) = commit.then
            && run.mail > seen
        {
            assert_eq!(reply, CommitReply::Mail { mail: run.mail });
            return;
        }
        assert_eq!(
            reply,
            CommitReply::Done {
                mail: run.mail,
                undelivered: vec![]
            }
        );
        run.head += rows;
        run.waiting.retain(|number| !taken.contains(number));
        go_on(run, commit.then, now);
    }

    async fn deliver(&mut self, id: RunId, mail_id: u8, reach: u8) {
        let reach = [Reach::Live, Reach::Unpark, Reach::Reopen][usize::from(reach)];
        let mail = Deliver {
            run: id,
            id: mail_id.to_string(),
            kind: "signal".to_owned(),
            body: vec![],
            reach,
            reserved: false,
        };
        let answer = self
            .store
            .runs
            .deliver(vec![mail])
            .await
            .expect("up")
            .remove(0);
        let now = self.clock.now();
        let Some(run) = self.runs.get_mut(&id) else {
            assert_eq!(answer, Delivered::Missing);
            return;
        };
        if run.ids.contains(&mail_id) {
            assert_eq!(answer, Delivered::Duplicate);
            return;
        }
        let reopens = reach == Reach::Reopen && run.failed;
        if !run.is_live() && !reopens {
            assert_eq!(answer, Delivered::Finished);
            return;
        }
        assert_eq!(answer, Delivered::Accepted);
        run.due = if run.is_live() { run.due.min(now) } else { now };
        (run.ended, run.failed) = (None, false);
        run.parked &= reach == Reach::Live;
        run.mail += 1;
        run.ids.push(mail_id);
        run.waiting.push(run.mail);
    }

    async fn takeover(&mut self, limit: usize) {
        let answer = self
            .store
            .runs
            .takeover(Takeover { limit })
            .await
            .expect("up");
        let expired: Vec<RunnerId> = self
            .sessions
            .keys()
            .copied()
            .filter(|runner| !self.is_held(*runner))
            .collect();
        let ended: Vec<RunnerId> = expired
            .iter()
            .copied()
            .filter(|runner| self.sessions[runner].is_some())
            .collect();
        for runner in &ended {
            self.sessions.insert(*runner, None);
        }
        assert_eq!(answer.ended, ended);
        // Which of several goes first is the store's business: believe its count, and look who is
        // free now.
        let orphaned = |run: &Run| run.owner.is_some_and(|owner| expired.contains(&owner));
        let orphans: Vec<RunId> = self
            .runs
            .iter()
            .filter(|(_, run)| orphaned(run))
            .map(|(id, _)| *id)
            .collect();
        assert_eq!(answer.runs as usize, orphans.len().min(limit));
        assert_eq!(answer.more, orphans.len() > limit);
        let mut back = Vec::new();
        for id in orphans {
            if self
                .store
                .runs
                .run(id)
                .await
                .expect("up")
                .expect("it is there")
                .owner
                .is_none()
            {
                back.push(id);
            }
        }
        assert_eq!(back.len(), answer.runs as usize);
        self.put_back(&back);
    }

    async fn release(&mut self, runner: RunnerId) {
        let given = self.store.runs.release(runner).await.expect("up");
        let held: Vec<RunId> = self
            .runs
            .iter()
            .filter(|(_, run)| run.owner == Some(runner))
            .map(|(id, _)| *id)
            .collect();
        assert_eq!(given as usize, held.len());
        self.put_back(&held);
        if let Some(session) = self.sessions.get_mut(&runner) {
            *session = None;
        }
    }

    async fn prune(&mut self, limit: usize) {
        let now = self.clock.now();
        let prune = Prune {
            before: now,
            statuses: vec![],
            workflow: None,
            limit,
        };
        let pruned = self.store.runs.prune(prune).await.expect("up");
        let mut ended: Vec<(Timestamp, RunId)> = self
            .runs
            .iter()
            .filter_map(|(id, run)| run.ended.map(|at| (at, *id)))
            .filter(|(at, _)| *at < now)
            .collect();
        ended.sort();
        assert_eq!(
            (pruned.runs.len(), pruned.more),
            (ended.len().min(limit), ended.len() > limit)
        );
        for (_, id) in ended.into_iter().take(limit) {
            self.runs.remove(&id);
        }
    }

    /// What the store says of every run is what the model knows of it.
    async fn compare(&self) {
        assert_eq!(self.store.upkeep.check().await.expect("up"), vec![]);
        for number in 0..RUNS {
            let id = run_of(number);
            let loaded = self.store.runs.load(&[id]).await.expect("up").remove(0);
            let Some(run) = self.runs.get(&id) else {
                assert_eq!(loaded, None);
                continue;
            };
            let loaded = loaded.expect("the model has it");
            let record = &loaded.record;
            assert_eq!(
                (record.owner, record.epoch.0, record.head, record.mail),
                (run.owner, run.epoch, run.head, run.mail)
            );
            assert_eq!(
                (record.parked.is_some(), record.finished_at),
                (run.parked, run.ended)
            );
            assert_eq!(record.due, run.is_live().then_some(run.due));
            assert_eq!(matches!(record.status, RunStatus::Live(_)), run.is_live());
            assert_eq!(
                loaded
                    .mail
                    .iter()
                    .map(|mail| mail.number)
                    .collect::<Vec<_>>(),
                run.waiting
            );
            assert_eq!(loaded.rows, (1..=run.head).map(row).collect::<Vec<_>>());
        }
        for number in 0..RUNNERS {
            let runner = runner_of(number);
            let owned = self.store.runs.owned(runner, None, 100).await.expect("up");
            let expected: Vec<RunId> = self
                .runs
                .iter()
                .filter(|(_, run)| run.owner == Some(runner))
                .map(|(id, _)| *id)
                .collect();
            assert_eq!(
                owned.iter().map(|run| run.run).collect::<Vec<_>>(),
                expected
            );
            let waiting = self.store.runs.waiting(runner, 100).await.expect("up");
            let mailed = expected
                .iter()
                .filter(|id| !self.runs[id].waiting.is_empty())
                .count();
            assert_eq!(waiting.len(), mailed);
        }
    }
}

fn row(seq: u64) -> JournalRow {
    JournalRow {
        seq,
        at: Timestamp::EPOCH,
        event: "row".into(),
        body: seq.to_be_bytes().to_vec(),
    }
}

fn then_of(then: u8, now: Timestamp, mail: u64) -> Then {
    let release = |wake, seen| {
        Then::Release(Release {
            status: LiveStatus::Waiting,
            wake,
            seen,
        })
    };
    let finish = |status, seen| {
        Then::Finish(Finish {
            status,
            result: None,
            error: None,
            seen,
        })
    };
    match then {
        0 => Then::Hold(LiveStatus::Running),
        1 => release(Wake::At(now.plus(Span::from_millis(5))), mail),
        2 => release(Wake::OnMail, mail.saturating_sub(1)),
        3 => release(Wake::OnMail, mail),
        4 => release(Wake::Parked("parked".to_owned()), mail.saturating_sub(1)),
        5 => finish(FinalStatus::Completed, Some(mail.saturating_sub(1))),
        6 => finish(FinalStatus::Completed, None),
        _ => finish(FinalStatus::Failed, None),
    }
}

fn go_on(run: &mut Run, then: Then, now: Timestamp) {
    match then {
        Then::Hold(_) => {}
        Then::Release(release) => {
            let unseen = run.mail > release.seen;
            run.owner = None;
            run.parked = !unseen && matches!(release.wake, Wake::Parked(_));
            run.due = match release.wake {
                _ if unseen => now,
                Wake::At(due) => due,
                Wake::OnMail | Wake::Parked(_) => Timestamp::NEVER,
            };
        }
        Then::Finish(finish) => {
            run.owner = None;
            run.waiting.clear();
            run.ended = Some(now);
            run.failed = finish.status == FinalStatus::Failed;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_memory_is_the_model(steps in prop::collection::vec(step(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
        runtime.block_on(async {
            let mut world = World::new().await;
            for number in 0..RUNNERS {
                world.register(runner_of(number)).await;
            }
            for step in steps {
                world.step(step).await;
                world.compare().await;
            }
        });
    }
}
