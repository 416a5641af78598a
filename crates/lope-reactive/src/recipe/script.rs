//! Recipes that are written in JavaScript: a function that is called with a builder. In: its source;
//! out: the document of the recipe, or the place where building it failed.

use lope_cells::javascript::ScriptHost;
use lope_cells::json::Json;
use lope_cells::transaction::Transaction;
use lope_model::Failure;

const BUILDER: &str = include_str!("builder.js");

/// The document of a recipe that a function makes with the builder it is called with.
pub fn build_recipe(scripts: &mut dyn ScriptHost, source: &str) -> Result<Json, Failure> {
    let source = format!("{}{source}\n)", before_recipe()).into();
    let built = scripts.call(&source, &[], &mut Transaction::default())?;
    built.ok_or_else(|| Failure::new("TypeError", "the function makes no recipe"))
}

/// The line and column in the source of a recipe where building it failed, if the failure tells.
pub fn place_in_recipe(failure: &Failure) -> Option<(u32, u32)> {
    let before = 1 + before_recipe().matches('\n').count() as u32;
    let places = failure.traceback.as_deref().unwrap_or_default().lines();
    let mut places = places.filter_map(|line| {
        let mut parts = line.trim_end_matches(')').rsplit(':');
        let column: u32 = parts.next()?.trim().parse().ok()?;
        let line: u32 = parts.next()?.trim().parse().ok()?;
        Some((line, column))
    });
    let (line, column) = places.find(|(line, _)| *line > before)?;
    Some((line - before, column))
}

/// What stands before the source of a recipe.
fn before_recipe() -> String {
    format!("() => ({BUILDER})(\n")
}
