//! What bounds the board: days and their budgets, splits, parts that are open, tokens that are stale.

use lope_agents::board::{BoardError, ClaimOutcome, TaskDraft, TaskFilter, TaskToken};
use lope_agents::law::TaskRules;
use lope_agents::law::decide::Decision;
use lope_agents::law::select::{NotEligible, objection};
use lope_agents::law::settle::AttemptEnd;
use lope_agents::records::{
    AttemptRole, Author, Budget, StopReason, TaskEventKind, TaskRecord, TaskStatus,
};
use lope_model::id::TaskId;
use lope_model::{Span, limit};

use crate::fixture::{self, PROJECT, Stage, ended, runner_id};

async fn claim(stage: &Stage) -> ClaimOutcome {
    fixture::claim(stage, runner_id()).await
}

/// Work on the next task until it ends so, for a dollar.
async fn work(stage: &Stage, end: &AttemptEnd) -> TaskRecord {
    let held = fixture::claimed(stage, runner_id()).await;
    fixture::worked(stage, &held, end, 1_000_000).await
}

fn a_dollar_a_day() -> TaskRules {
    TaskRules {
        day_budget: Budget {
            cost: Some(1.0),
            ..Budget::default()
        },
        ..TaskRules::default()
    }
}

/// "Eligible = pending with dependencies completed": also those of another project, for whoever looks
/// at one project and for whoever looks at all.
#[tokio::test]
async fn a_task_waits_for_one_of_another_project() {
    let stage = Stage::new().await;
    let other = "/projects/library";
    stage.board.add_project(other, None).await.unwrap();
    let first = stage.added(TaskDraft::new(other, "first")).await;
    let waiting = TaskDraft {
        dependencies: vec![first.id],
        ..TaskDraft::new(PROJECT, "waiting")
    };
    let waiting = stage.added(waiting).await;
    for project in [Some(PROJECT), None] {
        let view = stage.board.view(project).await.unwrap();
        let why = objection(&view, &waiting, None, &stage.board.rules);
        assert_eq!(why, Some(NotEligible::Waits(vec![first.id])), "{project:?}");
    }
    assert!(matches!(claim(&stage).await, ClaimOutcome::Nothing));
    let approved = Decision::Done { result: None };
    let id = first.id.to_string();
    let done = stage.board.decide(&id, &approved, Author::Person).await;
    assert_eq!(done.unwrap().status, TaskStatus::Completed);
    let ClaimOutcome::Claimed(held) = claim(&stage).await else {
        panic!("what it waited for is completed");
    };
    assert_eq!(held.task.id, waiting.id);
}

/// A list is added whole or not at all, also one that is too long for one commit; whoever is waited for
/// comes first.
#[tokio::test]
async fn a_long_list_is_added_whole_or_not_at_all() {
    let stage = Stage::new().await;
    let most = limit::BOARD_CHANGES_MAX;
    let draft = |place: usize| TaskDraft {
        id: Some(TaskId::from_uuid(uuid::Uuid::from_u128(place as u128 + 1))),
        ..TaskDraft::new(PROJECT, format!("task {place}"))
    };
    let mut drafts: Vec<TaskDraft> = (0..most + 100).map(draft).collect();
    let last = drafts.last().and_then(|task| task.id).unwrap();
    drafts[0].dependencies = vec![last];
    let count = async || {
        stage
            .board
            .tasks(&TaskFilter::default())
            .await
            .unwrap()
            .len()
    };
    let wrong: [fn(&mut TaskDraft); 4] = [
        |task| task.title = "x".repeat(1_001),
        |task| task.id = Some(TaskId::from_uuid(uuid::Uuid::from_u128(7))),
        |task| task.dependencies = vec![TaskId::from_uuid(uuid::Uuid::from_u128(99_999))],
        |task| task.dependencies = vec![TaskId::from_uuid(uuid::Uuid::from_u128(1))],
    ];
    for (place, spoil) in wrong.iter().enumerate() {
        let mut bad = drafts.clone();
        spoil(bad.last_mut().unwrap());
        stage.board.add_list(&bad).await.unwrap_err();
        assert_eq!(count().await, 0, "{place}");
    }
    let added = stage.board.add_list(&drafts).await.unwrap();
    assert_eq!((added.len(), count().await), (most + 100, most + 100));
    let listed = stage.board.tasks(&TaskFilter::default()).await.unwrap();
    assert_eq!(listed, added, "in their order");
    let again = stage.board.add_list(&drafts).await.unwrap_err();
    assert!(matches!(again, BoardError::Refused(_)), "{again}");
}

/// What is forgotten may have a long history.
#[tokio::test]
async fn a_task_of_which_much_was_said_is_removed() {
    let stage = Stage::new().await;
    let task = stage.task("a").await;
    let waiting = TaskDraft {
        dependencies: vec![task.id],
        ..TaskDraft::new(PROJECT, "b")
    };
    let waiting = stage.added(waiting).await;
    let id = task.id.to_string();
    for number in 0..=limit::BOARD_CHANGES_MAX {
        let words = format!("note {number}");
        let noted = stage.board.note(&id, Author::Agent, &words).await;
        noted.unwrap();
    }
    stage.board.remove_task(&id).await.unwrap();
    let missing = stage.board.task(&id).await.unwrap_err();
    assert!(matches!(missing, BoardError::Missing { .. }), "{missing}");
    assert_eq!(
        fixture::claimed(&stage, runner_id()).await.task.id,
        waiting.id
    );
}

/// A day's budget blocks nothing: tasks wait for the next day, or for a budget that is raised.
#[tokio::test]
async fn tasks_wait_for_the_day_after_one_that_is_used_up() {
    let success = ended(AttemptRole::Work, StopReason::Success);
    let mut stage = Stage::with(a_dollar_a_day()).await;
    stage.task("a").await;
    let waiting = stage.task("b").await;
    work(&stage, &success).await;
    let now = stage.board.now().await.unwrap();
    let midnight = (now.millis() / 86_400_000 + 1) * 86_400_000;
    let ClaimOutcome::NextDay(day) = claim(&stage).await else {
        panic!("the day is used up");
    };
    assert_eq!(day.millis(), midnight);
    let id = waiting.id.to_string();
    let seen = stage.board.task(&id).await.unwrap();
    assert_eq!((seen.status, &seen.reason), (TaskStatus::Pending, &None));
    let rules = std::mem::take(&mut stage.board.rules);
    assert!(
        matches!(claim(&stage).await, ClaimOutcome::Claimed(_)),
        "it was raised"
    );
    stage.board.rules = rules;
    stage.board.release_lock(&id, true).await.unwrap();
    assert!(matches!(claim(&stage).await, ClaimOutcome::NextDay(_)));
    stage.pass(day.since(now));
    assert_eq!(work(&stage, &success).await.status, TaskStatus::Completed);
}

/// One that its day's budget stopped goes on when there is more.
#[tokio::test]
async fn an_agent_that_used_up_its_day_goes_on_the_next() {
    let stage = Stage::with(a_dollar_a_day()).await;
    stage.task("a").await;
    let now = stage.board.now().await.unwrap();
    let stopped = AttemptEnd {
        reset: Some(now.plus(Span::from_secs(60))),
        ..ended(AttemptRole::Work, StopReason::Budget)
    };
    let task = work(&stage, &stopped).await;
    assert_eq!((task.status, task.attempts), (TaskStatus::Pending, 0));
    assert!(matches!(claim(&stage).await, ClaimOutcome::NextDay(_)));
    stage.pass(Span::from_secs(86_400));
    let success = ended(AttemptRole::Work, StopReason::Success);
    assert_eq!(work(&stage, &success).await.status, TaskStatus::Completed);
}

/// "A task that hangs, or whose runner dies, `maxAttempts` times is `failed`": what went well before
/// and what was before a reset are no such times.
#[tokio::test]
async fn what_went_well_spends_no_attempt() {
    let stage = Stage::new().await;
    let id = stage.task("a").await.id.to_string();
    let success = ended(AttemptRole::Work, StopReason::Success);
    let hang = ended(AttemptRole::Work, StopReason::Hang);
    let late = Span::from_secs(3_600);
    for _ in 0..2 {
        work(&stage, &success).await;
        let reject = Decision::Reject { notes: None };
        stage
            .board
            .decide(&id, &reject, Author::Person)
            .await
            .unwrap();
    }
    for _ in 0..2 {
        assert_eq!(work(&stage, &hang).await.status, TaskStatus::Pending);
        stage.pass(late);
    }
    let task = work(&stage, &hang).await;
    assert_eq!(task.status, TaskStatus::Failed, "{:?}", task.reason);
    stage.pass(late);
    stage
        .board
        .decide(&id, &Decision::Reset, Author::Person)
        .await
        .unwrap();
    assert_eq!(work(&stage, &hang).await.status, TaskStatus::Pending);
}

/// "it waits for them": what was split is not done before its parts are.
#[tokio::test]
async fn a_task_is_not_done_while_its_parts_are_open() {
    let stage = Stage::new().await;
    let whole = stage.task("whole").await.id.to_string();
    let titles = ["one".to_owned(), "two".to_owned()];
    let parts = stage
        .board
        .split(&whole, &titles, Author::Agent)
        .await
        .unwrap();
    let done = Decision::Done { result: None };
    for part in &parts {
        let early = stage.board.decide(&whole, &done, Author::Agent).await;
        let BoardError::Refused(why) = early.unwrap_err() else {
            panic!("it was not refused");
        };
        assert!(
            why.contains("waits for its parts") && why.contains(&part.id.to_string()),
            "{why}"
        );
        let part = part.id.to_string();
        stage
            .board
            .decide(&part, &done, Author::Agent)
            .await
            .unwrap();
    }
    let task = stage
        .board
        .decide(&whole, &done, Author::Agent)
        .await
        .unwrap();
    assert_eq!(task.status, TaskStatus::Completed);
}

/// Agents that split at every start come to an end: so often, and so deep.
#[tokio::test]
async fn splits_are_bounded() {
    let stage = Stage::new().await;
    let title = ["part".to_owned()];
    let whole = stage.task("whole").await.id.to_string();
    for _ in 0..stage.board.rules.attempts_max {
        stage
            .board
            .split(&whole, &title, Author::Agent)
            .await
            .unwrap();
    }
    let again = stage.board.split(&whole, &title, Author::Agent).await;
    assert!(matches!(again, Err(BoardError::Refused(_))), "{again:?}");
    stage
        .board
        .split(&whole, &title, Author::Person)
        .await
        .unwrap();
    let mut deepest = stage.task("deep").await.id.to_string();
    for _ in 0..3 {
        let parts = stage
            .board
            .split(&deepest, &title, Author::Agent)
            .await
            .unwrap();
        deepest = parts[0].id.to_string();
    }
    let deeper = stage.board.split(&deepest, &title, Author::Agent).await;
    assert!(matches!(deeper, Err(BoardError::Refused(_))), "{deeper:?}");
}

/// "a stale holder's write is refused and kept as evidence"
#[tokio::test]
async fn the_word_of_a_stale_token_is_kept_as_evidence() {
    let stage = Stage::new().await;
    let id = stage.task("a").await.id.to_string();
    let ClaimOutcome::Claimed(held) = claim(&stage).await else {
        panic!("nothing can be claimed");
    };
    let token = TaskToken::from(&held.lock);
    stage.board.release_lock(&id, true).await.unwrap();
    let done = Decision::Done {
        result: Some("too late".to_owned()),
    };
    let refused = stage.board.declare(&token, &done).await;
    assert!(
        matches!(refused, Err(BoardError::Refused(_))),
        "{refused:?}"
    );
    let detail = stage.board.task_detail(&id).await.unwrap();
    let last = detail.events.last().unwrap();
    assert_eq!(
        (last.kind, last.author),
        (TaskEventKind::Refused, Author::Agent)
    );
    assert!(last.message.contains("done too late"), "{}", last.message);
    assert_eq!(detail.task.status, TaskStatus::Pending);
}

/// What an agent said is written whatever bytes it is made of.
#[tokio::test]
async fn zero_bytes_do_not_keep_an_end_from_being_written() {
    let stage = Stage::new().await;
    stage.task("a").await;
    let end = AttemptEnd {
        message: Some("a\0b".to_owned()),
        session: Some("s\0".to_owned()),
        ..ended(AttemptRole::Work, StopReason::Success)
    };
    let task = work(&stage, &end).await;
    assert_eq!(task.result.as_deref(), Some("a\u{fffd}b"));
    assert_eq!(task.session.as_deref(), Some("s\u{fffd}"));
}
