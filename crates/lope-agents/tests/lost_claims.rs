//! A claim that is lost between its look and its commit: what somebody else did meanwhile decides what
//! comes of it.

use std::sync::{Arc, Mutex};

use lope_agents::board::{AgentBoard, ClaimOutcome, TaskDraft};
use lope_agents::law::TaskRules;
use lope_agents::law::decide::Decision;
use lope_agents::law::select::{NotEligible, TaskQuery};
use lope_agents::records::{Author, TaskRecord, TaskStatus};
use lope_model::{RunnerId, Span};
use lope_store::faults::{InjectedFault, StoreCall, with_faults};
use lope_store::{MemoryStore, Store};

use crate::fixture::{Facts, PROJECT, runner_id};

type Deed = Box<dyn FnOnce(AgentBoard) + Send>;

struct Race {
    board: AgentBoard,
    /// The same board, before whose next commit the deed is done.
    slow: AgentBoard,
    meanwhile: Arc<Mutex<Option<Deed>>>,
}

fn board_on(store: Store) -> AgentBoard {
    AgentBoard::new(store.board, Arc::<Facts>::default(), TaskRules::default())
}

impl Race {
    async fn new() -> Self {
        let store = MemoryStore::open();
        let board = board_on(store.clone());
        board.add_project(PROJECT, None).await.unwrap();
        let meanwhile: Arc<Mutex<Option<Deed>>> = Arc::default();
        let (deed, other) = (Arc::clone(&meanwhile), board.clone());
        let hook = move |call: StoreCall| {
            let deed = (call.verb == "commit").then(|| deed.lock().unwrap().take());
            if let Some(deed) = deed.flatten() {
                let other = other.clone();
                std::thread::spawn(move || deed(other)).join().unwrap();
            }
            InjectedFault::None
        };
        Self {
            slow: board_on(with_faults(store, Arc::new(hook))),
            board,
            meanwhile,
        }
    }

    async fn add(&self, draft: TaskDraft) -> TaskRecord {
        self.board.add_tasks(vec![draft]).await.unwrap().remove(0)
    }

    /// A claim, and what somebody else does between its look and its commit.
    async fn claim(&self, query: &TaskQuery<'_>, deed: Deed) -> ClaimOutcome {
        *self.meanwhile.lock().unwrap() = Some(deed);
        claim(&self.slow, query, runner_id()).await
    }
}

async fn claim(board: &AgentBoard, query: &TaskQuery<'_>, me: RunnerId) -> ClaimOutcome {
    let claimed = board.claim(query, me, Span::from_secs(60));
    claimed.await.unwrap()
}

fn here() -> TaskQuery<'static> {
    TaskQuery {
        project: Some(PROJECT),
        ..TaskQuery::default()
    }
}

fn block_on<T>(done: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.unwrap().block_on(done)
}

/// Somebody takes the first task, under this id.
fn taken_by(other: RunnerId) -> Deed {
    Box::new(move |board| {
        let outcome = block_on(claim(&board, &here(), other));
        assert!(matches!(outcome, ClaimOutcome::Claimed(_)));
    })
}

fn decided(id: String, decision: Decision) -> Deed {
    Box::new(move |board| {
        block_on(board.decide(&id, &decision, Author::Person)).unwrap();
    })
}

#[track_caller]
fn is_of(outcome: &ClaimOutcome, task: &TaskRecord) {
    match outcome {
        ClaimOutcome::Claimed(held) => assert_eq!(held.task.id, task.id),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn whoever_comes_second_gets_the_next_task_or_none() {
    let race = Race::new().await;
    let first = race.add(TaskDraft::new(PROJECT, "first")).await;
    let other = runner_id();
    let outcome = race.claim(&here(), taken_by(other)).await;
    assert_eq!(outcome, ClaimOutcome::Nothing);
    let named = TaskQuery {
        task: Some(first.id),
        ..here()
    };
    race.board
        .release_lock(&first.id.to_string(), true)
        .await
        .unwrap();
    let outcome = race.claim(&named, taken_by(other)).await;
    let locked = ClaimOutcome::NotNow(NotEligible::Locked(other));
    assert_eq!(outcome, locked);
    race.board
        .release_lock(&first.id.to_string(), true)
        .await
        .unwrap();
    let second = race.add(TaskDraft::new(PROJECT, "second")).await;
    let outcome = race.claim(&here(), taken_by(other)).await;
    is_of(&outcome, &second);
}

#[tokio::test]
async fn a_section_that_somebody_works_in_meanwhile_is_passed_over() {
    let race = Race::new().await;
    let draft = |title: &str, section: Option<&str>, priority| TaskDraft {
        section: section.map(str::to_owned),
        priority,
        ..TaskDraft::new(PROJECT, title)
    };
    let first = race.add(draft("first", Some("front"), 9)).await;
    let beside = race.add(draft("beside", Some("front"), 8)).await;
    let outside = race.add(draft("outside", None, 1)).await;
    let take_beside: Deed = Box::new(move |board| {
        let query = TaskQuery {
            task: Some(beside.id),
            ..here()
        };
        is_of(&block_on(claim(&board, &query, runner_id())), &beside);
    });
    let outcome = race.claim(&here(), take_beside).await;
    is_of(&outcome, &outside);
    let first = race.board.task(&first.id.to_string()).await.unwrap();
    assert_eq!((first.status, first.epoch), (TaskStatus::Pending, 0));
}

#[tokio::test]
async fn what_a_person_decides_meanwhile_is_seen() {
    // Skipped: another one is taken, or none.
    let race = Race::new().await;
    let first = race.add(TaskDraft::new(PROJECT, "first")).await;
    let skip = decided(first.id.to_string(), Decision::Skip { notes: None });
    assert_eq!(race.claim(&here(), skip).await, ClaimOutcome::Nothing);
    // Done: what waited for it is taken.
    let whole = race.add(TaskDraft::new(PROJECT, "first")).await;
    let next = TaskDraft {
        dependencies: vec![whole.id],
        ..TaskDraft::new(PROJECT, "second")
    };
    let next = race.add(next).await;
    let done = decided(whole.id.to_string(), Decision::Done { result: None });
    is_of(&race.claim(&here(), done).await, &next);
    // Only touched: it is taken all the same, as it is now.
    let race = Race::new().await;
    let task = race.add(TaskDraft::new(PROJECT, "first")).await;
    let reset = decided(task.id.to_string(), Decision::Reset);
    is_of(&race.claim(&here(), reset).await, &task);
}
