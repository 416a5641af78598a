//! Workflows: files become definitions and plans, or problems with their places; definitions become
//! drawings.

use std::borrow::Cow;
use std::sync::Arc;

use lope_definition::yaml;
use lope_flow::history::Historian;
use lope_graph::StepStandings;
use lope_store::runs::{LiveStatus, RunRecord, RunStatus};
use lope_why::as_told;

pub use lope_definition::yaml::{ProblemReport, Snippet};
pub use lope_definition::{Definition, Problem, Step};
pub use lope_flow::law::Plan;
pub use lope_graph::{BarKind, Spread, Timeline, TimelineBar, TimelineRow, Zoom};
pub use lope_graph::{
    BoxGraph, Format, GraphBox, StepProgress, StepStanding, draw, draw_boxes, draw_folded, holders,
};

pub use crate::client::DeployedWorkflow;

/// How far each step of a run is, now or as it was after a row of its journal. While nobody works
/// on a run, what was opened waits.
pub fn standings(record: &RunRecord, history: &Historian, at: Option<u64>) -> StepStandings {
    let is_waiting = at.is_none() && record.status == RunStatus::Live(LiveStatus::Queued);
    let told = history.executions().filter_map(|it| match at {
        Some(_) => Some(Cow::Borrowed(it)),
        None => as_told(record, it),
    });
    lope_graph::standings(told, is_waiting)
}

/// The plan of a workflow file's text, or everything that is wrong with it. Steps say that they
/// were written in `file`.
pub fn read(text: &str, file: &str) -> Result<Arc<Plan>, Vec<Problem>> {
    let definition = yaml::read(text, file)?;
    let file = Some(file.into());
    Plan::new(&Definition { file, ..definition }).map(Arc::new)
}

/// The definition of a workflow file's text, if runs of it could be made; else everything that is
/// wrong with it.
pub fn check(text: &str, file: &str) -> Result<Definition, Vec<Problem>> {
    let definition = yaml::read(text, file)?;
    Plan::new(&definition).map(|_| definition)
}
