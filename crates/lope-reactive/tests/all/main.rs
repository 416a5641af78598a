//! Tests of the reactive runner, one module a subject.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bounds;
mod cells_alone;
mod chains;
mod chaos_reactive;
mod checks;
mod clock_steps;
mod document_rows;
mod effects;
mod elsewhere;
mod events;
#[allow(dead_code, reason = "the tests of cells use more of it")]
#[path = "../../../lope-cells/tests/all/fixture.rs"]
mod fixture;
mod host;
mod hosting;
mod ids;
mod modules;
mod moments;
mod native_loops;
mod oracle;
mod pools;
mod posts;
mod promises;
mod recipes;
mod reports;
mod scheduling;
mod scripts;
mod sheet;
mod stops;
mod stores;
mod worked_examples;
