//! Everything that is wrong with a recipe, for whoever writes it: all of it, each with its place.

use std::sync::Arc;

use lope_cells::json::Json;
use lope_cells::link::Link;
use lope_cells::path::CellPath;

use super::{
    BadRecipe, NODE_FIELDS, NodeModule, RECIPE_FIELDS, alias, bad, is_recipe, nodes_in,
    unknown_fields,
};

/// Goes on behind the first problem: every node by itself, nested recipes within.
pub(super) fn problems_at(document: &Json, at: &CellPath, found: &mut Vec<BadRecipe>) {
    match nodes_in(document, at) {
        Err(problem) => found.push(problem),
        Ok(nodes) => nodes.iter().enumerate().for_each(|(index, node)| {
            node_problems(node, &at.join("nodes").join(index.to_string()), found);
        }),
    }
    found.extend(unknown_fields(document, at, "recipe", RECIPE_FIELDS));
    field_problems(document, at, found);
    let result = document.child("result").unwrap_or(&Json::Null);
    alias_problems(result, &at.join("result"), found);
}

fn node_problems(node: &Json, at: &CellPath, found: &mut Vec<BadRecipe>) {
    found.extend(unknown_fields(node, at, "node", NODE_FIELDS));
    let part = |key: &str| node.child(key).unwrap_or(&Json::Null);
    match node.child("module") {
        None => found.push(bad(&at.join("module"), "a module expected")),
        Some(module) => {
            if let Some(name) = module_problems(module, &at.join("module"), found) {
                input_problems(&name, part("inputs"), &at.join("inputs"), found);
            }
        }
    }
    for key in ["inputs", "outputs"] {
        alias_problems(part(key), &at.join(key), found);
    }
}

/// What a built-in cannot do without, unless one cell holds all of its inputs.
fn input_problems(name: &str, inputs: &Json, at: &CellPath, found: &mut Vec<BadRecipe>) {
    let is_cell = |value: &Json| alias(value).is_some() || Link::from_json(value).is_some();
    if is_cell(inputs) {
        return;
    }
    let needed: &[&str] = match name {
        "ifElse" => &["condition"],
        "map" | "filter" => &["list", "op"],
        "effect" => &["name", "request"],
        _ => &[],
    };
    for key in needed {
        match inputs.child(key) {
            None => found.push(bad(at, &format!("`{name}` needs `{key}`"))),
            Some(op) if *key == "op" && op.as_object().is_some() && !is_cell(op) => {
                if is_recipe(op) {
                    problems_at(op, &at.join("op"), found);
                } else {
                    let message = "a recipe expected, with `nodes` and `result`";
                    found.push(bad(&at.join("op"), message));
                }
            }
            Some(_) => {}
        }
    }
}

/// Aliases that lead nowhere: a process cell has `argument`, `internal` and `resultRef`.
fn alias_problems(binding: &Json, at: &CellPath, found: &mut Vec<BadRecipe>) {
    if binding.child("$alias").is_some() {
        let path = alias(binding);
        let first = path.as_ref().and_then(|path| path.keys().first());
        if !first.is_some_and(|first| ["argument", "internal", "resultRef"].contains(&&**first)) {
            let message =
                "an alias is `argument/…`, `internal/…` or {path: [\"internal\", …]}, alone";
            found.push(bad(&at.join("$alias"), message));
        }
        return;
    }
    if is_recipe(binding) {
        return;
    }
    match binding {
        Json::Array(array) => array.iter().enumerate().for_each(|(index, child)| {
            alias_problems(child, &at.join(index.to_string()), found);
        }),
        Json::Object(object) => object
            .iter()
            .for_each(|(key, child)| alias_problems(child, &at.join(key.clone()), found)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) => {}
    }
}

/// The fields of a recipe besides its nodes that are not what they have to be.
fn field_problems(document: &Json, at: &CellPath, found: &mut Vec<BadRecipe>) {
    for key in ["name", "description"] {
        if document
            .child(key)
            .is_some_and(|value| value.as_str().is_none())
        {
            found.push(bad(&at.join(key), "a text expected"));
        }
    }
    for key in ["argumentSchema", "resultSchema"] {
        if let Some(schema) = document.child(key) {
            schema_problems(schema, &at.join(key), found);
        }
    }
    let at = at.join("initial");
    match document.child("initial") {
        None => {}
        Some(Json::Object(initial)) => {
            let others = initial.keys().filter(|key| &***key != "internal");
            let message = "`initial` has `internal` and nothing else";
            found.extend(others.map(|key| bad(&at.join(key.clone()), message)));
            let internal = initial.get("internal");
            if internal.is_some_and(|internal| internal.as_object().is_none()) {
                found.push(bad(&at.join("internal"), "an object expected"));
            }
        }
        Some(_) => found.push(bad(&at, "an object with `internal` expected")),
    }
}

/// What is wrong with a module. The name of what it refers to, if it does.
fn module_problems(module: &Json, at: &CellPath, found: &mut Vec<BadRecipe>) -> Option<Arc<str>> {
    const KNOWN: &str = "type, implementation, wrapper, argumentSchema, resultSchema";
    let is_recipe = module.child("type").and_then(Json::as_str) == Some("recipe");
    let mut name = None;
    match module.child("implementation") {
        Some(nested) if is_recipe => problems_at(nested, &at.join("implementation"), found),
        _ => match NodeModule::parse_at(module, at) {
            Ok(NodeModule::Ref(to)) => name = Some(to),
            parsed => found.extend(parsed.err()),
        },
    }
    found.extend(unknown_fields(module, at, "module", KNOWN));
    match module.child("wrapper") {
        None => {}
        Some(Json::Text(wrapper)) if &**wrapper == "handler" => {}
        Some(other) => {
            let message = format!("{other} is no wrapper; there is \"handler\"");
            found.push(bad(&at.join("wrapper"), &message));
        }
    }
    for key in ["argumentSchema", "resultSchema"] {
        if let Some(schema) = module.child(key) {
            schema_problems(schema, &at.join(key), found);
        }
    }
    name
}

/// What a type may be in a schema.
const SCHEMA_TYPES: [&str; 7] = [
    "null", "boolean", "object", "array", "number", "integer", "string",
];

/// What can be no schema: one is an object or a boolean, and so are the schemas in it.
fn schema_problems(schema: &Json, at: &CellPath, found: &mut Vec<BadRecipe>) {
    let fields = match schema {
        Json::Bool(_) => return,
        Json::Object(fields) => fields,
        Json::Null | Json::Number(_) | Json::Text(_) | Json::Array(_) => {
            return found.push(bad(at, "a schema expected: an object, true or false"));
        }
    };
    if let Some(kind) = fields.get("type") {
        let kinds = kind
            .as_array()
            .map_or(vec![kind], |list| list.iter().collect());
        let is_type = |kind: &&Json| {
            kind.as_str()
                .is_some_and(|kind| SCHEMA_TYPES.contains(&kind))
        };
        if !kinds.iter().all(is_type) {
            let message = format!("{kind} is no type of a schema");
            found.push(bad(&at.join("type"), &message));
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(part) = fields.get(key) {
            schema_problems(part, &at.join(key), found);
        }
    }
    for key in ["properties", "$defs"] {
        let at = at.join(key);
        match fields.get(key) {
            None => {}
            Some(Json::Object(parts)) => parts
                .iter()
                .for_each(|(name, part)| schema_problems(part, &at.join(name.clone()), found)),
            Some(_) => found.push(bad(&at, "an object of schemas expected")),
        }
    }
    let at = at.join("anyOf");
    match fields.get("anyOf") {
        None => {}
        Some(Json::Array(parts)) => parts.iter().enumerate().for_each(|(index, part)| {
            schema_problems(part, &at.join(index.to_string()), found);
        }),
        Some(_) => found.push(bad(&at, "a list of schemas expected")),
    }
}
