//! Workflows: files become definitions and plans, or problems with their places; definitions become
//! drawings.

use std::sync::Arc;

use lope_definition::yaml;

pub use lope_definition::yaml::{ProblemReport, Snippet};
pub use lope_definition::{Definition, Problem, Step};
pub use lope_flow::law::Plan;
pub use lope_graph::{BoxGraph, Format, GraphBox, StepStanding, draw, draw_boxes, standings};

pub use crate::client::DeployedWorkflow;

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
