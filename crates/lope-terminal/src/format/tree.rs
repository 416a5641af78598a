//! A run's steps as a tree of lines: what each is doing, its attempts, its times. Pure: a history
//! and a moment in, lines out.

use std::collections::{HashMap, HashSet};

use anstyle::{AnsiColor, Style};
use lope::runs::{Execution, ExecutionStatus, Historian};
use lope_model::{Failure, Timestamp};

use super::lasted;
use crate::table::shorten;

/// What a step at work turns.
pub const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// Longest message of a failure on a line.
const MESSAGE: usize = 160;
/// Deepest level that is still indented further.
const INDENTED: usize = 12;

/// How the tree is looked at.
#[derive(Clone, Copy, Debug)]
pub struct TreeView {
    pub now: Timestamp,
    /// Where the spinner is; `None`: nothing turns.
    pub frame: Option<usize>,
    /// Most lines.
    pub rows: usize,
    /// Nobody is at work: what was begun waits.
    pub resting: bool,
}

/// The steps of a run at rest.
pub fn step_lines(
    history: &Historian<'_>,
    now: Timestamp,
    rows: usize,
    resting: bool,
) -> Vec<String> {
    TreeView {
        now,
        frame: None,
        rows,
        resting,
    }
    .lines(history)
}

impl TreeView {
    pub fn lines(self, history: &Historian<'_>) -> Vec<String> {
        let all: Vec<&Execution> = history.executions().collect();
        let shown = chosen(&all, self.rows);
        let kept: HashSet<&str> = shown.iter().map(|execution| &*execution.id).collect();
        let mut children: HashMap<&str, Vec<&Execution>> = HashMap::new();
        for execution in &shown {
            children
                .entry(parent(&execution.id, &kept))
                .or_default()
                .push(execution);
        }
        let mut lines = Vec::new();
        let mut open: Vec<(&Execution, usize, &str)> = under(&children, "", 0);
        while let Some((execution, depth, holder)) = open.pop() {
            lines.push(self.line(execution, depth, holder));
            open.extend(under(&children, &execution.id, depth + 1));
        }
        let left = all.len() as u64 + history.dropped() - shown.len() as u64;
        if left > 0 {
            lines.push(format!("  … and {left} more steps"));
        }
        lines
    }

    fn line(self, execution: &Execution, depth: usize, holder: &str) -> String {
        let (mark, style) = self.mark(execution);
        let indent = "  ".repeat(depth.min(INDENTED) + 1);
        let name = execution
            .id
            .strip_prefix(holder)
            .map_or(&*execution.id, |rest| rest.trim_start_matches('/'));
        let dim = Style::new().dimmed();
        let detail = self.detail(execution);
        format!("{indent}{style}{mark}{style:#} {name}  {dim}{detail}{dim:#}")
            .trim_end()
            .to_owned()
    }

    fn mark(self, execution: &Execution) -> (char, Style) {
        let colour = |colour: AnsiColor| colour.on_default();
        match execution.status {
            ExecutionStatus::Running if waits_to_retry(execution) => {
                ('↻', colour(AnsiColor::Yellow))
            }
            ExecutionStatus::Running if self.resting => ('○', Style::new().dimmed()),
            ExecutionStatus::Running => {
                let turning = self
                    .frame
                    .map_or('▶', |frame| SPINNER[frame % SPINNER.len()]);
                (turning, colour(AnsiColor::Blue))
            }
            ExecutionStatus::Done => ('✓', colour(AnsiColor::Green)),
            ExecutionStatus::Failed => ('✗', colour(AnsiColor::Red)),
            ExecutionStatus::Skipped
            | ExecutionStatus::Forgiven
            | ExecutionStatus::Cancelled
            | ExecutionStatus::Lost => ('⊘', Style::new().dimmed()),
        }
    }

    fn detail(self, execution: &Execution) -> String {
        let mut parts = Vec::new();
        let waits = self.resting && execution.status == ExecutionStatus::Running;
        if execution.status != ExecutionStatus::Skipped && !waits {
            let end = execution.finished_at.unwrap_or(self.now);
            parts.push(lasted(end.since(execution.opened_at)));
        }
        let attempts = execution
            .attempts
            .last()
            .map_or(0, |attempt| attempt.number);
        if attempts > 1 {
            parts.push(format!("attempt {attempts}"));
        }
        match execution.status {
            ExecutionStatus::Failed | ExecutionStatus::Forgiven => {
                parts.extend(execution.failure.as_ref().map(said));
            }
            ExecutionStatus::Running if waits_to_retry(execution) => {
                parts.extend(
                    execution
                        .attempts
                        .last()
                        .and_then(|last| last.failure.as_ref())
                        .map(said),
                );
            }
            ExecutionStatus::Cancelled | ExecutionStatus::Skipped => {
                parts.push(execution.status.as_str().to_owned());
            }
            ExecutionStatus::Running | ExecutionStatus::Done | ExecutionStatus::Lost => {}
        }
        parts.join("  ")
    }
}

/// A failure on one line.
pub fn said(failure: &Failure) -> String {
    shorten(&format!("{}: {}", failure.kind, failure.message), MESSAGE)
}

/// Its last attempt has failed, and another will come.
fn waits_to_retry(execution: &Execution) -> bool {
    let failed = |status| matches!(status, ExecutionStatus::Failed | ExecutionStatus::Lost);
    execution
        .attempts
        .last()
        .is_some_and(|last| failed(last.status))
}

/// The nearest execution around one, among those that are shown.
fn parent<'a>(id: &'a str, kept: &HashSet<&str>) -> &'a str {
    let mut around = id;
    while let Some((outer, _)) = around.rsplit_once('/') {
        if kept.contains(outer) {
            return outer;
        }
        around = outer;
    }
    ""
}

fn under<'a>(
    children: &HashMap<&str, Vec<&'a Execution>>,
    holder: &'a str,
    depth: usize,
) -> Vec<(&'a Execution, usize, &'a str)> {
    let held = children.get(holder).into_iter().flatten().rev();
    held.map(|execution| (*execution, depth, holder)).collect()
}

/// Which executions are shown: those at work, those that failed, then the youngest; in the order of
/// their opening.
fn chosen<'a>(all: &[&'a Execution], rows: usize) -> Vec<&'a Execution> {
    if all.len() <= rows {
        return all.to_vec();
    }
    let rank = |execution: &Execution| match execution.status {
        ExecutionStatus::Running => 0,
        ExecutionStatus::Failed => 1,
        ExecutionStatus::Done | ExecutionStatus::Skipped | ExecutionStatus::Forgiven => 2,
        ExecutionStatus::Cancelled | ExecutionStatus::Lost => 2,
    };
    let mut order: Vec<usize> = (0..all.len()).collect();
    // Whoever holds others comes before them: outer ones were opened first.
    order.sort_by_key(|index| {
        let execution = all[*index];
        let youngest_first = if rank(execution) == 0 {
            *index
        } else {
            all.len() - index
        };
        (rank(execution), youngest_first)
    });
    order.truncate(rows.saturating_sub(1));
    order.sort_unstable();
    order.into_iter().map(|index| all[index]).collect()
}
