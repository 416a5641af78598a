//! What hooks are to be told: written with every change of a task's status, whoever makes it, and
//! taken by one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lope_agents::board::{AgentBoard, HookAgain, TaskDraft, TaskToken};
use lope_agents::law::decide::Decision;
use lope_agents::law::{ProcessProof, TaskRules};
use lope_agents::records::{
    Author, BoardRecord, Budget, ReviewBy, StopReason, TaskHookRecord, TaskRecord, TaskStatus,
};
use lope_agents::settings::{HookSettings, HookTarget};
use lope_model::id::TaskId;
use lope_model::{Span, Timestamp};
use lope_store::faults::{InjectedFault, StoreCall, with_faults};
use lope_store::{MemoryStore, Store};

use crate::fixture::{Facts, PROJECT, Stage, begun, claim, claimed, runner_id, work};

fn hook(on: &[TaskStatus], program: &str) -> HookSettings {
    HookSettings {
        on: on.to_vec(),
        target: HookTarget::Command(vec![program.to_owned()]),
        timeout: Span::from_secs(5),
        retries: 2,
    }
}

/// A stage whose only hook hears of everything.
async fn stage() -> Stage {
    let mut stage = Stage::new().await;
    stage.board = stage.board.with_hooks(&[hook(TaskStatus::ALL, "all")]);
    stage
}

/// What is to be told now, which is then told.
async fn told(stage: &Stage) -> Vec<String> {
    let mut due = stage.board.hooks_to_tell(|_| false).await.unwrap().due;
    due.sort_by_key(|call| call.number);
    for call in &due {
        let taken = stage.board.take_hook(call).await.unwrap().unwrap();
        stage.board.hook_told(&taken).await.unwrap();
    }
    due.iter().map(event).collect()
}

fn event(call: &TaskHookRecord) -> String {
    let body: serde_json::Value = serde_json::from_str(&call.body).unwrap();
    assert_eq!(body["task"]["id"], call.task_id.to_string());
    body["event"].as_str().unwrap().to_owned()
}

async fn decided(stage: &Stage, task: &TaskRecord, decision: Decision) -> Vec<String> {
    let id = task.id.to_string();
    let by = Author::Person;
    stage.board.decide(&id, &decision, by).await.unwrap();
    told(stage).await
}

#[tokio::test]
async fn what_people_decide_is_told() {
    let stage = stage().await;
    let notes = None;
    let task = stage.task("a").await;
    let question = "why?".to_owned();
    assert_eq!(told(&stage).await, [""; 0], "it is only there");
    let ask = Decision::Ask { question };
    let answer = "so".to_owned();
    let rows = [
        (ask, "task.blocked"),
        (Decision::Answer { answer }, "task.pending"),
        (
            Decision::Skip {
                notes: notes.clone(),
            },
            "task.skipped",
        ),
        (Decision::Reset, "task.pending"),
        (Decision::Done { result: None }, "task.completed"),
        (
            Decision::Reject {
                notes: notes.clone(),
            },
            "task.pending",
        ),
        (
            Decision::Fail {
                reason: "no".to_owned(),
            },
            "task.failed",
        ),
        (Decision::Approve { notes }, "task.completed"),
    ];
    for (decision, event) in rows {
        let words = format!("{decision:?}");
        assert_eq!(decided(&stage, &task, decision).await, [event], "{words}");
    }
    let id = task.id.to_string();
    stage.board.note(&id, Author::Person, "hm").await.unwrap();
    assert_eq!(told(&stage).await, [""; 0], "its status is the same");
}

#[tokio::test]
async fn what_runners_agents_and_hands_do_is_told() {
    let stage = stage().await;
    let task = stage
        .added(TaskDraft {
            review: ReviewBy::Agent,
            ..TaskDraft::new(PROJECT, "a")
        })
        .await;
    let id = task.id.to_string();
    let me = stage.runner().await;
    let held = claimed(&stage, me).await;
    assert_eq!(told(&stage).await, ["task.in_progress"]);
    stage.board.give_back(&held).await.unwrap();
    assert_eq!(told(&stage).await, ["task.pending"]);
    let held = claimed(&stage, me).await;
    work(&stage, &held, StopReason::Success).await;
    assert_eq!(told(&stage).await, ["task.in_progress", "task.review"]);
    stage
        .board
        .decide(&id, &Decision::Reset, Author::Person)
        .await
        .unwrap();
    assert_eq!(told(&stage).await, ["task.pending"]);
    // Its runner dies: who comes next settles that, and takes it again.
    let held = claimed(&stage, me).await;
    begun(&stage, &held).await;
    stage.prove(me, ProcessProof::Gone);
    told(&stage).await;
    let next = stage.runner().await;
    claimed(&stage, next).await;
    assert_eq!(told(&stage).await, ["task.pending", "task.in_progress"]);
    stage.board.release_lock(&id, true).await.unwrap();
    assert_eq!(told(&stage).await, ["task.pending"]);
    // By hand.
    let held = claimed(&stage, runner_id()).await;
    let token = TaskToken::from(&held.lock);
    told(&stage).await;
    let reason = "no".to_owned();
    stage
        .board
        .declare(&token, &Decision::Fail { reason })
        .await
        .unwrap();
    assert_eq!(told(&stage).await, ["task.failed"]);
    // A budget that is used up.
    let dear = stage
        .added(TaskDraft {
            budget: Budget {
                cost: Some(0.0),
                ..Budget::default()
            },
            ..TaskDraft::new(PROJECT, "dear")
        })
        .await;
    claim(&stage, next).await;
    let seen = stage.board.task(&dear.id.to_string()).await.unwrap();
    assert_eq!(seen.status, TaskStatus::Blocked);
    assert_eq!(told(&stage).await, ["task.blocked"]);
}

#[tokio::test]
async fn each_hook_hears_what_it_wants_once_and_with_words_that_fit() {
    let mut stage = Stage::new().await;
    let hooks = [
        hook(&[TaskStatus::Skipped], "a"),
        hook(&[TaskStatus::Skipped, TaskStatus::Pending], "b"),
        // The same command hears a thing once.
        hook(&[TaskStatus::Skipped], "b"),
        hook(&[TaskStatus::Failed], "c"),
    ];
    stage.board = stage.board.with_hooks(&hooks);
    let task = stage
        .added(TaskDraft {
            description: "\u{1}".repeat(200_000),
            ..TaskDraft::new(PROJECT, "long")
        })
        .await;
    let id = task.id.to_string();
    let skip = Decision::Skip { notes: None };
    stage
        .board
        .decide(&id, &skip, Author::Person)
        .await
        .unwrap();
    let due = stage.board.hooks_to_tell(|_| false).await.unwrap().due;
    let mut heard: Vec<String> = due.iter().map(|call| call.hook.clone()).collect();
    heard.sort();
    let mut wanted = vec![hooks[0].id(), hooks[1].id()];
    wanted.sort();
    assert_eq!(heard, wanted);
    assert!(due.iter().all(|call| event(call) == "task.skipped"));
    stage.board.remove_task(&id).await.unwrap();
    assert!(
        stage
            .board
            .hooks_to_tell(|_| false)
            .await
            .unwrap()
            .due
            .is_empty()
    );
}

#[tokio::test]
async fn what_is_not_heard_is_told_again_by_whoever_looks_then() {
    let stage = stage().await;
    let task = stage.task("a").await;
    let id = task.id.to_string();
    let skip = Decision::Skip { notes: None };
    stage
        .board
        .decide(&id, &skip, Author::Person)
        .await
        .unwrap();
    let other = stage.board.clone();
    for (tries, pause) in [(1, 1), (2, 2)] {
        let found = stage.board.hooks_to_tell(|_| false).await.unwrap();
        let call = &found.due[0];
        let taken = stage.board.take_hook(call).await.unwrap().unwrap();
        assert_eq!(taken.tries, tries);
        assert_eq!(other.take_hook(call).await.unwrap(), None, "one takes it");
        let found = other.hooks_to_tell(|_| false).await.unwrap();
        assert_eq!((found.due, found.next), (vec![], Some(Span::from_secs(35))));
        let pause = Span::from_secs(pause);
        let again = stage.board.hook_unheard(&taken).await.unwrap();
        assert_eq!(again, HookAgain::After(pause));
        assert!(other.hooks_to_tell(|_| false).await.unwrap().due.is_empty());
        stage.pass(pause);
    }
    // One that dies while it tells it is followed by another.
    let found = stage.board.hooks_to_tell(|_| false).await.unwrap();
    stage.board.take_hook(&found.due[0]).await.unwrap().unwrap();
    stage.pass(Span::from_secs(35));
    let found = other.hooks_to_tell(|_| false).await.unwrap();
    let taken = other.take_hook(&found.due[0]).await.unwrap().unwrap();
    let again = other.hook_unheard(&taken).await.unwrap();
    assert_eq!(again, HookAgain::GivenUp);
    stage.pass(Span::from_secs(3_600));
    assert_eq!(told(&stage).await, [""; 0]);
}

/// What a hook is to be told of a task of this number.
fn call(hook: &HookSettings, task: u128, due_at: Timestamp) -> TaskHookRecord {
    TaskHookRecord {
        task_id: TaskId::from_uuid(uuid::Uuid::from_u128(task)),
        number: 2,
        hook: hook.id(),
        revision: 0,
        project_path: PROJECT.to_owned(),
        body: "{}".to_owned(),
        made_at: due_at,
        tries: 0,
        due_at,
    }
}

/// "Tasks do not wait for hooks, and no hook waits for another": neither what a slow hook has before it
/// nor what waits for its next try hides anything, however much that is.
#[tokio::test]
async fn a_thousand_calls_that_wait_hide_no_other() {
    let store = MemoryStore::open();
    let slow = hook(&[TaskStatus::Skipped], "slow");
    let quick = hook(&[TaskStatus::Failed], "quick");
    let board = without_hooks(store.clone()).with_hooks(&[slow.clone(), quick.clone()]);
    let now = board.now().await.unwrap();
    let written = async |calls: Vec<TaskHookRecord>| {
        let changes = calls.into_iter().map(BoardRecord::inserted).collect();
        store.board.commit(changes).await.unwrap().unwrap();
    };
    // Ids all over, as they are.
    let many = |hook: &HookSettings, due_at| {
        let id = |number: u128| number << 118 | number;
        let calls = (0..1_000).map(|number| call(hook, id(number), due_at));
        calls.collect::<Vec<_>>()
    };
    written(many(&slow, now)).await;
    written(vec![call(&quick, u128::MAX, now)]).await;
    let found = board.hooks_to_tell(|_| false).await.unwrap();
    let is_of = |hook: &HookSettings| found.due.iter().filter(|it| it.hook == hook.id()).count();
    assert_eq!((is_of(&slow), is_of(&quick)), (1_000, 1));
    // What somebody passes over hides nothing.
    let last = call(&slow, u128::MAX, now);
    written(vec![last.clone()]).await;
    let is_one_of_many = |call: &TaskHookRecord| call.task_id != last.task_id;
    let found = board.hooks_to_tell(is_one_of_many).await.unwrap();
    let due: Vec<_> = found.due.iter().filter(|it| it.hook == slow.id()).collect();
    assert_eq!(
        (due.len(), due[0].task_id, found.next),
        (1, last.task_id, None)
    );
    // Nor does what waits for its next try.
    let later = now.plus(Span::from_secs(600));
    written(many(&quick, later)).await;
    let found = board.hooks_to_tell(|call| call.hook == slow.id()).await;
    let found = found.unwrap();
    assert_eq!(found.due.len(), 1);
    assert_eq!(found.due[0].task_id, last.task_id);
    assert!(found.next.is_some_and(|next| next > Span::from_secs(60)));
}

#[tokio::test]
async fn a_clock_that_is_set_back_keeps_no_hook_from_being_told() {
    let stage = stage().await;
    let task = stage.task("a").await;
    decided(&stage, &task, Decision::Skip { notes: None }).await;
    stage
        .board
        .decide(&task.id.to_string(), &Decision::Reset, Author::Person)
        .await
        .unwrap();
    let now = stage.board.now().await.unwrap();
    stage.clock.set_wall(now.minus(Span::from_secs(3_600)));
    assert_eq!(told(&stage).await, ["task.pending"]);
}

fn board_on(store: Store) -> AgentBoard {
    without_hooks(store).with_hooks(&[hook(TaskStatus::ALL, "all")])
}

/// For whoever has none in his configuration.
fn without_hooks(store: Store) -> AgentBoard {
    AgentBoard::new(store.board, Arc::<Facts>::default(), TaskRules::default())
}

/// Have one hook told for each of so many tasks that are decided about.
async fn decide_all(board: &AgentBoard, tasks: &[TaskRecord], decision: &Decision) {
    for task in tasks {
        let id = task.id.to_string();
        board.decide(&id, decision, Author::Person).await.unwrap();
    }
}

#[tokio::test]
async fn what_nobody_tells_is_forgotten_many_at_a_time() {
    let store = MemoryStore::open();
    let board = board_on(store.clone());
    board.add_project(PROJECT, None).await.unwrap();
    let tasks = vec![TaskDraft::new(PROJECT, "a task"); 30];
    let tasks = board.add_tasks(tasks).await.unwrap();
    let commits = Arc::new(AtomicUsize::new(0));
    let meanwhile: Arc<Mutex<Option<TaskHookRecord>>> = Arc::default();
    let (counted, told, other) = (commits.clone(), meanwhile.clone(), board.clone());
    let forgetful = without_hooks(with_faults(
        store,
        Arc::new(move |call: StoreCall| {
            if call.verb == "commit" {
                counted.fetch_add(1, Ordering::SeqCst);
                if let Some(call) = told.lock().unwrap().take() {
                    tell(other.clone(), call);
                }
            }
            InjectedFault::None
        }),
    ));
    let later = board.now().await.unwrap().plus(Span::from_secs(60));
    decide_all(&board, &tasks, &Decision::Skip { notes: None }).await;
    board.forget_hooks(later).await.unwrap();
    let due = board.hooks_to_tell(|_| false).await.unwrap().due;
    assert_eq!(due.len(), 30, "they are told by whoever has the hook");
    forgetful.forget_hooks(later).await.unwrap();
    assert_eq!(commits.swap(0, Ordering::SeqCst), 1);
    assert!(board.hooks_to_tell(|_| false).await.unwrap().due.is_empty());
    // What somebody tells between the look and the commit hinders nothing.
    decide_all(&board, &tasks, &Decision::Reset).await;
    let due = board.hooks_to_tell(|_| false).await.unwrap().due;
    assert_eq!(due.len(), 30);
    *meanwhile.lock().unwrap() = Some(due[7].clone());
    forgetful.forget_hooks(later).await.unwrap();
    assert_eq!(commits.load(Ordering::SeqCst), 2);
    assert!(board.hooks_to_tell(|_| false).await.unwrap().due.is_empty());
}

/// Tell a hook beside the call that is about to be made.
fn tell(board: AgentBoard, call: TaskHookRecord) {
    let told = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(board.hook_told(&call)).unwrap();
    });
    told.join().unwrap();
}
