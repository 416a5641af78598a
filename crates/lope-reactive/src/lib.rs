//! The reactive runner: recipes over cells, links and streams.
//!
//! A recipe is a graph of functions that read cells and write cells; what cells, links and
//! transactions are, and which computation runs next, is in `lope-cells`. `machine` keeps one space up
//! to date: events and edits in, waves of changes out. `recipe` reads recipes,
//! `process` knows the cells they run in, `module` what they are made of, and `runner` runs them. `hosting` puts a space on a store.
//!
//! Nothing here reads a clock, a file or a random number; only `hosting` reaches a store.

pub mod binding;
pub mod builtin;
pub mod hosting;
pub mod limit;
pub mod machine;
pub mod module;
pub mod process;
pub mod recipe;
pub mod runner;

pub use lope_cells::{
    Cell, CellAddress, CellPath, EntityId, Extent, Json, Link, Projected, Reads, Schema, SpaceName,
    Spaces, Transaction,
};
pub use lope_cells::{javascript, scheduler};
pub use recipe::{Recipe, RecipeBuilder};
pub use runner::RecipeRunner;
