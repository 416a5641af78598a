//! The JSON Schema of an input: kept as it is written; mistakes that would make it mean nothing are
//! found here.
//!
//! Whether an input fits the schema is asked of `json_schema::validate`, where inputs come in.

use std::collections::HashMap;

use lope_model::{Value, limit};
use lope_values::TextLocation;

use super::fields::WorkflowReader;
use super::tree::{NodeId, Shape, YamlEntry};
use crate::json_schema::{keyword, reference_parts};

const TYPES: [(&str, ()); 7] = [
    ("null", ()),
    ("boolean", ()),
    ("object", ()),
    ("array", ()),
    ("number", ()),
    ("string", ()),
    ("integer", ()),
];
/// Keywords whose value is a schema.
const ONE: [&str; 8] = [
    "items",
    "additionalProperties",
    "not",
    "contains",
    "propertyNames",
    "if",
    "then",
    "else",
];
/// Keywords whose value is a list of schemas.
const SEVERAL: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is a map of schemas.
const NAMED: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];

/// Keywords whose value is a count.
const COUNTS: [&str; 8] = [
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
];
/// Keywords whose value is any number.
const NUMBERS: [&str; 4] = ["exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"];

/// What is found on the way through a schema.
struct SchemaWalk {
    root: NodeId,
    /// Schemas that are still to be looked at.
    open: Vec<NodeId>,
    /// Where a reference stands, and the schema that it is a word of.
    references: Vec<(NodeId, TextLocation)>,
    /// Schemas that say the same value must also fit another one.
    same_value: Vec<(NodeId, NodeId)>,
}

impl WorkflowReader<'_> {
    pub(super) fn input(&mut self, id: NodeId) {
        if self.tree.node(id).depth as usize > limit::DEPTH_MAX {
            return self.refuse(
                self.tree.at(id),
                format!("values are nested at most {} levels deep", limit::DEPTH_MAX),
            );
        }
        let mut walk = SchemaWalk {
            root: id,
            open: vec![id],
            references: Vec::new(),
            same_value: Vec::new(),
        };
        while let Some(id) = walk.open.pop() {
            self.schema(id, &mut walk);
        }
        for at in walk.endless() {
            self.refuse(at, "'$ref' refers to itself without end");
        }
        self.definition.input = self.tree.value(id);
    }

    /// Checks one schema and finds those inside it.
    fn schema(&mut self, id: NodeId, walk: &mut SchemaWalk) {
        if let Shape::Plain(Value::Bool(_)) = self.tree.shape(id) {
            return;
        }
        let Shape::Map(entries) = self.tree.shape(id) else {
            return self.mismatch(id, "input", "a JSON Schema");
        };
        for entry in entries {
            let key = &*entry.key;
            if ONE.contains(&key) {
                walk.open.push(entry.value);
            } else if SEVERAL.contains(&key) {
                let schemas = self.items(entry.value, key);
                walk.open.extend(schemas);
                if key == "allOf" {
                    walk.same_value
                        .extend(schemas.iter().map(|schema| (id, *schema)));
                }
            } else if NAMED.contains(&key) {
                self.named(entry, walk);
            } else if key == "$ref" {
                if let Some(target) = self.referred(entry.value, walk.root) {
                    walk.references.push((id, self.tree.at(entry.value)));
                    walk.same_value.push((id, target));
                }
            } else if !keyword::is_known(key) {
                self.refuse(
                    entry.at,
                    format!("'{key}' is no word of a JSON Schema that Lope enforces"),
                );
            } else {
                self.rule(key, entry.value);
            }
        }
    }

    /// A keyword whose value holds no schema.
    fn rule(&mut self, key: &str, value: NodeId) {
        match key {
            "type" => self.types_of(value),
            "required" => self.names(value, key),
            "dependentRequired" => {
                let asking = self
                    .map(value, key)
                    .map_or(&[][..], |fields| fields.entries);
                asking.iter().for_each(|entry| self.names(entry.value, key));
            }
            "pattern" => self.pattern_of(value),
            "format" => {
                self.word(value, key, &keyword::FORMATS.map(|format| (format, ())));
            }
            "enum" => {
                self.items(value, key);
            }
            "uniqueItems" => {
                self.boolean(value, key);
            }
            "multipleOf" => self.number(value, key, "a number above 0", |number| number > 0.0),
            _ if NUMBERS.contains(&key) => self.number(value, key, "a number", |_| true),
            _ if COUNTS.contains(&key) => {
                self.count::<i64>(value, key, 0);
            }
            // `const` takes everything, as do the words that only describe.
            _ => {}
        }
    }

    fn named(&mut self, entry: &YamlEntry, walk: &mut SchemaWalk) {
        let key = &*entry.key;
        let named = self
            .map(entry.value, key)
            .map_or(&[][..], |fields| fields.entries);
        if key == "patternProperties" {
            named
                .iter()
                .for_each(|entry| self.readable(&entry.key, entry.at));
        }
        walk.open.extend(named.iter().map(|entry| entry.value));
    }

    fn names(&mut self, id: NodeId, key: &str) {
        for item in self.items(id, key) {
            self.text(*item, key);
        }
    }

    fn number(&mut self, id: NodeId, key: &str, expected: &str, fits: impl Fn(f64) -> bool) {
        let number = match self.tree.shape(id) {
            Shape::Plain(Value::Int(number)) => Some(*number as f64),
            Shape::Plain(Value::Float(number)) => Some(*number),
            Shape::Plain(_) | Shape::Text(_) | Shape::List(_) | Shape::Map(_) => None,
        };
        if !number.is_some_and(|number| number.is_finite() && fits(number)) {
            self.mismatch(id, key, expected);
        }
    }

    /// The schema that a reference leads to.
    fn referred(&mut self, id: NodeId, root: NodeId) -> Option<NodeId> {
        let path = self.text(id, "$ref")?;
        let at = self.tree.at(id);
        let Some(parts) = reference_parts(&path) else {
            self.refuse(at, format!("'$ref' takes a place in this schema such as '#/$defs/name': '{path}' is outside of it"));
            return None;
        };
        let step = |id: NodeId, part: String| match self.tree.shape(id) {
            Shape::Map(entries) => {
                let found = entries.iter().find(|entry| *entry.key == *part);
                found.map(|entry| entry.value)
            }
            Shape::Plain(_) | Shape::Text(_) | Shape::List(_) => None,
        };
        let found = parts.into_iter().try_fold(root, step);
        let is_schema = |id: &NodeId| {
            matches!(
                self.tree.shape(*id),
                Shape::Map(_) | Shape::Plain(Value::Bool(_))
            )
        };
        let found = found.filter(is_schema);
        if found.is_none() {
            self.refuse(
                at,
                format!("'$ref' leads to no schema: there is none at '{path}'"),
            );
        }
        found
    }

    fn pattern_of(&mut self, id: NodeId) {
        if let Some(text) = self.text(id, "pattern") {
            self.readable(&text, self.tree.at(id));
        }
    }

    fn readable(&mut self, pattern: &str, at: TextLocation) {
        if let Err(error) = keyword::pattern(pattern) {
            self.refuse(at, error.message.clone());
        }
    }

    fn types_of(&mut self, id: NodeId) {
        let items = match self.tree.shape(id) {
            Shape::List(items) => items.clone(),
            Shape::Plain(_) | Shape::Text(_) | Shape::Map(_) => vec![id],
        };
        for item in items {
            self.word(item, "type", &TYPES);
        }
    }
}

impl SchemaWalk {
    /// The references that never come to an end, whatever the value is. What is left when all
    /// schemas that lead only to such as end have been taken away does not end.
    fn endless(&self) -> Vec<TextLocation> {
        let mut leading_to: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
        let mut left: HashMap<NodeId, usize> = HashMap::new();
        for (from, to) in &self.same_value {
            leading_to.entry(*to).or_default().push(*from);
            *left.entry(*from).or_default() += 1;
        }
        let ending = leading_to.keys().filter(|to| !left.contains_key(to));
        let mut ending: Vec<NodeId> = ending.copied().collect();
        while let Some(end) = ending.pop() {
            for from in leading_to.get(&end).into_iter().flatten() {
                if let Some(count) = left.get_mut(from) {
                    *count -= 1;
                    if *count == 0 {
                        left.remove(from);
                        ending.push(*from);
                    }
                }
            }
        }
        let endless = self
            .references
            .iter()
            .filter(|(of, _)| left.contains_key(of));
        endless.map(|(_, at)| *at).collect()
    }
}
