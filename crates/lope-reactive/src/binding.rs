//! Bindings: what a recipe says about inputs and outputs, tied to the cells of one process.
//!
//! An alias becomes a redirect to a cell of the process. A recipe inside a binding is left as it
//! is: its aliases are its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::recipe::{alias, is_recipe};
use lope_cells::address::CellAddress;
use lope_cells::error::WriteError;
use lope_cells::json::Json;
use lope_cells::link::{Link, rewrite};
use lope_cells::path::CellPath;
use lope_cells::project::is_stream;
use lope_cells::read::{Extent, Reads};
use lope_cells::resolve::{Follow, resolve};
use lope_cells::schema::Schema;
use lope_cells::transaction::Transaction;

/// `binding` with its aliases tied to the cells of `process`.
pub fn bind(binding: &Json, process: &CellAddress) -> Json {
    bound(binding, process).unwrap_or_else(|| binding.clone())
}

fn bound(binding: &Json, process: &CellAddress) -> Option<Json> {
    if let Some(path) = alias(binding) {
        let link = Link {
            id: Some(process.id.clone()),
            space: Some(process.space.clone()),
            path,
            redirect: true,
            ..Link::default()
        };
        return Some(link.to_json());
    }
    if is_recipe(binding) {
        return None;
    }
    rewrite(binding, &mut |child, _| bound(child, process))
}

/// `value` with every link in it made a redirect, as an argument has them.
pub fn redirected(value: &Json, base: &CellAddress) -> Json {
    fn change(value: &Json, base: &CellAddress) -> Option<Json> {
        if let Some(link) = Link::from_json(value) {
            return Some(link.absolute(base).redirecting().to_json());
        }
        if is_recipe(value) {
            return None;
        }
        rewrite(value, &mut |child, _| change(child, base))
    }
    change(value, base).unwrap_or_else(|| value.clone())
}

/// The addresses of all links in a bound binding, with where each stands in it.
pub fn links_in(binding: &Json, base: &CellAddress) -> Vec<(CellPath, CellAddress)> {
    let mut found = Vec::new();
    collect(binding, base, &CellPath::root(), &mut found);
    found
}

fn collect(
    binding: &Json,
    base: &CellAddress,
    at: &CellPath,
    found: &mut Vec<(CellPath, CellAddress)>,
) {
    if let Some(link) = Link::from_json(binding) {
        found.push((at.clone(), link.target(base)));
        return;
    }
    if is_recipe(binding) {
        return;
    }
    rewrite(binding, &mut |child, key: &Arc<str>| {
        collect(child, base, &at.join(key.clone()), found);
        None
    });
}

/// The recipes that stand in a binding as values.
pub fn recipes_in(binding: &Json) -> Vec<Json> {
    fn collect(binding: &Json, found: &mut Vec<Json>) {
        if is_recipe(binding) {
            return found.push(binding.clone());
        }
        rewrite(binding, &mut |child, _| {
            collect(child, found);
            None
        });
    }
    let mut found = Vec::new();
    collect(binding, &mut found);
    found
}

/// The stream of the own space whose events a node handles, and where its link stands in the bound
/// inputs: `$event`, or else the first that is not asked for as a cell, to send to.
pub fn stream_in(
    transaction: &mut Transaction,
    inputs: &Json,
    base: &CellAddress,
    schema: Option<&Schema>,
) -> Option<(CellPath, CellAddress)> {
    let links = links_in(inputs, base).into_iter();
    let streams = links.filter_map(|(at, target)| {
        let found = resolve(transaction, &target, Follow::Every).ok()?;
        transaction.record(&found.address, Extent::Shape);
        let is_stream = found.value.as_ref().is_some_and(is_stream);
        let is_own = found.address.space == base.space;
        (is_stream && is_own).then_some((at, found.address))
    });
    let streams: Vec<(CellPath, CellAddress)> = streams.collect();
    let first_key = |at: &CellPath| at.keys().first().cloned().unwrap_or_default();
    let event = streams.iter().find(|(at, _)| &*first_key(at) == "$event");
    let is_handled = |(at, _): &&(CellPath, CellAddress)| {
        let key = first_key(at);
        &*key != "$ctx" && !schema.is_some_and(|schema| schema.asks_for_cell(&key))
    };
    let handled = event.or_else(|| streams.iter().find(is_handled));
    handled.or(streams.first()).cloned()
}

/// Writes a result where the bound outputs say; what is undefined is removed.
pub fn send(
    transaction: &mut Transaction,
    outputs: &Json,
    base: &CellAddress,
    value: Option<&Json>,
) -> Result<(), WriteError> {
    if let Some(link) = Link::from_json(outputs) {
        let target = link.target(base);
        return match value {
            Some(value) => transaction.set(&target, value),
            None => transaction.remove(&target),
        };
    }
    let keys: Vec<Arc<str>> = match outputs {
        Json::Object(object) => object.keys().cloned().collect(),
        Json::Array(array) => (0..array.len())
            .map(|index| index.to_string().into())
            .collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) => Vec::new(),
    };
    for key in keys {
        if let Some(output) = outputs.child(&key) {
            let part = value.and_then(|value| value.child(&key));
            send(transaction, output, base, part)?;
        }
    }
    Ok(())
}

/// Where the part at `path` of a result goes.
pub fn place_of(outputs: &Json, base: &CellAddress, path: &[Arc<str>]) -> Option<CellAddress> {
    if let Some(link) = Link::from_json(outputs) {
        let target = link.target(base);
        return Some(target.with_path(target.path.extend(path)));
    }
    let (key, rest) = path.split_first()?;
    place_of(outputs.child(key)?, base, rest)
}

/// The cells that bound outputs name.
pub fn targets(outputs: &Json, base: &CellAddress) -> BTreeSet<CellAddress> {
    let links = links_in(outputs, base).into_iter();
    links.map(|(_, target)| target).collect()
}
