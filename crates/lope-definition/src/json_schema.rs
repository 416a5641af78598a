//! Does an input fit the JSON Schema of its workflow? Pure; the first misfit is named with its
//! place.
//!
//! Validated are types, `enum`, `const`, bounds of numbers, texts, lists and maps, `properties`,
//! `required`, `additionalProperties`, `items`, `prefixItems`, `contains`, `uniqueItems`, `allOf`,
//! `anyOf`, `oneOf`, `not`, `if`/`then`/ `else`, `pattern`, `patternProperties`, some formats and
//! references into the schema itself. `keyword` names them all; a workflow file with another word
//! in its schema is refused.

mod decimal;
pub(crate) mod keyword;

use std::cmp::Ordering;

use lope_model::Value;
use lope_model::value::Map;
use thiserror::Error;

/// Deepest schema within a schema that is followed, references included.
const DEPTH_MAX: usize = 256;

/// Where and why an input does not fit.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{location}: {message}")]
pub struct SchemaViolation {
    /// As in `input.order.lines[2].price`.
    pub location: String,
    pub message: String,
}

/// Does `input` fit `schema`? Null is the schema of everything.
pub fn validate(schema: &Value, input: &Value) -> Result<(), SchemaViolation> {
    match schema {
        Value::Null => Ok(()),
        schema => SchemaValidator {
            root: schema,
            location: "input".to_owned(),
            depth: 0,
        }
        .validate(schema, input),
    }
}

/// The keys that lead from the whole schema to what a reference means; nothing if that is
/// elsewhere.
pub(crate) fn reference_parts(path: &str) -> Option<Vec<String>> {
    let parts = path.strip_prefix('#')?.split('/');
    let parts = parts.filter(|part| !part.is_empty());
    Some(
        parts
            .map(|part| part.replace("~1", "/").replace("~0", "~"))
            .collect(),
    )
}

struct SchemaValidator<'a> {
    root: &'a Value,
    location: String,
    depth: usize,
}

impl<'a> SchemaValidator<'a> {
    fn misfit<T>(&self, message: impl Into<String>) -> Result<T, SchemaViolation> {
        Err(SchemaViolation {
            location: self.location.clone(),
            message: message.into(),
        })
    }

    fn inside(&self, location: String) -> Self {
        Self {
            root: self.root,
            location,
            depth: self.depth + 1,
        }
    }

    /// The same value under another schema.
    fn under(&self, schema: &'a Value, value: &Value) -> Result<(), SchemaViolation> {
        self.inside(self.location.clone()).validate(schema, value)
    }

    fn validate(&self, schema: &'a Value, value: &Value) -> Result<(), SchemaViolation> {
        if self.depth > DEPTH_MAX {
            return self.misfit("the schema refers to itself without end");
        }
        let rules = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Map(rules) => rules,
            _ => return self.misfit("nothing may stand here"),
        };
        self.refer(rules, value)?;
        self.kind(rules, value)?;
        self.choice(rules, value)?;
        self.bounds(rules, value)?;
        match value {
            Value::Map(map) => self.map(rules, map)?,
            Value::List(items) => self.list(rules, items)?,
            Value::Str(text) => self.text(rules, text)?,
            _ => {}
        }
        self.combined(rules, value)
    }

    fn refer(&self, rules: &'a Map, value: &Value) -> Result<(), SchemaViolation> {
        let Some(path) = rules.get("$ref").and_then(Value::as_str) else {
            return Ok(());
        };
        let Some(parts) = reference_parts(path) else {
            return self.misfit(format!("'{path}' refers outside the schema"));
        };
        let found = parts.iter().try_fold(self.root, |at, part| at.get(part));
        match found {
            Some(schema) => self.under(schema, value),
            None => self.misfit(format!("'{path}' refers to nothing")),
        }
    }

    fn kind(&self, rules: &Map, value: &Value) -> Result<(), SchemaViolation> {
        let wanted: Vec<&str> = match rules.get("type") {
            Some(Value::Str(one)) => vec![one],
            Some(Value::List(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => return Ok(()),
        };
        if wanted.iter().any(|kind| is_a(value, kind)) {
            return Ok(());
        }
        self.misfit(format!(
            "expected {}, found {}",
            wanted.join(" or "),
            name(value)
        ))
    }

    fn choice(&self, rules: &Map, value: &Value) -> Result<(), SchemaViolation> {
        if let Some(only) = rules.get("const").filter(|only| !same(only, value)) {
            return self.misfit(format!("expected {only}"));
        }
        let Some(Value::List(allowed)) = rules.get("enum") else {
            return Ok(());
        };
        if allowed.iter().any(|one| same(one, value)) {
            return Ok(());
        }
        let listed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        self.misfit(format!("expected one of {}", listed.join(", ")))
    }

    fn bounds(&self, rules: &Map, value: &Value) -> Result<(), SchemaViolation> {
        for (rule, bad, word) in [
            ("minimum", &[Ordering::Less][..], "at least"),
            ("maximum", &[Ordering::Greater], "at most"),
            (
                "exclusiveMinimum",
                &[Ordering::Less, Ordering::Equal],
                "more than",
            ),
            (
                "exclusiveMaximum",
                &[Ordering::Greater, Ordering::Equal],
                "less than",
            ),
        ] {
            let order = rules.get(rule).and_then(|limit| compare(value, limit));
            if order.is_some_and(|order| bad.contains(&order)) {
                return self.misfit(format!("expected {word} {}", rules[rule]));
            }
        }
        let (size, least, most) = match value {
            Value::Str(text) => (text.chars().count(), "minLength", "maxLength"),
            Value::List(items) => (items.len(), "minItems", "maxItems"),
            Value::Map(map) => (map.len(), "minProperties", "maxProperties"),
            Value::Int(_) | Value::Float(_) => return self.multiple(rules, value),
            Value::Null | Value::Bool(_) | Value::Bytes(_) | Value::Tag(_) => return Ok(()),
        };
        let limit = |rule: &str| {
            rules
                .get(rule)
                .and_then(Value::as_int)
                .and_then(|limit| usize::try_from(limit).ok())
        };
        match (limit(least), limit(most)) {
            (Some(least), _) if size < least => {
                self.misfit(format!("expected at least {least} long, found {size}"))
            }
            (_, Some(most)) if size > most => {
                self.misfit(format!("expected at most {most} long, found {size}"))
            }
            _ => Ok(()),
        }
    }

    fn multiple(&self, rules: &Map, value: &Value) -> Result<(), SchemaViolation> {
        let Some(step) = rules.get("multipleOf") else {
            return Ok(());
        };
        let whole = match (decimal::of(value), decimal::of(step)) {
            (Some(value), Some(step)) => decimal::is_multiple(value, step),
            (None, Some(_)) => false,
            (_, None) => true,
        };
        if whole {
            Ok(())
        } else {
            self.misfit(format!("expected a multiple of {step}"))
        }
    }

    fn text(&self, rules: &Map, text: &str) -> Result<(), SchemaViolation> {
        if let Some(pattern) = rules.get("pattern").and_then(Value::as_str)
            && !self.is_found(pattern, text)?
        {
            return self.misfit(format!("expected a text that fits the pattern {pattern}"));
        }
        match rules.get("format").and_then(Value::as_str) {
            Some(format) if !keyword::has_format(format, text) => {
                self.misfit(format!("expected a text of the format {format}"))
            }
            _ => Ok(()),
        }
    }

    fn is_found(&self, pattern: &str, text: &str) -> Result<bool, SchemaViolation> {
        keyword::is_found(pattern, text)
            .or_else(|error| self.misfit(format!("the pattern {pattern}: {error}")))
    }

    /// What is said of a key and its value by patterns of keys. Did any speak of it?
    fn patterned(&self, rules: &'a Map, key: &str, value: &Value) -> Result<bool, SchemaViolation> {
        let mut spoken = false;
        let patterns = rules.get("patternProperties").and_then(Value::as_map);
        for (pattern, schema) in patterns.into_iter().flatten() {
            if self.is_found(pattern, key)? {
                spoken = true;
                self.validate(schema, value)?;
            }
        }
        Ok(spoken)
    }

    /// Keys that one that is there asks for.
    fn dependent(&self, rules: &Map, map: &Map) -> Result<(), SchemaViolation> {
        let asking = rules.get("dependentRequired").and_then(Value::as_map);
        for (key, asked) in asking
            .into_iter()
            .flatten()
            .filter(|(key, _)| map.contains_key(*key))
        {
            let mut names = asked.as_list().unwrap_or_default().iter();
            let missing = names.find(|name| name.as_str().is_some_and(|it| !map.contains_key(it)));
            if let Some(missing) = missing {
                return self.misfit(format!("{missing} is missing beside '{key}'"));
            }
        }
        Ok(())
    }

    fn map(&self, rules: &'a Map, map: &Map) -> Result<(), SchemaViolation> {
        if let Some(Value::List(required)) = rules.get("required")
            && let Some(missing) = required
                .iter()
                .filter_map(Value::as_str)
                .find(|name| !map.contains_key(*name))
        {
            return self.misfit(format!("'{missing}' is missing"));
        }
        let known = rules.get("properties").and_then(Value::as_map);
        self.dependent(rules, map)?;
        for (key, value) in map {
            let at = self.inside(format!("{}.{key}", self.location));
            let patterned = at.patterned(rules, key, value)?;
            if let Some(schema) = known.and_then(|known| known.get(key)) {
                at.validate(schema, value)?;
            } else if let Some(others) = rules.get("additionalProperties").filter(|_| !patterned) {
                match others {
                    Value::Bool(false) => return self.misfit(format!("'{key}' is not known")),
                    schema => at.validate(schema, value)?,
                }
            }
            if let Some(names) = rules.get("propertyNames") {
                at.validate(names, &Value::Str(key.clone()))?;
            }
        }
        Ok(())
    }

    fn list(&self, rules: &'a Map, items: &[Value]) -> Result<(), SchemaViolation> {
        let first = rules
            .get("prefixItems")
            .and_then(Value::as_list)
            .unwrap_or_default();
        for (index, item) in items.iter().enumerate() {
            if let Some(schema) = first.get(index).or_else(|| rules.get("items")) {
                self.inside(format!("{}[{index}]", self.location))
                    .validate(schema, item)?;
            }
        }
        if let Some(schema) = rules.get("contains") {
            self.containing(rules, schema, items)?;
        }
        let unique = matches!(rules.get("uniqueItems"), Some(Value::Bool(true)));
        let twice = |index: usize| {
            items[..index]
                .iter()
                .any(|other| same(other, &items[index]))
        };
        if unique && (0..items.len()).any(twice) {
            return self.misfit("an item is there twice");
        }
        Ok(())
    }

    fn containing(
        &self,
        rules: &Map,
        schema: &'a Value,
        items: &[Value],
    ) -> Result<(), SchemaViolation> {
        let bound = |rule: &str| rules.get(rule).and_then(Value::as_int);
        let fitting = items.iter().filter(|item| self.under(schema, item).is_ok());
        let count = fitting.count() as i64;
        if count == 0 && bound("minContains").unwrap_or(1) > 0 {
            return self.misfit("no item is as one must be");
        }
        if bound("minContains").is_some_and(|least| count < least)
            || bound("maxContains").is_some_and(|most| count > most)
        {
            return self.misfit(format!("{count} items are as some must be"));
        }
        Ok(())
    }

    fn combined(&self, rules: &'a Map, value: &Value) -> Result<(), SchemaViolation> {
        let several = |rule: &str| rules.get(rule).and_then(Value::as_list).unwrap_or_default();
        several("allOf")
            .iter()
            .try_for_each(|schema| self.under(schema, value))?;
        let fitting = |rule: &str| {
            several(rule)
                .iter()
                .filter(|schema| self.under(schema, value).is_ok())
                .count()
        };
        if rules.contains_key("anyOf") && fitting("anyOf") == 0 {
            return self.misfit("none of the forms that are allowed here fits");
        }
        if rules.contains_key("oneOf") && fitting("oneOf") != 1 {
            return self.misfit(format!(
                "{} of the forms fit, exactly one must",
                fitting("oneOf")
            ));
        }
        if rules
            .get("not")
            .is_some_and(|schema| self.under(schema, value).is_ok())
        {
            return self.misfit("this is just what must not stand here");
        }
        let Some(condition) = rules.get("if") else {
            return Ok(());
        };
        let then = if self.under(condition, value).is_ok() {
            "then"
        } else {
            "else"
        };
        rules
            .get(then)
            .map_or(Ok(()), |schema| self.under(schema, value))
    }
}

fn is_a(value: &Value, kind: &str) -> bool {
    match value {
        Value::Null => kind == "null",
        Value::Bool(_) => kind == "boolean",
        Value::Int(_) => matches!(kind, "integer" | "number"),
        Value::Float(float) => kind == "number" || (kind == "integer" && float.fract() == 0.0),
        Value::Str(_) => kind == "string",
        Value::List(_) => kind == "array",
        Value::Map(_) => kind == "object",
        // What JSON has no type for is written as an object.
        Value::Bytes(_) | Value::Tag(_) => kind == "object",
    }
}

fn name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Int(_) => "integer",
        Value::Float(_) => "number",
        Value::Str(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) | Value::Bytes(_) | Value::Tag(_) => "object",
    }
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

fn compare(value: &Value, limit: &Value) -> Option<Ordering> {
    match (value, limit) {
        (Value::Int(value), Value::Int(limit)) => Some(value.cmp(limit)),
        _ => float(value)?.partial_cmp(&float(limit)?),
    }
}

/// Equal as JSON means it: 1 and 1.0 are the same number, wherever they stand.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::List(one), Value::List(other)) => {
            let mut pairs = one.iter().zip(other.iter());
            one.len() == other.len() && pairs.all(|(one, other)| same(one, other))
        }
        (Value::Map(one), Value::Map(other)) => {
            let mut entries = one.iter();
            let is_there = |key: &str, value| other.get(key).is_some_and(|it| same(value, it));
            one.len() == other.len() && entries.all(|(key, value)| is_there(key, value))
        }
        _ => compare(one, other).map_or_else(|| one == other, |order| order == Ordering::Equal),
    }
}

#[cfg(test)]
mod tests;
