//! Recipes: graphs of modules over the cells of a process, as documents.
//!
//! `{"argumentSchema"?, "resultSchema"?, "initial"?: {"internal"}, "result", "nodes": [{"module",
//! "inputs", "outputs"}]}`. Inside, `{"$alias": {"path": […]}}`, or `{"$alias": "internal/count"}`, stands
//! for a cell of the process the recipe runs in. A recipe's id is the digest of its document, so that an edited recipe is
//! another one.

mod builder;
mod check;
pub mod script;

use std::sync::Arc;

use thiserror::Error;

use lope_cells::id::EntityId;
use lope_cells::json::{Array, Json, Object};
use lope_cells::path::CellPath;
use lope_cells::schema::Schema;

pub use builder::RecipeBuilder;

/// A recipe that was read and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// The digest of the document.
    pub id: Arc<str>,
    pub document: Json,
    pub argument_schema: Option<Schema>,
    /// The internal state of a process that starts.
    pub initial: Option<Json>,
    /// What the result cell holds, with aliases.
    pub result: Json,
    pub nodes: Vec<RecipeNode>,
}

/// One module with what it reads and what it writes.
#[derive(Clone, Debug, PartialEq)]
pub struct RecipeNode {
    pub module: NodeModule,
    pub inputs: Json,
    pub outputs: Json,
}

/// What a node does.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeModule {
    /// Whatever the registry has under this name.
    Ref(Arc<str>),
    Function(FunctionModule),
    /// A factory in Rust by name, which sees cells instead of values.
    Raw(Arc<str>),
    /// Its outputs are its inputs.
    Passthrough,
    /// A recipe that runs in a process of its own.
    Recipe(Arc<Recipe>),
    /// A durable run of the workflow with this name, whose result lands in a cell.
    Workflow(Arc<str>),
}

/// A function from values to a value.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionModule {
    pub code: FunctionCode,
    /// What the inputs are read through.
    pub argument_schema: Option<Schema>,
    /// Whether it is called with the event and the rest of its inputs.
    pub is_handler: bool,
}

/// Where a function comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionCode {
    /// JavaScript source of a function.
    JavaScript(Arc<str>),
    /// A function in Rust, by its name in the registry.
    Native(Arc<str>),
}

/// A document that is no recipe.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{at}: {message}", at = if .at.is_root() { "the recipe".to_owned() } else { .at.to_string() })]
pub struct BadRecipe {
    /// Where in the document.
    pub at: CellPath,
    pub message: String,
}

/// What a recipe may say, and what a node of one may.
const RECIPE_FIELDS: &str =
    "argumentSchema, resultSchema, initial, result, nodes, name, description";
const NODE_FIELDS: &str = "module, inputs, outputs, name, description";

/// The types of modules.
const TYPES: &str = "javascript, native, raw, ref, passthrough, recipe, workflow";

/// Most nodes that a recipe may have, nested recipes not counted.
pub const NODES_MAX: usize = 100_000;

impl Recipe {
    /// Reads a recipe.
    pub fn parse(document: &Json) -> Result<Self, BadRecipe> {
        Self::parse_at(document, &CellPath::root())
    }

    /// Everything that is wrong with a recipe, in the order in which it stands there. Stricter than
    /// reading: what is stored and runs goes on.
    pub fn problems(document: &Json) -> Vec<BadRecipe> {
        let mut found = Vec::new();
        check::problems_at(document, &CellPath::root(), &mut found);
        found
    }

    /// The id of the document that a recipe is stored in.
    pub fn stored_as(id: &str) -> EntityId {
        EntityId::of_cause(&Json::object([("recipe", Json::from(id))]))
    }

    fn parse_at(document: &Json, at: &CellPath) -> Result<Self, BadRecipe> {
        let nodes = nodes_in(document, at)?;
        if let Some(unknown) = unknown_fields(document, at, "recipe", RECIPE_FIELDS).next() {
            return Err(unknown);
        }
        let place = |index: usize| at.join("nodes").join(index.to_string());
        let nodes = nodes.iter().enumerate();
        let nodes = nodes.map(|(index, node)| RecipeNode::parse(node, &place(index)));
        Ok(Self {
            id: document.digest().to_string().into(),
            document: document.clone(),
            argument_schema: document.child("argumentSchema").cloned().map(Schema::new),
            initial: document
                .child("initial")
                .and_then(|initial| initial.child("internal"))
                .cloned(),
            result: document.child("result").cloned().unwrap_or_default(),
            nodes: nodes.collect::<Result<_, _>>()?,
        })
    }
}

impl RecipeNode {
    fn parse(node: &Json, at: &CellPath) -> Result<Self, BadRecipe> {
        let module = node.child("module");
        let module = module.ok_or_else(|| bad(&at.join("module"), "a module expected"))?;
        if let Some(unknown) = unknown_fields(node, at, "node", NODE_FIELDS).next() {
            return Err(unknown);
        }
        let part = |key: &str| node.child(key).cloned().unwrap_or_default();
        Ok(Self {
            module: NodeModule::parse_at(module, &at.join("module"))?,
            inputs: part("inputs"),
            outputs: part("outputs"),
        })
    }
}

impl NodeModule {
    /// Reads a module.
    pub fn parse(module: &Json) -> Result<Self, BadRecipe> {
        Self::parse_at(module, &CellPath::root())
    }

    fn parse_at(module: &Json, at: &CellPath) -> Result<Self, BadRecipe> {
        let kind = module.child("type").and_then(Json::as_str);
        let kind = kind.ok_or_else(|| bad(&at.join("type"), "the type of a module expected"))?;
        let implementation = at.join("implementation");
        let given = || {
            let given = module.child("implementation");
            let message = "missing: what the module does";
            given.ok_or_else(|| bad(&implementation, message))
        };
        let text = || {
            let text = given()?.as_str().map(Arc::from);
            text.ok_or_else(|| bad(&implementation, "a text expected"))
        };
        Ok(match kind {
            "ref" => Self::Ref(text()?),
            "raw" => Self::Raw(text()?),
            "passthrough" => Self::Passthrough,
            "workflow" => Self::Workflow(text()?),
            "javascript" => Self::function(module, FunctionCode::JavaScript(text()?)),
            "native" => Self::function(module, FunctionCode::Native(text()?)),
            "recipe" => Self::Recipe(Arc::new(Recipe::parse_at(given()?, &implementation)?)),
            other => {
                let message = format!("'{other}' is no type of a module; there is {TYPES}");
                return Err(bad(&at.join("type"), &message));
            }
        })
    }

    /// What its type is called.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Ref(_) => "ref",
            Self::Raw(_) => "raw",
            Self::Passthrough => "passthrough",
            Self::Workflow(_) => "workflow",
            Self::Recipe(_) => "recipe",
            Self::Function(function) => match function.code {
                FunctionCode::JavaScript(_) => "javascript",
                FunctionCode::Native(_) => "native",
            },
        }
    }

    fn function(module: &Json, code: FunctionCode) -> Self {
        let wrapper = module.child("wrapper").and_then(Json::as_str);
        Self::Function(FunctionModule {
            code,
            argument_schema: module.child("argumentSchema").cloned().map(Schema::new),
            is_handler: wrapper == Some("handler"),
        })
    }
}

/// The path of `{"$alias": {"path": […]}}`, which may be a text too: `{"$alias": "internal/count"}`.
pub fn alias(binding: &Json) -> Option<CellPath> {
    let object = binding.as_object().filter(|object| object.len() == 1)?;
    match object.get("$alias")? {
        Json::Text(path) => Some(path.split('/').collect()),
        alias => CellPath::from_json(alias.child("path")?),
    }
}

/// Whether a value is a recipe, so that the aliases in it are its own.
pub fn is_recipe(value: &Json) -> bool {
    let has = |key: &str| value.child(key).is_some();
    value.child("nodes").and_then(Json::as_array).is_some() && has("result")
}

fn nodes_in<'a>(document: &'a Json, at: &CellPath) -> Result<&'a Array, BadRecipe> {
    let fields = document.as_object();
    let fields = fields.ok_or_else(|| bad(at, "an object expected"))?;
    let at = at.join("nodes");
    let nodes = fields.get("nodes").and_then(Json::as_array);
    let nodes = nodes.ok_or_else(|| bad(&at, "a list of nodes expected"))?;
    if nodes.len() > NODES_MAX {
        let message = format!("{} nodes, more than {NODES_MAX} are allowed", nodes.len());
        return Err(bad(&at, &message));
    }
    Ok(nodes)
}

/// The fields of a recipe, a node or a module that it does not have.
fn unknown_fields(
    of: &Json,
    at: &CellPath,
    what: &'static str,
    known: &'static str,
) -> impl Iterator<Item = BadRecipe> {
    let fields = of.as_object().into_iter().flat_map(Object::keys);
    fields
        .filter(|key| !known.split(", ").any(|known| *known == ***key))
        .map(move |key| {
            let message = format!("a {what} has no '{key}'; it has {known}");
            bad(&at.join(key.clone()), &message)
        })
}

fn bad(at: &CellPath, message: &str) -> BadRecipe {
    BadRecipe {
        at: at.clone(),
        message: message.to_owned(),
    }
}
