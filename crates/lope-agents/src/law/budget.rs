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

/// What may still be used up: the least of what the budgets leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BudgetLeft {
    pub wall_time: Option<Span>,
    /// In millionths of a dollar.
    pub cost_micros: Option<i64>,
}

/// Which budget is used up; nothing if the task may be started. `attempts` are those of its project.
pub fn exhausted(
    task: &TaskRecord,
    attempts: &[TaskAttemptRecord],
    rules: &TaskRules,
    now: Timestamp,
) -> Option<String> {
    let budgets = budgets(task, attempts, rules, now);
    let mut reached = budgets.iter();
    reached.find_map(|(usage, budget, whose)| usage.reached(budget, whose))
}

/// What an agent that is started now may use up.
pub fn left(
    task: &TaskRecord,
    attempts: &[TaskAttemptRecord],
    rules: &TaskRules,
    now: Timestamp,
) -> BudgetLeft {
    let budgets = budgets(task, attempts, rules, now);
    let wall = budgets
        .iter()
        .filter_map(|(usage, budget, _)| budget.wall_time.map(|most| most - usage.wall_time));
    let cost = budgets
        .iter()
        .filter_map(|(usage, budget, _)| budget.cost.map(|most| micros(most) - usage.cost_micros));
    BudgetLeft {
        wall_time: wall.min(),
        cost_micros: cost.min().map(|left| left.max(0)),
    }
}

/// What was used up, against what may be, and whose that is.
fn budgets(
    task: &TaskRecord,
    attempts: &[TaskAttemptRecord],
    rules: &TaskRules,
    now: Timestamp,
) -> [(Usage, Budget, &'static str); 4] {
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
    [
        (own, *task.budget, "the task"),
        (own, rules.task_budget, "a task"),
        (all, rules.project_budget, "the project"),
        (of_day, rules.day_budget, "the day"),
    ]
}

const fn day(time: Timestamp) -> i64 {
    time.millis().div_euclid(86_400_000)
}
