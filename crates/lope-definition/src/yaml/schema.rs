//! The JSON Schema of an input: kept as it is written; mistakes that would make it mean nothing are
//! found here.
//!
//! Whether an input fits the schema is asked of `json_schema::validate`, where inputs come in.

use lope_model::{Value, limit};
use lope_values::At;

use super::fields::WorkflowReader;
use super::tree::{NodeId, Shape};
use crate::json_schema::keyword;

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

impl WorkflowReader<'_> {
    pub(super) fn input(&mut self, id: NodeId) {
        if self.tree.node(id).depth as usize > limit::DEPTH_MAX {
            return self.refuse(
                self.tree.at(id),
                format!("values are nested at most {} levels deep", limit::DEPTH_MAX),
            );
        }
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            self.schema(id, &mut open);
        }
        self.definition.input = self.tree.value(id);
    }

    /// Checks one schema and finds those inside it.
    fn schema(&mut self, id: NodeId, open: &mut Vec<NodeId>) {
        if let Shape::Plain(Value::Bool(_)) = self.tree.shape(id) {
            return;
        }
        let Shape::Map(entries) = self.tree.shape(id) else {
            return self.mismatch(id, "input", "a JSON Schema");
        };
        for entry in entries {
            let key = &*entry.key;
            if key == "type" {
                self.types_of(entry.value);
            } else if key == "required" {
                for item in self.items(entry.value, key) {
                    self.text(*item, key);
                }
            } else if ONE.contains(&key) {
                open.push(entry.value);
            } else if SEVERAL.contains(&key) {
                open.extend(self.items(entry.value, key));
            } else if key == "pattern" {
                self.pattern_of(entry.value);
            } else if key == "format" {
                self.word(
                    entry.value,
                    key,
                    &keyword::FORMATS.map(|format| (format, ())),
                );
            } else if !keyword::is_known(key) {
                self.refuse(
                    entry.at,
                    format!("'{key}' is no word of a JSON Schema that Lope enforces"),
                );
            } else if NAMED.contains(&key) {
                let named = self
                    .map(entry.value, key)
                    .map_or(&[][..], |fields| fields.entries);
                if key == "patternProperties" {
                    named
                        .iter()
                        .for_each(|entry| self.readable(&entry.key, entry.at));
                }
                open.extend(named.iter().map(|entry| entry.value));
            }
        }
    }

    fn pattern_of(&mut self, id: NodeId) {
        if let Some(text) = self.text(id, "pattern") {
            self.readable(&text, self.tree.at(id));
        }
    }

    fn readable(&mut self, pattern: &str, at: At) {
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
