//! Workflow files: YAML text into a definition, or every problem in it with line, column and a
//! hint.
//!
//! `parse` makes a tree of the text in which everything knows its place; the readers beside it make
//! a definition of the tree; `Definition::validate` has the last word. All problems of a file are
//! found in one go and come in the order in which they stand there. Nothing here reads a file or
//! knows how a run proceeds.

mod blocks;
mod dispatch;
mod document;
mod fields;
mod kinds;
mod leaves;
mod parse;
mod policy;
mod refine;
mod report;
mod scalar;
mod schema;
mod source_map;
mod step;
mod templates;
mod tree;
mod words;
mod workflow;

use lope_expr::TextLocation;

use crate::definition::{Definition, Problem};

pub use document::LocatedDocument;
pub use report::{ProblemReport, Snippet};

/// Largest workflow file, in bytes.
pub const FILE_MAX: usize = 16 * 1024 * 1024;
/// Most values (keys not counted) of one file, aliases counted each time they are used.
pub const NODES_MAX: u64 = 2_000_000;
/// Deepest nesting of lists and maps in a file.
pub const DEPTH_MAX: usize = 4_096;
/// Most problems that one reading reports.
pub const PROBLEMS_MAX: usize = 200;

/// The definition that a file holds. `file_name` only serves hints.
pub fn read(text: &str, file_name: &str) -> Result<Definition, Vec<Problem>> {
    if text.len() > FILE_MAX {
        let message = format!(
            "a workflow file has at most {FILE_MAX} bytes; this one has {}",
            text.len()
        );
        return Err(vec![Problem::new(TextLocation::new(1, 1), "", message)]);
    }
    let parsed = parse::parse(text);
    let Some(tree) = &parsed.tree else {
        return Err(in_order(parsed.problems));
    };
    let (definition, mut problems) = workflow::read(tree, text, file_name);
    problems.extend(parsed.problems);
    if problems.is_empty() {
        Ok(definition)
    } else {
        Err(in_order(problems))
    }
}

fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| (problem.at.line, problem.at.column));
    problems.dedup_by(|a, b| {
        (a.at.line, a.at.column) == (b.at.line, b.at.column) && a.message == b.message
    });
    problems.truncate(PROBLEMS_MAX);
    problems
}
