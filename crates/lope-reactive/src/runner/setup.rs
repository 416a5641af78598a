//! What running a recipe writes: the process cell, the result cell, the recipe's document, the
//! processes of nested recipes, and the entry in the set of what runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{RecipeError, RecipeOptions};
use crate::binding::{bind, redirected, send};
use crate::limit;
use crate::module::Modules;
use crate::process::{
    ProcessOwner, ProcessStart, child_result, children, count_running, depth, is_asked,
    mark_running, mark_stopped, process_of, recorded_type, running_set, source_of,
};
use crate::recipe::{NodeModule, Recipe, RecipeNode};
use lope_cells::address::CellAddress;
use lope_cells::id::EntityId;
use lope_cells::json::{Json, Object};
use lope_cells::link::Link;
use lope_cells::read::Reads;
use lope_cells::schema::Schema;
use lope_cells::transaction::Transaction;
use lope_cells::write::{replace, store_as_is};

/// What a recipe is run with.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) argument: Option<Json>,
    pub(super) result: CellAddress,
    /// The node that starts it, if one does.
    pub(super) owner: Option<ProcessOwner>,
}

impl Launch {
    /// What a node asks for, as a digest: asked for again, it is left as it is.
    fn asked(&self, recipe: &Recipe) -> Option<String> {
        self.owner.as_ref()?;
        let argument = self.argument.clone().unwrap_or_default();
        let asked = [
            ("recipe", Json::from(recipe.id.clone())),
            ("argument", argument),
        ];
        Some(Json::object(asked).digest().to_string())
    }
}

/// Whether a child runs as its node asks for it.
fn is_kept(transaction: &Transaction, process: &CellAddress, asked: Option<&str>) -> bool {
    let set = running_set(&process.space);
    let set = transaction.document(&set.space, &set.id);
    asked.is_some_and(|asked| is_asked(set.as_ref(), &process.id, asked))
}

/// The recipe that the process cell of a result cell records.
pub(super) fn recorded(
    transaction: &Transaction,
    result: &CellAddress,
) -> Result<Option<Arc<Recipe>>, RecipeError> {
    let process = process_of(transaction, result);
    let stored = transaction.document(&process.space, &process.id);
    let Some(id) = recorded_type(stored.as_ref()) else {
        return Ok(None);
    };
    let document = transaction.document(&process.space, &Recipe::stored_as(&id));
    let document = document.ok_or(RecipeError::MissingRecipe(id))?;
    Ok(Some(Arc::new(Recipe::parse(&document)?)))
}

/// Writes everything that makes `recipe` run; fails before anything is written, or a transaction
/// that is then given up.
pub(super) fn set_up(
    transaction: &mut Transaction,
    modules: &Modules,
    recipe: &Recipe,
    launch: Launch,
    options: &RecipeOptions,
) -> Result<(), RecipeError> {
    let warnings = missing_modules(recipe, modules, options)?;
    let process = process_of(transaction, &launch.result);
    let base = launch.result.clone();
    let asked = launch.asked(recipe);
    let stored = transaction.document(&process.space, &process.id);
    let is_same = recorded_type(stored.as_ref()).as_ref() == Some(&recipe.id);
    if is_same && is_kept(transaction, &process, asked.as_deref()) {
        // What people changed in it since stays as they left it.
        set_up_nested(transaction, modules, recipe, &process, options)?;
        return Ok(());
    }
    let argument = launch.argument.map(|argument| redirected(&argument, &base));
    let fields = fields(recipe, stored.as_ref(), argument, &process, &base);
    for (key, value) in fields {
        replace(transaction, &process.key(key), &value)?;
    }
    write_notes(transaction, &process, warnings, is_same)?;
    let spell = CellAddress::document(process.space.clone(), Recipe::stored_as(&recipe.id));
    store_as_is(transaction, &spell, &recipe.document)?;
    let source = source_of(&base);
    replace(transaction, &source, &Link::to(&process, &source).to_json())?;
    replace(transaction, &base, &bind(&recipe.result, &process))?;
    let start = ProcessStart {
        owner: launch.owner.as_ref(),
        asked: asked.as_deref(),
        is_same,
    };
    mark_running(transaction, &process, start)?;
    if depth(transaction, &process.space, &process.id) > limit::PROCESS_DEPTH_MAX {
        return Err(RecipeError::TooDeep);
    }
    if count_running(transaction, &process.space) > limit::PROCESSES_MAX {
        return Err(RecipeError::TooManyProcesses {
            max: limit::PROCESSES_MAX,
        });
    }
    let kept = set_up_nested(transaction, modules, recipe, &process, options)?;
    // One that was never recorded has no children.
    if stored.is_some() && !is_same {
        let known = children(transaction, &process.space, &process.id, |_| true);
        mark_stopped(transaction, &process.space, known.difference(&kept))?;
    }
    Ok(())
}

/// The nodes whose module nobody knows.
fn missing_modules(
    recipe: &Recipe,
    modules: &Modules,
    options: &RecipeOptions,
) -> Result<Vec<(usize, Arc<str>)>, RecipeError> {
    let missing = |(node, part): (usize, &RecipeNode)| match &part.module {
        NodeModule::Ref(name) if modules.resolve(name).is_none() => Some((node, name.clone())),
        _ => None,
    };
    let found: Vec<_> = recipe
        .nodes
        .iter()
        .enumerate()
        .filter_map(missing)
        .collect();
    match found.first() {
        Some((node, name)) if options.strict => Err(RecipeError::MissingModule {
            node: *node,
            name: name.clone(),
        }),
        _ => Ok(found),
    }
}

/// The fields of the process cell.
fn fields(
    recipe: &Recipe,
    stored: Option<&Json>,
    argument: Option<Json>,
    process: &CellAddress,
    result: &CellAddress,
) -> Vec<(&'static str, Json)> {
    let is_same = recorded_type(stored).as_ref() == Some(&recipe.id);
    let kept = |key: &str| stored.and_then(|stored| stored.child(key)).cloned();
    let defaults = recipe.argument_schema.as_ref();
    let defaults = defaults.and_then(Schema::default_value);
    let below = defaults.as_ref();
    let below = below.and_then(|defaults| defaults.child("internal").cloned());
    let seeds = [below, recipe.initial.clone()].into_iter().flatten();
    // What was stored has them in it, as far as nobody took them away since.
    let internal = is_same.then(|| kept("internal")).flatten();
    let internal = internal.or_else(|| seeds.reduce(|below, above| merge(&below, &above)));
    let argument = match argument {
        Some(argument) => Some(defaults.map_or(argument.clone(), |below| merge(&below, &argument))),
        None => kept("argument").or(defaults),
    };
    let empty = || Json::Object(Object::default());
    let spell = CellAddress::document(process.space.clone(), Recipe::stored_as(&recipe.id));
    vec![
        ("TYPE", Json::from(recipe.id.clone())),
        ("spell", Link::to(&spell, process).to_json()),
        ("argument", argument.unwrap_or_else(empty)),
        ("internal", internal.unwrap_or_else(empty)),
        ("resultRef", Link::to(result, process).to_json()),
    ]
}

/// `above` over `below`: objects are merged, anything else and links are replaced.
fn merge(below: &Json, above: &Json) -> Json {
    let is_link = |value: &Json| Link::from_json(value).is_some();
    match (below, above) {
        (Json::Object(lower), Json::Object(upper)) if !is_link(below) && !is_link(above) => {
            let mut merged = lower.clone();
            for (key, value) in upper.iter() {
                let under = merged.get(key);
                let value = under.map_or_else(|| value.clone(), |under| merge(under, value));
                merged.insert(key.clone(), value);
            }
            Json::Object(merged)
        }
        _ => above.clone(),
    }
}

/// Warnings about nodes that are left out; errors of another recipe's nodes go.
fn write_notes(
    transaction: &mut Transaction,
    process: &CellAddress,
    warnings: Vec<(usize, Arc<str>)>,
    is_same: bool,
) -> Result<(), RecipeError> {
    if !is_same {
        transaction.remove(&process.key("errors"))?;
        transaction.remove(&process.key("receipts"))?;
        transaction.remove(&process.key("effects"))?;
    }
    if warnings.is_empty() {
        transaction.remove(&process.key("warnings"))?;
        return Ok(());
    }
    let warnings = warnings.into_iter().map(|(node, name)| {
        let text = format!("'{name}' is no module; the node is left out");
        (node.to_string(), Json::from(text))
    });
    replace(
        transaction,
        &process.key("warnings"),
        &Json::object(warnings),
    )?;
    Ok(())
}

/// Sets up the recipes among the nodes, each into a result cell of its own, and links their outputs
/// to these. Gives their process cells.
fn set_up_nested(
    transaction: &mut Transaction,
    modules: &Modules,
    recipe: &Recipe,
    process: &CellAddress,
    options: &RecipeOptions,
) -> Result<BTreeSet<EntityId>, RecipeError> {
    let mut kept = BTreeSet::new();
    for (node, part) in recipe.nodes.iter().enumerate() {
        let Some(nested) = nested_recipe(part, modules) else {
            continue;
        };
        let owner = ProcessOwner {
            process: process.id.clone(),
            node,
        };
        let result = child_result(&owner, &process.space, &Json::Null);
        let outputs = bind(&part.outputs, process);
        let link = Link::to(&result, process).absolute(process).to_json();
        let launch = Launch {
            argument: Some(bind(&part.inputs, process)),
            result: result.clone(),
            owner: Some(owner),
        };
        set_up(transaction, modules, &nested, launch, options)?;
        send(transaction, &outputs, process, Some(&link))?;
        kept.insert(process_of(transaction, &result).id);
    }
    Ok(kept)
}

pub(super) fn nested_recipe(part: &RecipeNode, modules: &Modules) -> Option<Arc<Recipe>> {
    match &part.module {
        NodeModule::Recipe(recipe) => Some(Arc::clone(recipe)),
        NodeModule::Ref(name) => match modules.resolve(name)? {
            NodeModule::Recipe(recipe) => Some(recipe),
            _ => None,
        },
        _ => None,
    }
}
