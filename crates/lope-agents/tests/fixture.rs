//! What the tests begin with: a board in memory on a clock moved by hand, and processes that are as
//! the test says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lope_agents::board::{
    AgentBoard, AttemptStart, ClaimOutcome, HeldTask, ProcessFacts, RunnerEntry, RunnerPlace,
    StartedAttempt, TaskDraft,
};
use lope_agents::law::select::TaskQuery;
use lope_agents::law::settle::AttemptEnd;
use lope_agents::law::{ProcessProof, TaskRules};
use lope_agents::records::{
    AgentRunnerRecord, AttemptRole, StopReason, TaskAttemptRecord, TaskRecord,
};
use lope_model::{Clock, RunnerId, Span};
use lope_store::{ManualClock, MemoryStore};

pub(crate) const PROJECT: &str = "/projects/shop";

/// Processes that live until the test says otherwise, on a clock that the test moves.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) awake: Mutex<i64>,
    pub(crate) proofs: Mutex<BTreeMap<RunnerId, ProcessProof>>,
}

impl ProcessFacts for Facts {
    fn awake(&self) -> i64 {
        *self.awake.lock().unwrap()
    }

    fn proof(&self, runner: &AgentRunnerRecord) -> ProcessProof {
        let proofs = self.proofs.lock().unwrap();
        proofs
            .get(&runner.id)
            .copied()
            .unwrap_or(ProcessProof::Alive)
    }
}

pub(crate) struct Stage {
    pub(crate) board: AgentBoard,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) facts: Arc<Facts>,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(TaskRules::default()).await
    }

    pub(crate) async fn with(rules: TaskRules) -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = MemoryStore::with_clock(Arc::clone(&clock) as Arc<dyn Clock>);
        let facts = Arc::new(Facts::default());
        let board = AgentBoard::new(
            store.board,
            Arc::clone(&facts) as Arc<dyn ProcessFacts>,
            rules,
        );
        board.add_project(PROJECT, None).await.unwrap();
        Self {
            board,
            clock,
            facts,
        }
    }

    /// Time passes, for a machine that is awake.
    pub(crate) fn pass(&self, span: Span) {
        self.clock.pass(span);
        *self.facts.awake.lock().unwrap() += span.millis().cast_signed();
    }

    /// The machine sleeps.
    pub(crate) fn sleep(&self, span: Span) {
        self.clock.pass(span);
    }

    pub(crate) fn prove(&self, runner: RunnerId, proof: ProcessProof) {
        self.facts.proofs.lock().unwrap().insert(runner, proof);
    }

    pub(crate) async fn task(&self, title: &str) -> TaskRecord {
        self.added(TaskDraft::new(PROJECT, title)).await
    }

    /// A task that is younger than every other: of two that came at once, chance decides.
    pub(crate) async fn added(&self, task: TaskDraft) -> TaskRecord {
        self.pass(Span::from_millis(10));
        self.board.add_tasks(vec![task]).await.unwrap().remove(0)
    }

    pub(crate) async fn runner(&self) -> RunnerId {
        let id = runner_id();
        let new = RunnerEntry {
            places: 100,
            ..new_runner(id)
        };
        let place = self.board.enter_runner(&new).await.unwrap();
        assert!(matches!(place, RunnerPlace::Taken(_)), "{place:?}");
        id
    }
}

pub(crate) fn new_runner(id: RunnerId) -> RunnerEntry {
    RunnerEntry {
        id,
        pid: 42,
        pid_started: "7".to_owned(),
        boot_id: String::new(),
        host: "here".to_owned(),
        project: PROJECT.to_owned(),
        section: None,
        places: 1,
    }
}

pub(crate) fn runner_id() -> RunnerId {
    RunnerId::from_uuid(uuid::Uuid::now_v7())
}

pub(crate) const HOUR: Span = Span::from_secs(3_600);

pub(crate) async fn claim(stage: &Stage, me: RunnerId) -> ClaimOutcome {
    let query = TaskQuery {
        project: Some(PROJECT),
        ..TaskQuery::default()
    };
    stage.board.claim(&query, me, HOUR).await.unwrap()
}

pub(crate) async fn claimed(stage: &Stage, me: RunnerId) -> HeldTask {
    match claim(stage, me).await {
        ClaimOutcome::Claimed(held) => *held,
        other => panic!("not claimed: {other:?}"),
    }
}

pub(crate) fn ended(role: AttemptRole, reason: StopReason) -> AttemptEnd {
    AttemptEnd {
        role,
        reason,
        reset: None,
        verdict: None,
        message: None,
        session: None,
        is_split: false,
    }
}

pub(crate) async fn begun(stage: &Stage, held: &HeldTask) -> StartedAttempt {
    let start = AttemptStart::alone(held.role, "default");
    let begun = stage.board.begin_attempt(held, &start, |_| None).await;
    begun.unwrap().unwrap()
}

/// Work on what was claimed until it ends so.
pub(crate) async fn work(stage: &Stage, held: &HeldTask, reason: StopReason) -> TaskRecord {
    worked(stage, held, &ended(held.role, reason), 0).await
}

/// The same, for so many millionths of a dollar.
pub(crate) async fn worked(
    stage: &Stage,
    held: &HeldTask,
    end: &AttemptEnd,
    cost: i64,
) -> TaskRecord {
    let started = begun(stage, held).await;
    let paid = |attempt: &mut TaskAttemptRecord| attempt.cost_micros = cost;
    let attempted = stage.board.end_attempt(&started, end, paid).await;
    attempted.unwrap().unwrap();
    stage.board.end_round(held, end).await.unwrap().unwrap()
}
