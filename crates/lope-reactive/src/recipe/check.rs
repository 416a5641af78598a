//! Everything that is wrong with a recipe, for whoever writes it: all of it, each with its place.

use lope_cells::json::Json;
use lope_cells::path::CellPath;

use super::{BadRecipe, Recipe, RecipeNode, alias, bad, is_recipe};

/// Goes on behind the first problem: every node by itself, nested recipes within.
pub(super) fn problems_at(document: &Json, at: &CellPath, found: &mut Vec<BadRecipe>) {
    let without_nodes = match document {
        Json::Object(fields) if fields.get("nodes").and_then(Json::as_array).is_some() => {
            let mut fields = fields.clone();
            fields.insert("nodes".into(), Json::array([]));
            Json::Object(fields)
        }
        other => other.clone(),
    };
    found.extend(Recipe::parse_at(&without_nodes, at).err());
    field_problems(document, at, found);
    let nodes = document.child("nodes").and_then(Json::as_array);
    for (index, node) in nodes.into_iter().flat_map(|nodes| nodes.iter().enumerate()) {
        let at = at.join("nodes").join(index.to_string());
        let module = node.child("module");
        let is_nested = module
            .and_then(|module| module.child("type"))
            .and_then(Json::as_str)
            == Some("recipe");
        match module.and_then(|module| module.child("implementation")) {
            Some(nested) if is_nested => {
                problems_at(nested, &at.join("module").join("implementation"), found);
            }
            _ => found.extend(RecipeNode::parse(node, &at).err()),
        }
        if let Some(module) = module {
            module_problems(module, &at.join("module"), found);
        }
        for part in ["inputs", "outputs"] {
            let binding = node.child(part).unwrap_or(&Json::Null);
            alias_problems(binding, &at.join(part), found);
        }
    }
    let result = document.child("result").unwrap_or(&Json::Null);
    alias_problems(result, &at.join("result"), found);
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
        text_problems(document, at, key, found);
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

fn text_problems(of: &Json, at: &CellPath, key: &str, found: &mut Vec<BadRecipe>) {
    if of.child(key).is_some_and(|value| value.as_str().is_none()) {
        found.push(bad(&at.join(key), "a text expected"));
    }
}

/// What stands beside the type and the implementation of a module.
fn module_problems(module: &Json, at: &CellPath, found: &mut Vec<BadRecipe>) {
    const KNOWN: [&str; 5] = [
        "type",
        "implementation",
        "wrapper",
        "argumentSchema",
        "resultSchema",
    ];
    let Some(fields) = module.as_object() else {
        return;
    };
    let unknown = fields.keys().filter(|key| !KNOWN.contains(&&***key));
    found.extend(unknown.map(|key| bad(&at.join(key.clone()), "a module has no such field")));
    match fields.get("wrapper") {
        None => {}
        Some(Json::Text(wrapper)) if &**wrapper == "handler" => {}
        Some(other) => {
            let message = format!("{other} is no wrapper; there is \"handler\"");
            found.push(bad(&at.join("wrapper"), &message));
        }
    }
    for key in ["argumentSchema", "resultSchema"] {
        if let Some(schema) = fields.get(key) {
            schema_problems(schema, &at.join(key), found);
        }
    }
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
        let is_type = |kind: &Json| {
            kind.as_str()
                .is_some_and(|kind| SCHEMA_TYPES.contains(&kind))
        };
        let is_known = kind
            .as_array()
            .map_or_else(|| is_type(kind), |list| list.iter().all(is_type));
        if !is_known {
            found.push(bad(
                &at.join("type"),
                &format!("{kind} is no type of a schema"),
            ));
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
