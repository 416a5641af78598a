//! The law in tables: what stops mean, what people may decide, who holds a lock, what is next.

use lope_agents::law::TaskRules;
use lope_agents::law::budget::{exhausted, left, looks_back};
use lope_agents::law::decide::{Decision, decide};
use lope_agents::law::settle::{AttemptEnd, ReviewVerdict, failures, settle};
use lope_agents::law::waiting::{WaitingCircle, dependencies_first};
use lope_agents::records::{
    AttemptRole, Author, Budget, JsonText, ReviewBy, StopReason, TaskAttemptRecord, TaskRecord,
    TaskStatus,
};
use lope_model::id::TaskId;
use lope_model::{Span, Timestamp};
use proptest::prelude::*;

use crate::fixture::{PROJECT, Stage, runner_id};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

async fn at_work(review: ReviewBy) -> TaskRecord {
    let mut task = Stage::new().await.task("a task").await;
    task.status = TaskStatus::InProgress;
    task.review = review;
    task
}

fn end(role: AttemptRole, reason: StopReason) -> AttemptEnd {
    AttemptEnd {
        role,
        reason,
        reset: None,
        verdict: None,
        message: Some("words".to_owned()),
        session: None,
        is_split: false,
    }
}

/// "success → completed or review; non-zero exit, wall timeout → failed (attempt counted); hang →
/// re-queued for the next wake-up (counted, up to the maximum); usage limit → re-queued at its reset
/// (not counted); cancel, drain → pending (not counted); lost lock → nothing written; budget →
/// `budget_exhausted`."
#[tokio::test]
async fn every_stop_has_its_state_and_counts_or_not() {
    use StopReason as Stop;
    use TaskStatus as Status;
    let rows = [
        (Stop::Success, Status::Completed, true, None),
        (Stop::Exit, Status::Failed, true, None),
        (Stop::Timeout, Status::Failed, true, None),
        (
            Stop::Hang,
            Status::Pending,
            true,
            Some(NOW.plus(Span::from_secs(60))),
        ),
        (Stop::RunnerDeath, Status::Pending, true, None),
        (
            Stop::UsageLimit,
            Status::Pending,
            false,
            Some(NOW.plus(Span::from_secs(900))),
        ),
        (Stop::Cancel, Status::Pending, false, None),
        (Stop::Drain, Status::Pending, false, None),
        (
            Stop::Startup,
            Status::Pending,
            false,
            Some(NOW.plus(Span::from_secs(60))),
        ),
        (Stop::Budget, Status::Blocked, false, None),
    ];
    let task = at_work(ReviewBy::None).await;
    let rules = TaskRules::default();
    for (reason, status, counted, not_before) in rows {
        let settled = settle(&task, &end(AttemptRole::Work, reason), 1, &rules, NOW).unwrap();
        assert_eq!(settled.task.status, status, "{reason}");
        assert_eq!(settled.counted, counted, "{reason}");
        assert_eq!(settled.task.attempts, i64::from(counted), "{reason}");
        assert_eq!(settled.task.not_before, not_before, "{reason}");
    }
    assert_eq!(rows.len() + 1, Stop::ALL.len(), "every reason has its row");
    let lost = settle(
        &task,
        &end(AttemptRole::Work, Stop::LostLock),
        1,
        &rules,
        NOW,
    );
    assert_eq!(lost, None, "nothing is written");
    let blocked = settle(&task, &end(AttemptRole::Work, Stop::Budget), 1, &rules, NOW).unwrap();
    let reason = blocked.task.reason.as_deref();
    assert_eq!(reason, Some("budget_exhausted: words"));
}

#[tokio::test]
async fn after_work_a_task_goes_to_its_reviewer() {
    for review in [ReviewBy::Agent, ReviewBy::Person] {
        let task = at_work(review).await;
        let success = end(AttemptRole::Work, StopReason::Success);
        let settled = settle(&task, &success, 1, &TaskRules::default(), NOW).unwrap();
        assert_eq!(settled.task.status, TaskStatus::Review);
        assert_eq!(settled.task.result.as_deref(), Some("words"));
    }
}

/// "rejections go back with the reviewer's notes, up to a maximum."
#[tokio::test]
async fn a_review_completes_a_task_or_sends_it_back_with_notes() {
    let rules = TaskRules::default();
    let mut task = at_work(ReviewBy::Agent).await;
    task.status = TaskStatus::Review;
    let review = |verdict| AttemptEnd {
        verdict,
        ..end(AttemptRole::Review, StopReason::Success)
    };
    let approved = review(Some(ReviewVerdict::Approved));
    let settled = settle(&task, &approved, 1, &rules, NOW).unwrap();
    assert_eq!(settled.task.status, TaskStatus::Completed);
    let rejected = review(Some(ReviewVerdict::Rejected));
    for round in 1..=rules.rejections_max {
        task = settle(&task, &rejected, 1, &rules, NOW).unwrap().task;
        assert_eq!(task.status, TaskStatus::Pending);
        assert_eq!(task.rejections, i64::from(round));
        assert_eq!(task.reason.as_deref(), Some("rejected: words"));
    }
    task = settle(&task, &rejected, 1, &rules, NOW).unwrap().task;
    assert_eq!(
        task.status,
        TaskStatus::Failed,
        "the last rejection ends it"
    );
    assert_eq!(task.reason.as_deref(), Some("rejected 4 times: words"));
    let silent = settle(
        &at_work(ReviewBy::Agent).await,
        &review(None),
        1,
        &rules,
        NOW,
    )
    .unwrap();
    assert_eq!(
        silent.task.status,
        TaskStatus::Blocked,
        "no verdict is no review"
    );
}

#[tokio::test]
async fn a_task_that_keeps_hanging_is_given_up() {
    let rules = TaskRules::default();
    let mut task = at_work(ReviewBy::None).await;
    for failures in 1..rules.attempts_max {
        task = settle(
            &task,
            &end(AttemptRole::Work, StopReason::Hang),
            failures,
            &rules,
            NOW,
        )
        .unwrap()
        .task;
        assert_eq!(task.status, TaskStatus::Pending);
        assert!(task.interrupted);
    }
    task = settle(
        &task,
        &end(AttemptRole::Work, StopReason::Hang),
        rules.attempts_max,
        &rules,
        NOW,
    )
    .unwrap()
    .task;
    assert_eq!(task.status, TaskStatus::Failed);
    assert_eq!(task.attempts, i64::from(rules.attempts_max));
}

/// An attempt that has ended, at a minute of its task's life.
async fn ended(role: AttemptRole, reason: StopReason, minute: u64) -> TaskAttemptRecord {
    let task = at_work(ReviewBy::None).await;
    let at = NOW.plus(Span::from_secs(60 * minute));
    TaskAttemptRecord {
        role,
        started_at: at,
        ended_at: Some(at),
        stop_reason: Some(reason),
        ..attempt(&task, at, 0)
    }
}

/// "A task that hangs, or whose runner dies, `maxAttempts` times is `failed`": what went well, what
/// does not count, other roles and what was before a reset are no such times.
#[tokio::test]
async fn only_attempts_of_a_role_that_ended_badly_bring_it_nearer_to_its_last() {
    use AttemptRole::{Review, Work};
    use StopReason::{Drain, Hang, RunnerDeath, Success, UsageLimit};
    type Life<'a> = &'a [(AttemptRole, StopReason)];
    let rows: [(Life<'_>, AttemptRole, Option<u64>, u32); 8] = [
        (&[], Work, None, 0),
        (
            &[(Work, Success), (Review, Success), (Work, RunnerDeath)],
            Work,
            None,
            1,
        ),
        (&[(Work, Hang), (Work, RunnerDeath)], Work, None, 2),
        (
            &[
                (Work, Hang),
                (Work, Success),
                (Review, Success),
                (Work, Hang),
            ],
            Work,
            None,
            1,
        ),
        (
            &[
                (Work, Hang),
                (Work, UsageLimit),
                (Work, Drain),
                (Work, Hang),
            ],
            Work,
            None,
            2,
        ),
        (
            &[(Work, Hang), (Work, Hang), (Work, Hang)],
            Work,
            Some(2),
            1,
        ),
        (
            &[(Work, Success), (Review, Hang), (Review, Hang)],
            Review,
            None,
            2,
        ),
        (
            &[(Review, Hang), (Review, Success), (Work, Hang)],
            Review,
            None,
            0,
        ),
    ];
    for (life, role, reset, expected) in rows {
        let mut attempts = Vec::new();
        for (minute, (role, reason)) in life.iter().enumerate() {
            attempts.push(ended(*role, *reason, minute as u64).await);
        }
        let since = reset.map(|minute| NOW.plus(Span::from_secs(60 * minute)));
        assert_eq!(failures(&attempts, role, since), expected, "{life:?}");
    }
}

/// A day whose budget is used up ends; then its tasks go on by themselves.
#[tokio::test]
async fn a_day_that_is_used_up_blocks_no_task() {
    let task = at_work(ReviewBy::None).await;
    let of_day = AttemptEnd {
        reset: Some(NOW.plus(Span::from_secs(60))),
        ..end(AttemptRole::Work, StopReason::Budget)
    };
    let settled = settle(&task, &of_day, 1, &TaskRules::default(), NOW).unwrap();
    assert_eq!(settled.task.status, TaskStatus::Pending);
    assert_eq!(
        settled.task.not_before, None,
        "a raised budget is seen at once"
    );
    assert_eq!(
        settled.task.reason.as_deref(),
        Some("budget_exhausted: words")
    );
    let cost = |dollars| Budget {
        cost: Some(dollars),
        ..Budget::default()
    };
    let day = Timestamp::from_millis(1_800_057_600_000);
    let rows = [(5.0, 9.0, None), (9.0, 5.0, Some(day)), (5.0, 5.0, None)];
    for (of_task, of_day, expected) in rows {
        let rules = TaskRules {
            task_budget: cost(of_task),
            day_budget: cost(of_day),
            ..TaskRules::default()
        };
        let left = left(&task, &[], &rules, NOW);
        assert_eq!(left.cost_micros, Some(5_000_000));
        assert_eq!(left.until(Span::ZERO), expected, "{of_task} {of_day}");
    }
}

#[tokio::test]
async fn a_usage_limit_waits_for_its_reset() {
    let task = at_work(ReviewBy::None).await;
    let reset = NOW.plus(Span::from_secs(7_200));
    let limit = AttemptEnd {
        reset: Some(reset),
        ..end(AttemptRole::Work, StopReason::UsageLimit)
    };
    let settled = settle(&task, &limit, 1, &TaskRules::default(), NOW).unwrap();
    assert_eq!(settled.task.not_before, Some(reset));
    assert!(!settled.counted);
}

/// "A human's decision (skip, approve, reject) is never undone by automation."
#[tokio::test]
async fn what_a_person_decided_stays() {
    let rules = TaskRules::default();
    let task = at_work(ReviewBy::None).await;
    let decisions = [
        Decision::Skip { notes: None },
        Decision::Approve { notes: None },
    ];
    for decision in decisions {
        let decided = decide(&task, &decision, Author::Person, &rules, NOW).unwrap();
        for reason in StopReason::ALL {
            let settled = settle(&decided, &end(AttemptRole::Work, *reason), 1, &rules, NOW);
            if let Some(settled) = settled {
                assert_eq!(
                    settled.task.status, decided.status,
                    "{decision:?}, {reason}"
                );
            }
        }
        let by_agent = Decision::Done { result: None };
        assert!(decide(&decided, &by_agent, Author::Agent, &rules, NOW).is_err());
    }
}

#[tokio::test]
async fn a_question_waits_for_its_answer() {
    let rules = TaskRules::default();
    let mut task = at_work(ReviewBy::None).await;
    task.status = TaskStatus::Pending;
    let ask = Decision::Ask {
        question: "which colour?".to_owned(),
    };
    let answer = Decision::Answer {
        answer: "blue".to_owned(),
    };
    assert!(decide(&task, &answer, Author::Person, &rules, NOW).is_err());
    let asked = decide(&task, &ask, Author::Agent, &rules, NOW).unwrap();
    assert_eq!(asked.status, TaskStatus::Blocked);
    let answered = decide(&asked, &answer, Author::Person, &rules, NOW).unwrap();
    assert_eq!(answered.status, TaskStatus::Pending);
    assert_eq!(answered.answer.as_deref(), Some("blue"));
    // A reviewer at work goes on; a person who asks stops the review. With the answer it goes on.
    task.status = TaskStatus::Review;
    let asked = decide(&task, &ask, Author::Agent, &rules, NOW).unwrap();
    assert_eq!(asked.status, TaskStatus::Review);
    let asked = decide(&task, &ask, Author::Person, &rules, NOW).unwrap();
    assert_eq!(asked.status, TaskStatus::Blocked);
    let answered = decide(&asked, &answer, Author::Person, &rules, NOW).unwrap();
    assert_eq!(answered.status, TaskStatus::Review);
}

/// What was asked before a task failed is answered all the same: it is worked on again. The words say
/// what is in the way of an answer.
#[tokio::test]
async fn what_a_failed_task_asked_is_answered_once() {
    let rules = TaskRules::default();
    let mut task = at_work(ReviewBy::None).await;
    task.question = Some("which colour?".to_owned());
    let answer = Decision::Answer {
        answer: "blue".to_owned(),
    };
    let answered = |task: &TaskRecord| {
        decide(task, &answer, Author::Person, &rules, NOW).map_err(|no| no.message)
    };
    for reason in [StopReason::Exit, StopReason::Timeout, StopReason::Hang] {
        let end = end(AttemptRole::Work, reason);
        let failed = settle(&task, &end, 3, &rules, NOW).unwrap().task;
        assert_eq!(failed.status, TaskStatus::Failed, "{reason}");
        let next = answered(&failed).unwrap();
        let seen = (next.status, next.reason.as_deref(), next.completed_at);
        assert_eq!(seen, (TaskStatus::Pending, None, None), "{reason}");
        assert_eq!(next.answer.as_deref(), Some("blue"), "{reason}");
        let again = settle(&next, &end, 3, &rules, NOW).unwrap().task;
        let id = again.id;
        assert_eq!(answered(&again), Err(format!("task {id}: it is failed")));
    }
    let skipped = decide(
        &task,
        &Decision::Skip { notes: None },
        Author::Person,
        &rules,
        NOW,
    );
    let id = task.id;
    let why = format!("task {id}: it is skipped");
    assert_eq!(answered(&skipped.unwrap()), Err(why));
    task.question = None;
    let why = format!("task {id}: nothing was asked");
    assert_eq!(answered(&task), Err(why));
}

/// Those that others wait for come first, else all as they stand; nobody waits for himself.
#[tokio::test]
async fn tasks_are_added_after_those_that_they_wait_for() {
    let id = |number: u128| TaskId::from_uuid(uuid::Uuid::from_u128(number));
    let order = |waits: &[&[u128]]| {
        let needs = waits.iter();
        let needs = needs.map(|waits| waits.iter().map(|number| id(*number)).collect());
        let needs: Vec<Vec<TaskId>> = needs.collect();
        let tasks = needs.iter().enumerate();
        let tasks = tasks.map(|(place, needs)| (id(place as u128), &needs[..]));
        dependencies_first(&tasks.collect::<Vec<_>>())
    };
    let circle = |places: &[u128]| {
        let ids = places.iter().map(|place| id(*place));
        Err(WaitingCircle(ids.collect()))
    };
    assert_eq!(order(&[]), Ok(vec![]));
    assert_eq!(order(&[&[], &[], &[]]), Ok(vec![0, 1, 2]));
    assert_eq!(order(&[&[2], &[], &[1]]), Ok(vec![1, 2, 0]));
    assert_eq!(order(&[&[1, 1], &[77]]), Ok(vec![1, 0]));
    assert_eq!(order(&[&[0]]), circle(&[0]));
    assert_eq!(order(&[&[], &[2], &[3], &[1]]), circle(&[1, 2, 3]));
    // One that waits for those in a circle is in none.
    assert_eq!(order(&[&[9, 1], &[2], &[1]]), circle(&[1, 2]));
    let told = order(&[&[1], &[2], &[0]]).unwrap_err().to_string();
    let [first, second, third] = [id(0), id(1), id(2)];
    let words = format!("task {first} waits for itself, through {second}, {third}");
    assert_eq!(told, words);
}

/// What a reviewer asked is answered for the review: what was worked is not worked again, unless it
/// was rejected.
#[tokio::test]
async fn a_reviewers_question_is_answered_for_the_review() {
    let rules = TaskRules::default();
    let mut task = at_work(ReviewBy::Agent).await;
    task.status = TaskStatus::Review;
    task.question = Some("which?".to_owned());
    let answer = Decision::Answer {
        answer: "this".to_owned(),
    };
    let (approved, rejected) = (ReviewVerdict::Approved, ReviewVerdict::Rejected);
    let rows = [
        (StopReason::Success, None, TaskStatus::Review),
        (StopReason::Success, Some(approved), TaskStatus::Review),
        (StopReason::Success, Some(rejected), TaskStatus::Pending),
        (StopReason::Hang, None, TaskStatus::Review),
        (StopReason::RunnerDeath, None, TaskStatus::Review),
        (StopReason::Exit, None, TaskStatus::Review),
        (StopReason::Timeout, None, TaskStatus::Review),
        (StopReason::Drain, None, TaskStatus::Review),
    ];
    // Also when it was the last attempt.
    let both = rows
        .iter()
        .flat_map(|row| [(row, 1), (row, rules.attempts_max)]);
    for ((reason, verdict, expected), failures) in both {
        let end = AttemptEnd {
            verdict: *verdict,
            ..end(AttemptRole::Review, *reason)
        };
        let settled = settle(&task, &end, failures, &rules, NOW).unwrap().task;
        let about = format!("{reason} {verdict:?} {failures}");
        assert_eq!(settled.status, TaskStatus::Blocked, "{about}");
        let answered = decide(&settled, &answer, Author::Person, &rules, NOW).unwrap();
        assert_eq!(answered.status, *expected, "{about}");
    }
}

fn attempt(task: &TaskRecord, started_at: Timestamp, cost_micros: i64) -> TaskAttemptRecord {
    TaskAttemptRecord {
        task_id: task.id,
        number: 1,
        revision: 1,
        project_path: PROJECT.to_owned(),
        role: AttemptRole::Work,
        agent: "default".to_owned(),
        runner_id: runner_id(),
        epoch: 1,
        run_id: None,
        execution: None,
        worktree: None,
        started_at,
        ended_at: Some(started_at),
        stop_reason: Some(StopReason::Exit),
        counted: true,
        exit_code: Some(1),
        wall_ms: 60_000,
        cost_micros,
        tokens: 0,
        session: None,
        summary: None,
        log: None,
    }
}

/// "Budgets per task, project and day: attempts, wall time, cost; checked before each start;"
#[tokio::test]
async fn each_budget_is_held() {
    let stage = Stage::new().await;
    let (task, other) = (stage.task("a").await, stage.task("b").await);
    let yesterday = NOW.minus(Span::from_secs(86_400));
    let attempts = [
        attempt(&task, NOW, 2_000_000),
        attempt(&other, yesterday, 3_000_000),
    ];
    let cost = |dollars| Budget {
        cost: Some(dollars),
        ..Budget::default()
    };
    let none = TaskRules::default();
    assert_eq!(exhausted(&task, &attempts, &none, NOW), None);
    let rows = [
        (
            TaskRules {
                task_budget: cost(2.0),
                ..none.clone()
            },
            "a task is $2.00",
        ),
        (
            TaskRules {
                project_budget: cost(5.0),
                ..none.clone()
            },
            "the project is $5.00",
        ),
        (
            TaskRules {
                day_budget: cost(2.0),
                ..none.clone()
            },
            "the day is $2.00",
        ),
        (
            TaskRules {
                project_budget: Budget {
                    wall_time: Some(Span::from_secs(120)),
                    ..Budget::default()
                },
                ..none.clone()
            },
            "2m of work",
        ),
        (
            TaskRules {
                day_budget: Budget {
                    attempts: Some(1),
                    ..Budget::default()
                },
                ..none.clone()
            },
            "1 attempts",
        ),
    ];
    for (rules, words) in rows {
        let why = exhausted(&task, &attempts, &rules, NOW).unwrap();
        assert!(why.reason.contains(words), "{why:?}");
        let next_day = Timestamp::from_millis(1_800_057_600_000);
        let is_of_day = rules.day_budget != Budget::default();
        assert_eq!(why.until, is_of_day.then_some(next_day), "{why:?}");
    }
    for enough in [
        TaskRules {
            task_budget: cost(2.01),
            ..none.clone()
        },
        TaskRules {
            day_budget: cost(4.0),
            ..none.clone()
        },
    ] {
        assert_eq!(exhausted(&task, &attempts, &enough, NOW), None);
    }
    let own = TaskRecord {
        budget: JsonText(cost(1.0)),
        ..task
    };
    assert!(exhausted(&own, &attempts, &none, NOW).is_some());
}

/// A claim reads what was attempted only where it may matter.
#[tokio::test]
async fn a_new_task_without_budgets_of_project_and_day_looks_back_at_nothing() {
    let stage = Stage::new().await;
    let (new, other) = (stage.task("a").await, stage.task("b").await);
    let held = TaskRecord {
        epoch: 1,
        ..new.clone()
    };
    let one = Budget {
        attempts: Some(1),
        ..Budget::default()
    };
    let none = TaskRules::default();
    let of_task = TaskRules {
        task_budget: one,
        ..none.clone()
    };
    let of_project = TaskRules {
        project_budget: one,
        ..none.clone()
    };
    let of_day = TaskRules {
        day_budget: one,
        ..none.clone()
    };
    let attempts = [attempt(&other, NOW, 2_000_000)];
    for (task, rules, expected) in [
        (&new, &none, false),
        (&new, &of_task, false),
        (&new, &of_project, true),
        (&new, &of_day, true),
        (&held, &none, true),
    ] {
        assert_eq!(looks_back(task, rules), expected, "{rules:?}");
        let (with, without) = (
            exhausted(task, &attempts, rules, NOW),
            exhausted(task, &[], rules, NOW),
        );
        assert!(looks_back(task, rules) || with == without, "{rules:?}");
    }
}

fn any_of<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    prop::sample::select(all)
}

proptest! {
    /// Whatever happens in whatever order: attempts only grow by those that count, a task that ended
    /// has a time of its end, and nothing but a person leaves what a person decided.
    #[test]
    fn a_task_stays_sound_through_any_life(
        review in any_of(ReviewBy::ALL),
        stops in prop::collection::vec((any_of(StopReason::ALL), any_of(AttemptRole::ALL), any::<Option<bool>>()), 1..30),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut task = runtime.block_on(at_work(review));
        let rules = TaskRules::default();
        for (reason, role, verdict) in stops {
            let verdict = verdict.map(|approved| if approved {
                ReviewVerdict::Approved
            } else {
                ReviewVerdict::Rejected
            });
            let before = task.clone();
            let ended = AttemptEnd { verdict, ..end(role, reason) };
            let Some(settled) = settle(&task, &ended, 1, &rules, NOW) else {
                prop_assert_eq!(reason, StopReason::LostLock);
                continue;
            };
            prop_assert_eq!(settled.task.attempts, before.attempts + i64::from(settled.counted));
            prop_assert!(settled.task.status != TaskStatus::InProgress);
            let ended = matches!(settled.task.status, TaskStatus::Completed | TaskStatus::Failed);
            prop_assert!(!ended || settled.task.completed_at.is_some());
            prop_assert!(settled.task.rejections <= i64::from(rules.rejections_max) + 1);
            task = settled.task;
            if ended { break; }
        }
    }
}

/// The table in the guide has a row for every stop, and says what the law does.
#[tokio::test]
async fn the_table_of_stops_in_the_guide_is_the_law() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agents.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let rows: Vec<Vec<&str>> = guide
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            line.split('|')
                .map(|cell| cell.trim().trim_matches('`'))
                .collect()
        })
        .collect();
    let task = at_work(ReviewBy::None).await;
    for reason in StopReason::ALL {
        let row = rows.iter().find(|row| row[1] == reason.as_str());
        let row = row.unwrap_or_else(|| panic!("no row for {reason}"));
        let settled = settle(
            &task,
            &end(AttemptRole::Work, *reason),
            1,
            &TaskRules::default(),
            NOW,
        );
        let (status, counted) = settled.map_or(("unchanged", false), |settled| {
            (settled.task.status.as_str(), settled.counted)
        });
        let counted = if counted { "yes" } else { "no" };
        assert_eq!((row[2], row[3]), (status, counted), "{reason}");
    }
    assert_eq!(rows.len(), StopReason::ALL.len());
}

/// A question that nobody answered is waited for, whatever the attempt came to.
#[tokio::test]
async fn nobody_goes_on_with_a_task_before_its_question_is_answered() {
    let mut task = at_work(ReviewBy::None).await;
    task.question = Some("which?".to_owned());
    let rows = [
        (StopReason::Success, TaskStatus::Blocked),
        (StopReason::Hang, TaskStatus::Blocked),
        (StopReason::Exit, TaskStatus::Failed),
    ];
    for (reason, expected) in rows {
        let end = end(AttemptRole::Work, reason);
        let settled = settle(&task, &end, 1, &TaskRules::default(), NOW).unwrap();
        assert_eq!(settled.task.status, expected, "{reason}");
    }
    task.answer = Some("this".to_owned());
    let end = end(AttemptRole::Work, StopReason::Success);
    let settled = settle(&task, &end, 1, &TaskRules::default(), NOW).unwrap();
    assert_eq!(settled.task.status, TaskStatus::Completed);
}
