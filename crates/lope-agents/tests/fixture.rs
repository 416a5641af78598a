//! What the tests begin with: a board in memory on a clock moved by hand, and processes that are as
//! the test says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lope_agents::board::{AgentBoard, ProcessFacts, RunnerEntry, RunnerPlace, TaskDraft};
use lope_agents::law::{ProcessProof, TaskRules};
use lope_agents::records::{AgentRunnerRecord, TaskRecord};
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
