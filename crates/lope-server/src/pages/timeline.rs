//! The timeline of a run: one row a step, its executions as bars, drawn from what is known of them
//! alone. Steps with many executions show their spread; what failed is always shown.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use lope::runs::{Execution, ExecutionStatus};
use lope_model::Timestamp;
use maud::{Markup, html};

use super::parts::{cut, lasted};
use crate::clock;

/// Steps shown, in the order in which they first began.
const STEPS: usize = 200;
/// Bars drawn in a row; more become one that spans them.
const BARS: usize = 60;

/// The width of a bar, at least, in percent.
const LEAST: f64 = 0.4;

/// A stretch of time in a state.
#[derive(Clone, Copy, Debug)]
struct Bar {
    from: i64,
    to: i64,
    status: ExecutionStatus,
    /// It is open, and nobody is at work on it.
    waits: bool,
    count: usize,
}

/// What is to be drawn.
pub(crate) struct Bars {
    rows: Vec<(String, Vec<Bar>)>,
    left_out: usize,
    from: i64,
    to: i64,
}

impl Bars {
    pub(crate) fn of(executions: &[Cow<'_, Execution>], finished_at: Option<Timestamp>) -> Self {
        let now = finished_at.unwrap_or_else(clock::now).millis();
        let mut order: Vec<&str> = Vec::new();
        let mut steps: BTreeMap<&str, Vec<Bar>> = BTreeMap::new();
        for execution in executions {
            let row = steps.entry(&execution.step).or_default();
            if row.is_empty() {
                order.push(&execution.step);
            }
            row.extend(bars(execution, now));
        }
        // What holds other steps works through them.
        let below = order.iter().copied();
        let holders: BTreeSet<&str> = below
            .flat_map(|step| step.match_indices('/').map(move |(end, _)| &step[..end]))
            .collect();
        for step in holders {
            let held = steps.get_mut(step).into_iter().flatten();
            held.for_each(|bar| bar.waits = false);
        }
        let all = || steps.values().flatten();
        let from = all().map(|bar| bar.from).min().unwrap_or(now);
        let to = all().map(|bar| bar.to).max().unwrap_or(now).max(from + 1);
        let left_out = order.len().saturating_sub(STEPS);
        let rows = order.iter().take(STEPS);
        let rows = rows
            .map(|step| {
                (
                    (*step).to_owned(),
                    folded(steps.remove(step).unwrap_or_default()),
                )
            })
            .collect();
        Self {
            rows,
            left_out,
            from,
            to,
        }
    }

    /// Where a moment stands, in percent of the width that bars have: how wide that is, the screen
    /// says.
    fn x(&self, at: i64) -> f64 {
        (at - self.from) as f64 * 100.0 / (self.to - self.from) as f64
    }
}

/// Attempts as bars of their own; what has none is one.
fn bars(execution: &Execution, now: i64) -> Vec<Bar> {
    let end = |at: Option<Timestamp>| at.map_or(now, Timestamp::millis);
    let bar = |from: Timestamp, to: i64, status| Bar {
        from: from.millis(),
        to: to.max(from.millis()),
        status,
        waits: status == ExecutionStatus::Running && execution.attempts.is_empty(),
        count: 1,
    };
    if execution.attempts.is_empty() {
        return vec![bar(
            execution.opened_at,
            end(execution.finished_at),
            execution.status,
        )];
    }
    let attempts = execution.attempts.iter().map(|it| {
        bar(
            it.started_at.unwrap_or(it.dispatched_at),
            end(it.finished_at),
            it.status,
        )
    });
    attempts.collect()
}

/// Many bars as one, with those that failed over it.
fn folded(bars: Vec<Bar>) -> Vec<Bar> {
    if bars.len() <= BARS {
        return bars;
    }
    let from = bars.iter().map(|bar| bar.from).min().unwrap_or_default();
    let to = bars.iter().map(|bar| bar.to).max().unwrap_or_default();
    let running = bars
        .iter()
        .any(|bar| bar.status == ExecutionStatus::Running);
    let status = if running {
        ExecutionStatus::Running
    } else {
        ExecutionStatus::Done
    };
    let whole = Bar {
        from,
        to,
        status,
        waits: false,
        count: bars.len(),
    };
    let failed = bars
        .into_iter()
        .filter(|bar| bar.status == ExecutionStatus::Failed);
    std::iter::once(whole).chain(failed.take(BARS)).collect()
}

pub(crate) fn draw(bars: &Bars) -> Markup {
    if bars.rows.is_empty() {
        return html! { p.dim { "No step has begun." } };
    }
    html! {
        div.timeline role="img" aria-label="Timeline of steps" {
            span {} svg.axis { @for part in 0..=4_i64 { (moment(bars, part)) } }
            @for (step, row) in &bars.rows {
                @let many = row.iter().find(|bar| bar.count > 1);
                span.label title=(step) { (cut_label(step)) @if let Some(bar) = many { span.dim { " ×" (bar.count) } } }
                svg.bars { @for bar in row { (drawn(bars, bar)) } }
            }
        }
        @if bars.left_out > 0 { p.dim { "and " (bars.left_out) " more steps; the tab Steps lists them all" } }
    }
}

/// What a quarter of the width stands for.
fn moment(bars: &Bars, part: i64) -> Markup {
    let passed = |part: i64| {
        let passed = (bars.to - bars.from) * part / 4;
        lasted(lope_model::Span::from_millis(passed.unsigned_abs()))
    };
    // Of a very short run several quarters would say the same.
    if part > 0 && passed(part) == passed(part - 1) {
        return html! {};
    }
    let passed = passed(part);
    let class = if part % 2 == 0 { "half" } else { "quarter" };
    let anchor = match part {
        0 => "start",
        4 => "end",
        _ => "middle",
    };
    html! { text class=(class) x=(format!("{}%", 25 * part)) y="14" text-anchor=(anchor) { "+" (passed) } }
}

fn drawn(bars: &Bars, bar: &Bar) -> Markup {
    // What took no time is seen all the same, also at the end.
    let width = (bars.x(bar.to) - bars.x(bar.from)).max(LEAST);
    let x = bars.x(bar.from).min(100.0 - width);
    let took = lasted(lope_model::Span::from_millis(
        (bar.to - bar.from).unsigned_abs(),
    ));
    let word = if bar.waits {
        "waiting"
    } else {
        bar.status.as_str()
    };
    let title = if bar.count > 1 {
        format!("{} executions in {took}", bar.count)
    } else {
        format!("{word}, {took}")
    };
    html! {
        rect class={ "bar " (word) } x=(format!("{x:.2}%")) y="5" width=(format!("{width:.2}%")) height="14" rx="3" { title { (title) } }
    }
}

fn cut_label(step: &str) -> String {
    let letters: Vec<char> = step.chars().collect();
    if letters.len() <= 24 {
        return cut(step, 200);
    }
    let end: String = letters[letters.len() - 23..].iter().collect();
    format!("…{end}")
}
