//! Whether an agent may be started: what attempts have used up so far, against the limits of the
//! task, its project and the day.

use lope_model::{Span, Timestamp};

use super::TaskRules;
use crate::records::{Budget, TaskAttemptRecord, TaskRecord};

/// What attempts used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    pub attempts: u32,
    pub wall_time: Span,
    /// In millionths of a dollar.
    pub cost_micros: i64,
}

impl Usage {
    pub fn of<'a>(attempts: impl Iterator<Item = &'a TaskAttemptRecord>) -> Self {
        attempts.fold(Self::default(), |mut sum, attempt| {
            sum.attempts += u32::from(attempt.counted);
            sum.wall_time = sum.wall_time + Span::from_millis(attempt.wall_ms.max(0) as u64);
            sum.cost_micros = sum.cost_micros.saturating_add(attempt.cost_micros);
            sum
        })
    }

    /// Which limit is reached, in words.
    pub fn reached(&self, budget: &Budget, whose: &str) -> Option<String> {
        if let Some(most) = budget.attempts.filter(|most| self.attempts >= *most) {
            return Some(format!("the budget of {whose} is {most} attempts"));
        }
        if let Some(most) = budget.wall_time.filter(|most| self.wall_time >= *most) {
            return Some(format!("the budget of {whose} is {most} of work"));
        }
        let cost = budget.cost.filter(|most| self.cost_micros >= micros(*most));
        cost.map(|most| format!("the budget of {whose} is ${most:.2}"))
    }
}

/// Dollars in millionths.
pub fn micros(dollars: f64) -> i64 {
    (dollars * 1e6).round() as i64
}

/// What may still be used up: the least of what the budgets leave. A share that is the day's comes
/// with the end of the day.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BudgetLeft {
    pub wall_time: Option<Span>,
    pub wall_until: Option<Timestamp>,
    /// In millionths of a dollar.
    pub cost_micros: Option<i64>,
    pub cost_until: Option<Timestamp>,
}

/// A budget that is used up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exhausted {
    /// Whose, and how much it was, in words.
    pub reason: String,
    /// The budget of a day is there again then; others stay used up.
    pub until: Option<Timestamp>,
}

impl BudgetLeft {
    /// When there is more for an agent that was stopped because it used up what was left: with the
    /// next day, if it was the day's.
    pub fn until(&self, wall: Span) -> Option<Timestamp> {
        match self.wall_time {
            Some(most) if wall >= most => self.wall_until,
            Some(_) | None => self.cost_until,
        }
    }
}

/// Which budget is used up; nothing if the task may be started. `attempts` are those of its project.
pub fn exhausted(
    task: &TaskRecord,
    attempts: &[TaskAttemptRecord],
    rules: &TaskRules,
    now: Timestamp,
) -> Option<Exhausted> {
    let budgets = budgets(task, attempts, rules, now);
    let mut reached = budgets.iter();
    reached.find_map(|it| {
        let reason = it.usage.reached(&it.budget, it.whose)?;
        Some(Exhausted {
            reason,
            until: it.until,
        })
    })
}

/// Does it matter what was attempted before? Not for a task that nobody has held, if neither its
/// project nor the day has a budget.
pub fn looks_back(task: &TaskRecord, rules: &TaskRules) -> bool {
    let none = Budget::default();
    task.epoch > 0 || rules.project_budget != none || rules.day_budget != none
}

/// What an agent that is started now may use up.
pub fn left(
    task: &TaskRecord,
    attempts: &[TaskAttemptRecord],
    rules: &TaskRules,
    now: Timestamp,
) -> BudgetLeft {
    let budgets = budgets(task, attempts, rules, now);
    let wall = budgets.iter().filter_map(|it| {
        let most = it.budget.wall_time?;
        Some((most - it.usage.wall_time, it.until))
    });
    let cost = budgets.iter().filter_map(|it| {
        let most = micros(it.budget.cost?);
        Some((most - it.usage.cost_micros, it.until))
    });
    // Of two that leave the same, the one that stays used up decides.
    let (wall, cost) = (wall.min(), cost.min());
    BudgetLeft {
        wall_time: wall.map(|(left, _)| left),
        wall_until: wall.and_then(|(_, until)| until),
        cost_micros: cost.map(|(left, _)| left.max(0)),
        cost_until: cost.and_then(|(_, until)| until),
    }
}

/// What was used up, against what may be.
struct UsedBudget {
    usage: Usage,
    budget: Budget,
    whose: &'static str,
    until: Option<Timestamp>,
}

fn budgets(
    task: &TaskRecord,
    attempts: &[TaskAttemptRecord],
    rules: &TaskRules,
    now: Timestamp,
) -> [UsedBudget; 4] {
    let own = Usage::of(attempts.iter().filter(|attempt| attempt.task_id == task.id));
    // A task that was reset counts its attempts anew; time and money stay spent.
    let own = Usage {
        attempts: u32::try_from(task.attempts).unwrap_or(u32::MAX),
        ..own
    };
    let all = Usage::of(attempts.iter());
    let today = day(now);
    let of_day = Usage::of(
        attempts
            .iter()
            .filter(|attempt| day(attempt.started_at) == today),
    );
    let lasting = |usage, budget, whose| UsedBudget {
        usage,
        budget,
        whose,
        until: None,
    };
    [
        lasting(own, *task.budget, "the task"),
        lasting(own, rules.task_budget, "a task"),
        lasting(all, rules.project_budget, "the project"),
        UsedBudget {
            until: Some(Timestamp::from_millis((today + 1) * DAY)),
            ..lasting(of_day, rules.day_budget, "the day")
        },
    ]
}

/// A day, by UTC.
const DAY: i64 = 86_400_000;

const fn day(time: Timestamp) -> i64 {
    time.millis().div_euclid(DAY)
}
