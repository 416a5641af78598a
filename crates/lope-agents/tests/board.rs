//! The board as runners use it: claims, renewals, results that come too late, places, wake-ups.

use lope_agents::board::{
    AttemptStart, BoardError, ClaimOutcome, NotBegun, RunnerPlace, TaskDraft, TaskFilter, TaskToken,
};
use lope_agents::describe;
use lope_agents::law::decide::Decision;
use lope_agents::law::lock::LockStanding;
use lope_agents::law::select::{NotEligible, TaskQuery};
use lope_agents::law::wakeup::{StaleRunner, WakeAction, wakeup};
use lope_agents::law::{ProcessProof, TaskRules};
use lope_agents::records::{
    AttemptRole, Author, Budget, ReviewBy, RunnerStatus, StopLevel, StopReason, TaskEventKind,
    TaskStatus,
};
use lope_model::{RunnerId, Span};

use crate::fixture::{
    HOUR, PROJECT, Stage, begun, claim, claimed, ended, new_runner, runner_id, work,
};

#[tokio::test]
async fn a_task_is_claimed_worked_on_and_completed() {
    let stage = Stage::new().await;
    let task = stage.task("a").await;
    let me = stage.runner().await;
    let held = claimed(&stage, me).await;
    assert_eq!((held.task.id, held.lock.epoch), (task.id, 1));
    let shown = stage.board.task_detail(&task.id.to_string()).await.unwrap();
    assert_eq!(shown.task.status, TaskStatus::InProgress);
    assert_eq!(shown.lock.unwrap().1, LockStanding::Held);
    assert_eq!(
        claim(&stage, stage.runner().await).await,
        ClaimOutcome::Nothing
    );
    let done = work(&stage, &held, StopReason::Success).await;
    assert_eq!((done.status, done.attempts), (TaskStatus::Completed, 1));
    assert!(stage.board.locks().await.unwrap().is_empty());
    assert_eq!(claim(&stage, me).await, ClaimOutcome::Nothing);
}

/// "order: review first, then interrupted, then pending by priority and age"
#[tokio::test]
async fn tasks_come_in_one_order() {
    let stage = Stage::new().await;
    let plain = stage.task("old").await;
    let urgent = stage
        .added(TaskDraft {
            priority: 9,
            ..TaskDraft::new(PROJECT, "urgent")
        })
        .await;
    let review = stage
        .added(TaskDraft {
            status: TaskStatus::Review,
            review: ReviewBy::Agent,
            priority: 0,
            ..TaskDraft::new(PROJECT, "review")
        })
        .await;
    stage
        .added(TaskDraft {
            status: TaskStatus::Review,
            review: ReviewBy::Person,
            ..TaskDraft::new(PROJECT, "for a person")
        })
        .await;
    let me = stage.runner().await;
    let first = claimed(&stage, me).await;
    assert_eq!(
        (first.task.id, first.role),
        (review.id, AttemptRole::Review)
    );
    work(&stage, &first, StopReason::Drain).await;
    let again = claimed(&stage, me).await;
    assert_eq!(again.task.id, review.id, "a drained review is first again");
    work(&stage, &again, StopReason::Exit).await;
    work(&stage, &claimed(&stage, me).await, StopReason::Exit).await;
    work(&stage, &claimed(&stage, me).await, StopReason::Exit).await;
    let detail = stage.board.task(&review.id.to_string()).await.unwrap();
    assert_eq!(
        detail.status,
        TaskStatus::Blocked,
        "a review that comes to no end"
    );
    let next = claimed(&stage, me).await;
    assert_eq!(next.task.id, urgent.id, "by priority");
    work(&stage, &next, StopReason::Success).await;
    let next = claimed(&stage, me).await;
    work(&stage, &next, StopReason::Cancel).await;
    stage
        .added(TaskDraft {
            priority: 9,
            ..TaskDraft::new(PROJECT, "more urgent")
        })
        .await;
    assert_eq!(
        claimed(&stage, me).await.task.id,
        plain.id,
        "what was interrupted"
    );
}

/// "Eligible = pending with dependencies completed and section not skipped"
#[tokio::test]
async fn what_is_not_eligible_says_why() {
    let stage = Stage::new().await;
    let first = stage.task("first").await;
    let second = stage
        .added(TaskDraft {
            dependencies: vec![first.id],
            section: Some("later".to_owned()),
            ..TaskDraft::new(PROJECT, "second")
        })
        .await;
    let me = stage.runner().await;
    let asked = async |task| {
        let query = TaskQuery {
            project: Some(PROJECT),
            task: Some(task),
            ..TaskQuery::default()
        };
        stage.board.claim(&query, me, HOUR).await.unwrap()
    };
    let waits = ClaimOutcome::NotNow(NotEligible::Waits(vec![first.id]));
    assert_eq!(asked(second.id).await, waits);
    let held = claimed(&stage, me).await;
    work(&stage, &held, StopReason::Success).await;
    stage
        .board
        .skip_section(PROJECT, "later", true)
        .await
        .unwrap();
    assert_eq!(
        asked(second.id).await,
        ClaimOutcome::NotNow(NotEligible::SectionSkipped)
    );
    stage
        .board
        .skip_section(PROJECT, "later", false)
        .await
        .unwrap();
    stage.board.enable_project(PROJECT, false).await.unwrap();
    assert_eq!(
        asked(second.id).await,
        ClaimOutcome::NotNow(NotEligible::ProjectDisabled)
    );
    stage.board.enable_project(PROJECT, true).await.unwrap();
    let other = stage.runner().await;
    claimed(&stage, other).await;
    assert_eq!(
        asked(second.id).await,
        ClaimOutcome::NotNow(NotEligible::Locked(other))
    );
    let done = ClaimOutcome::NotNow(NotEligible::Status(TaskStatus::Completed));
    assert_eq!(asked(first.id).await, done);
}

/// "expired: take over atomically; held by a process proven dead: freed at once." and "every later
/// write to the task carries the epoch; a stale holder's write is refused and kept as evidence."
#[tokio::test]
async fn a_late_result_is_refused_and_kept_as_evidence() {
    let stage = Stage::new().await;
    let task = stage.task("a").await;
    let (slow, quick) = (stage.runner().await, stage.runner().await);
    let held = claimed(&stage, slow).await;
    let started = begun(&stage, &held).await;
    assert_eq!(claim(&stage, quick).await, ClaimOutcome::Nothing);
    stage.pass(HOUR);
    let taken = claimed(&stage, quick).await;
    assert_eq!((taken.task.id, taken.lock.epoch), (task.id, 2));
    assert_eq!(taken.task.attempts, 1, "what the first began counts");
    let mut stale = held.clone();
    assert!(stage.board.renew(&mut stale, HOUR).await.unwrap().is_err());
    let success = ended(AttemptRole::Work, StopReason::Success);
    assert!(
        stage
            .board
            .end_attempt(&started, &success, |_| ())
            .await
            .unwrap()
            .is_err()
    );
    let ended_late = stage.board.end_round(&held, &success).await.unwrap();
    assert!(ended_late.is_err());
    let start = AttemptStart::alone(held.role, "default");
    let begun_late = stage.board.begin_attempt(&held, &start, |_| None).await;
    assert_eq!(begun_late.unwrap(), Err(NotBegun::LockLost));
    let shown = stage.board.task_detail(&task.id.to_string()).await.unwrap();
    assert_eq!(shown.task.status, TaskStatus::InProgress);
    assert_eq!(shown.attempts[0].stop_reason, Some(StopReason::RunnerDeath));
    let evidence: Vec<_> = shown.events.iter().map(|event| event.kind).collect();
    assert_eq!(evidence, [TaskEventKind::Refused]);
    let done = work(&stage, &taken, StopReason::Success).await;
    assert_eq!((done.status, done.attempts), (TaskStatus::Completed, 2));
}

#[tokio::test]
async fn the_lock_of_a_process_that_is_gone_is_free_at_once() {
    let stage = Stage::new().await;
    let task = stage.task("a").await;
    let (dead, next) = (stage.runner().await, stage.runner().await);
    claimed(&stage, dead).await;
    stage.prove(dead, ProcessProof::Gone);
    assert_eq!(claimed(&stage, next).await.task.id, task.id);
}

/// "a laptop that slept for an hour kills no healthy runner."
#[tokio::test]
async fn a_machine_that_slept_has_lost_no_lock_and_no_runner() {
    let stage = Stage::new().await;
    stage.task("a").await;
    let (me, other) = (stage.runner().await, stage.runner().await);
    let mut held = claimed(&stage, me).await;
    stage.sleep(HOUR.times(3));
    assert_eq!(claim(&stage, other).await, ClaimOutcome::Nothing);
    let view = stage.board.view(None).await.unwrap();
    let steps = wakeup(&view, &TaskRules::default());
    assert!(
        matches!(steps[0].action, WakeAction::Healthy { .. }),
        "{steps:?}"
    );
    assert_eq!(stage.board.renew(&mut held, HOUR).await.unwrap(), Ok(()));
}

/// "Clock ±1 h: no lock stolen."
#[tokio::test]
async fn a_wall_clock_that_is_set_steals_no_lock() {
    let stage = Stage::new().await;
    stage.task("a").await;
    let (me, other) = (stage.runner().await, stage.runner().await);
    claimed(&stage, me).await;
    let now = stage.board.now().await.unwrap();
    for wall in [now.plus(HOUR.times(2)), now.minus(HOUR.times(2))] {
        stage.clock.set_wall(wall);
        assert_eq!(claim(&stage, other).await, ClaimOutcome::Nothing);
    }
}

/// "Two runners never work in the same section of a project at the same time."
#[tokio::test]
async fn a_section_is_worked_in_by_one() {
    let stage = Stage::new().await;
    let section = |title: &str| TaskDraft {
        section: Some("s".to_owned()),
        ..TaskDraft::new(PROJECT, title)
    };
    stage
        .board
        .add_tasks(vec![section("a"), section("b")])
        .await
        .unwrap();
    let free = stage.task("elsewhere").await;
    let (one, other) = (stage.runner().await, stage.runner().await);
    let held = claimed(&stage, one).await;
    assert_eq!(claimed(&stage, other).await.task.id, free.id);
    assert_eq!(
        claim(&stage, stage.runner().await).await,
        ClaimOutcome::Nothing
    );
    work(&stage, &held, StopReason::Success).await;
    assert_eq!(claimed(&stage, one).await.task.title, "b");
}

/// A runner that was killed is not told of as running until somebody comes and ends it.
#[tokio::test]
async fn a_runner_whose_process_is_gone_is_told_of_as_dead() {
    let stage = Stage::new().await;
    let task = stage.task("a").await;
    let (killed, alive) = (stage.runner().await, stage.runner().await);
    let status = RunnerStatus::Running;
    let beat = stage.board.beat(killed, status, Some(task.id)).await;
    assert!(beat.unwrap().is_some());
    let shown = async |id: RunnerId| {
        let seen = stage.board.seen_runner(&id.to_string()).await.unwrap();
        let all = stage.board.runners().await.unwrap();
        assert!(all.contains(&seen), "the list says the same: {all:?}");
        let view = stage.board.view(Some(PROJECT)).await.unwrap();
        let own = view.seen_runners().find(|it| it.runner.id == id);
        assert!(own.is_none_or(|own| own == seen), "and the view");
        describe::runner(&seen)
    };
    assert_eq!(shown(killed).await["status"], "running");
    stage.prove(killed, ProcessProof::Gone);
    let dead = shown(killed).await;
    assert_eq!(dead["status"], "dead", "{dead}");
    assert_eq!(dead["currentTask"], task.id.to_string(), "{dead}");
    let why = "its process is gone; the next runner takes its task back";
    assert_eq!(dead["error"], why, "{dead}");
    let beside = shown(alive).await;
    assert_eq!(beside["status"], "running", "{beside}");
    assert_eq!(beside.get("error"), None, "{beside}");
    let failed = RunnerStatus::Failed;
    let ended = stage.board.end_runner(killed, failed, Some("it is over"));
    assert!(ended.await.unwrap().is_some());
    let ended = shown(killed).await;
    assert_eq!(ended["status"], "failed", "it was ended: {ended}");
    assert_eq!(ended["error"], "it is over", "{ended}");
}

/// "One active runner per project is a constraint in the store"
#[tokio::test]
async fn a_project_has_as_many_runners_as_it_may() {
    let stage = Stage::new().await;
    let (first, second) = (runner_id(), runner_id());
    let enter = async |new| stage.board.enter_runner(&new).await.unwrap();
    assert!(matches!(
        enter(new_runner(first)).await,
        RunnerPlace::Taken(_)
    ));
    let full = RunnerPlace::Full(vec![first]);
    assert_eq!(enter(new_runner(second)).await, full);
    stage.prove(first, ProcessProof::Gone);
    assert!(matches!(
        enter(new_runner(second)).await,
        RunnerPlace::Taken(_)
    ));
    let shown = stage.board.runner(&first.to_string()).await.unwrap();
    assert_eq!(shown.status, RunnerStatus::Failed);
    let asked = stage
        .board
        .ask_to_stop(second, StopLevel::Cancel)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(asked.stop, Some(StopLevel::Cancel));
    let asked = stage
        .board
        .ask_to_stop(second, StopLevel::Drain)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        asked.stop,
        Some(StopLevel::Cancel),
        "the more urgent wish stays"
    );
    stage
        .board
        .end_runner(second, RunnerStatus::Completed, None)
        .await
        .unwrap()
        .unwrap();
    let beat = stage
        .board
        .beat(second, RunnerStatus::Running, None)
        .await
        .unwrap();
    assert_eq!(beat, None, "a runner that was ended learns of it");
}

#[tokio::test]
async fn wakeup_follows_the_tree() {
    let stage = Stage::new().await;
    let rules = TaskRules::default();
    let step = async || {
        let view = stage.board.view(None).await.unwrap();
        wakeup(&view, &rules).remove(0).action
    };
    assert_eq!(step().await, WakeAction::NothingToDo);
    stage.task("a").await;
    assert_eq!(step().await, WakeAction::Start);
    let runner = stage.runner().await;
    assert_eq!(step().await, WakeAction::Healthy { runner });
    claimed(&stage, runner).await;
    stage.pass(Span::from_secs(299));
    assert_eq!(step().await, WakeAction::Healthy { runner });
    stage.pass(Span::from_secs(2));
    let stale = |is_there| WakeAction::Replace {
        ended: vec![StaleRunner {
            id: runner,
            is_there,
        }],
        start: true,
    };
    assert_eq!(
        step().await,
        stale(true),
        "silent for more than five minutes"
    );
    stage
        .board
        .beat(runner, RunnerStatus::Running, None)
        .await
        .unwrap();
    assert_eq!(step().await, WakeAction::Healthy { runner });
    stage.prove(runner, ProcessProof::Gone);
    assert_eq!(
        step().await,
        stale(false),
        "its process is gone: nothing to kill"
    );
    stage
        .board
        .end_runner(runner, RunnerStatus::Failed, None)
        .await
        .unwrap();
    stage.board.enable_project(PROJECT, false).await.unwrap();
    assert_eq!(step().await, WakeAction::Disabled);
}

/// "`maxConcurrent` is per project": each of its runners is judged by itself, whatever the others do, and a
/// new one begins where a place is free and a task waits.
#[tokio::test]
async fn a_runner_without_a_sign_of_life_is_ended_beside_one_that_works() {
    let stage = Stage::new().await;
    let waits = [
        stage.task("a").await,
        stage.task("b").await,
        stage.task("c").await,
    ];
    let (first, second) = (stage.runner().await, stage.runner().await);
    claimed(&stage, first).await;
    claimed(&stage, second).await;
    let step = async |places: u32| {
        let view = stage.board.view(None).await.unwrap();
        let rules = TaskRules {
            places,
            ..TaskRules::default()
        };
        wakeup(&view, &rules).remove(0).action
    };
    let gone = |ids: &[RunnerId], start: bool| {
        let ended = ids.iter().map(|id| StaleRunner {
            id: *id,
            is_there: false,
        });
        WakeAction::Replace {
            ended: ended.collect(),
            start,
        }
    };
    let healthy = WakeAction::Healthy { runner: first };
    assert_eq!(step(2).await, healthy, "no place is free");
    assert_eq!(step(3).await, WakeAction::Start);
    stage.prove(first, ProcessProof::Gone);
    assert_eq!(step(1).await, gone(&[first], false), "no place is free");
    assert_eq!(step(2).await, gone(&[first], true));
    stage.prove(second, ProcessProof::Gone);
    assert_eq!(step(1).await, gone(&[first, second], true));
    stage.prove(second, ProcessProof::Alive);
    let skip = Decision::Skip { notes: None };
    for task in [&waits[0], &waits[2]] {
        let id = task.id.to_string();
        let skipped = stage.board.decide(&id, &skip, Author::Person).await;
        skipped.unwrap();
    }
    assert_eq!(step(2).await, gone(&[first], false), "nothing waits");
    let failed = RunnerStatus::Failed;
    let ended = stage.board.end_runner(first, failed, None).await;
    ended.unwrap().unwrap();
    let healthy = WakeAction::Healthy { runner: second };
    assert_eq!(step(2).await, healthy, "a place is free, and nothing waits");
}

/// "`budget_exhausted` survives restarts."
#[tokio::test]
async fn a_task_without_budget_is_blocked() {
    let stage = Stage::with(TaskRules {
        task_budget: Budget {
            wall_time: Some(Span::from_secs(10)),
            ..Budget::default()
        },
        ..TaskRules::default()
    })
    .await;
    let task = stage.task("a").await;
    let me = stage.runner().await;
    let held = claimed(&stage, me).await;
    let started = begun(&stage, &held).await;
    stage.pass(Span::from_secs(20));
    let drained = ended(AttemptRole::Work, StopReason::Drain);
    let attempted = stage.board.end_attempt(&started, &drained, |_| ()).await;
    attempted.unwrap().unwrap();
    let round = stage.board.end_round(&held, &drained).await;
    round.unwrap().unwrap();
    let outcome = claim(&stage, me).await;
    assert!(matches!(outcome, ClaimOutcome::Exhausted { task: id, .. } if id == task.id));
    let shown = stage.board.task(&task.id.to_string()).await.unwrap();
    assert_eq!(shown.status, TaskStatus::Blocked);
    assert!(shown.reason.unwrap().starts_with("budget_exhausted"));
    assert_eq!(claim(&stage, me).await, ClaimOutcome::Nothing);
}

#[tokio::test]
async fn tasks_are_found_split_and_removed() {
    let stage = Stage::new().await;
    let task = stage.task("a").await;
    let id = task.id.to_string();
    let parts = ["one".to_owned(), "two".to_owned()];
    let parts = stage.board.split(&id, &parts, Author::Agent).await.unwrap();
    let parent = stage.board.task(&id).await.unwrap();
    assert_eq!(*parent.dependencies, [parts[0].id, parts[1].id]);
    assert_eq!(parts[0].parent_id, Some(task.id));
    stage
        .board
        .remove_task(&parts[0].id.to_string())
        .await
        .unwrap();
    assert_eq!(
        *stage.board.task(&id).await.unwrap().dependencies,
        [parts[1].id]
    );
    assert!(matches!(
        stage.board.task("nobody").await,
        Err(BoardError::Missing { .. })
    ));
    assert!(matches!(
        stage.board.task("").await,
        Err(BoardError::Missing { .. })
    ));
    for last in ["1", "2"] {
        let twin = format!("aaaaaaaa-0000-4000-8000-00000000000{last}");
        let twin = TaskDraft {
            id: twin.parse().ok(),
            ..TaskDraft::new(PROJECT, "twin")
        };
        stage
            .added(TaskDraft {
                status: TaskStatus::Failed,
                ..twin
            })
            .await;
    }
    let many = stage.board.task("aaaaaaaa").await;
    assert!(
        matches!(many, Err(BoardError::Ambiguous { .. })),
        "{many:?}"
    );
    let me = stage.runner().await;
    let held = claimed(&stage, me).await;
    let refused = stage.board.remove_task(&held.task.id.to_string()).await;
    assert!(
        matches!(refused, Err(BoardError::Refused(_))),
        "{refused:?}"
    );
    let all = stage.board.tasks(&TaskFilter::default()).await.unwrap();
    let all: Vec<_> = all.iter().filter(|task| task.title != "twin").collect();
    assert_eq!(
        all.iter()
            .map(|task| task.title.as_str())
            .collect::<Vec<_>>(),
        ["a", "two"]
    );
}

#[tokio::test]
async fn tasks_that_cannot_be_are_refused_whole() {
    let stage = Stage::new().await;
    let missing = lope_model::id::TaskId::from_uuid(uuid::Uuid::now_v7());
    let good = TaskDraft::new(PROJECT, "good");
    let bad = [
        TaskDraft::new(PROJECT, " "),
        TaskDraft::new(PROJECT, "t".repeat(1_001)),
        TaskDraft {
            priority: 10,
            ..good.clone()
        },
        TaskDraft {
            section: Some(String::new()),
            ..good.clone()
        },
        TaskDraft {
            description: "zero\0".to_owned(),
            ..good.clone()
        },
        TaskDraft {
            dependencies: vec![missing],
            ..good.clone()
        },
        TaskDraft {
            id: Some(missing),
            dependencies: vec![missing],
            ..good.clone()
        },
    ];
    for task in bad {
        let refused = stage.board.add_tasks(vec![good.clone(), task]).await;
        assert!(refused.is_err(), "{refused:?}");
    }
    assert!(
        stage
            .board
            .tasks(&TaskFilter::default())
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn of_many_who_claim_at_once_one_wins() {
    let stage = Stage::new().await;
    for round in 0..20 {
        stage.task(&format!("task {round}")).await;
        let claims: Vec<_> = (0..16)
            .map(|_| {
                let board = stage.board.clone();
                tokio::spawn(async move {
                    let query = TaskQuery {
                        project: Some(PROJECT),
                        ..TaskQuery::default()
                    };
                    board.claim(&query, runner_id(), HOUR).await.unwrap()
                })
            })
            .collect();
        let mut won = 0;
        for claim in claims {
            won += usize::from(matches!(claim.await.unwrap(), ClaimOutcome::Claimed(_)));
        }
        assert_eq!(won, 1, "round {round}");
    }
}

#[tokio::test]
async fn a_released_lock_gives_the_task_back() {
    let stage = Stage::new().await;
    let task = stage.task("a").await;
    let id = task.id.to_string();
    let me = stage.runner().await;
    let held = claimed(&stage, me).await;
    assert!(matches!(
        stage.board.release_lock(&id, false).await,
        Err(BoardError::Refused(_))
    ));
    stage.board.release_lock(&id, true).await.unwrap();
    let mut stale = held;
    assert!(stage.board.renew(&mut stale, HOUR).await.unwrap().is_err());
    let shown = stage.board.task(&id).await.unwrap();
    assert_eq!(
        (shown.status, shown.interrupted),
        (TaskStatus::Pending, true)
    );
    let skip = Decision::Skip {
        notes: Some("not now".to_owned()),
    };
    stage
        .board
        .decide(&id, &skip, Author::Person)
        .await
        .unwrap();
    let removed = stage.board.remove_project(PROJECT, false).await;
    assert!(matches!(removed, Err(BoardError::Refused(_))));
    stage
        .board
        .end_runner(me, RunnerStatus::Completed, None)
        .await
        .unwrap();
    let removed = stage.board.remove_project(PROJECT, true).await.unwrap();
    assert_eq!(removed.tasks, 1);
    assert!(stage.board.projects().await.unwrap().is_empty());
}

/// Nobody gives back the lock of a person who claimed a task by hand, when others decide about it.
#[tokio::test]
async fn a_decision_ends_a_claim_by_hand() {
    let stage = Stage::new().await;
    let task = stage.task("a").await;
    let id = task.id.to_string();
    let hand = claimed(&stage, runner_id()).await;
    let token = TaskToken::from(&hand.lock);
    let ask = Decision::Ask {
        question: "which?".to_owned(),
    };
    stage.board.decide(&id, &ask, Author::Person).await.unwrap();
    stage.board.lock_of_token(&token).await.unwrap();
    let skip = Decision::Skip { notes: None };
    stage
        .board
        .decide(&id, &skip, Author::Person)
        .await
        .unwrap();
    assert!(stage.board.locks().await.unwrap().is_empty());
    let lost = stage.board.lock_of_token(&token).await.unwrap_err();
    assert!(matches!(lost, BoardError::Refused(_)), "{lost}");
    // A runner gives its own back, when its agent has ended.
    stage.task("b").await;
    let me = stage.runner().await;
    let held = claimed(&stage, me).await;
    let id = held.task.id.to_string();
    stage
        .board
        .decide(&id, &skip, Author::Person)
        .await
        .unwrap();
    assert_eq!(stage.board.locks().await.unwrap().len(), 1);
}

/// "Clock ±1 h: no lock stolen." Nor is a runner held to be dead, or a place given away.
#[tokio::test]
async fn steps_of_the_wall_clock_steal_no_lock() {
    let stage = Stage::new().await;
    let task = stage.task("a").await;
    let me = stage.runner().await;
    let mut held = claimed(&stage, me).await;
    let started = begun(&stage, &held).await;
    let quick = stage.runner().await;
    let morning = stage.board.now().await.unwrap();
    for wall in [morning.plus(HOUR), morning.minus(HOUR), morning.plus(HOUR)] {
        stage.clock.set_wall(wall);
        assert_eq!(claim(&stage, quick).await, ClaimOutcome::Nothing, "{wall}");
        let view = stage.board.view(None).await.unwrap();
        let steps = wakeup(&view, &TaskRules::default());
        assert!(
            steps
                .iter()
                .all(|step| matches!(step.action, WakeAction::Healthy { .. })),
            "{wall}: {steps:?}"
        );
        let entry = new_runner(runner_id());
        let place = stage.board.enter_runner(&entry).await.unwrap();
        assert!(matches!(place, RunnerPlace::Full(_)), "{wall}");
        let renewed = stage.board.renew(&mut held, HOUR).await.unwrap();
        assert_eq!(renewed, Ok(()), "{wall}");
        let beat = stage.board.beat(me, RunnerStatus::Running, Some(task.id));
        assert!(beat.await.unwrap().is_some(), "{wall}");
        stage.pass(Span::from_secs(30));
    }
    let end = ended(AttemptRole::Work, StopReason::Success);
    let attempted = stage.board.end_attempt(&started, &end, |_| ()).await;
    attempted.unwrap().unwrap();
    let round = stage.board.end_round(&held, &end).await.unwrap().unwrap();
    assert_eq!(round.status, TaskStatus::Completed);
}

/// A holder on another machine is judged by the store's moments, which no wall clock moves.
#[tokio::test]
async fn steps_of_the_wall_clock_steal_nothing_from_another_machine() {
    let stage = Stage::new().await;
    stage.task("a").await;
    let me = stage.runner().await;
    stage.prove(me, ProcessProof::Unknown);
    claimed(&stage, me).await;
    let quick = stage.runner().await;
    let morning = stage.board.now().await.unwrap();
    stage.clock.set_wall(morning.plus(HOUR));
    assert_eq!(claim(&stage, quick).await, ClaimOutcome::Nothing);
    stage.pass(HOUR);
    claimed(&stage, quick).await;
}
