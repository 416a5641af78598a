//! What a workflow says must not be shown (`redact:`), taken out of whatever is shown of a run.
//!
//! A run's record, events and executions flow in; what may be shown of them flows out. Reads no
//! store.
//!
//! A path hides what stands at it. What stood at the paths in this run (texts, and numbers of four
//! digits or more) is hidden wherever else it turns up as well: in other outputs, in errors, in
//! logs. Runs themselves go on with what is there; only what is shown is changed.

mod loose;

use std::sync::Arc;

use lope_definition::{RedactedOf, RedactedPath};
use lope_engine::codec;
use lope_flow::history::Execution;
use lope_flow::law::{Event, EventKind, Settled};
use lope_model::masks::{MASK, MaskedStream, Masks};
use lope_model::{Failure, Value};
use lope_store::runs::RunRecord;
use serde_json::{Value as Json, json};

pub use loose::loose;

/// What must not be shown of one run.
#[derive(Clone, Debug)]
pub struct Redaction {
    paths: Arc<[RedactedPath]>,
    masks: Masks,
    /// Is everything hidden, because it is not known what stood at the paths?
    is_blind: bool,
}

/// What stands at the paths of a run, gathered from its events in order.
#[derive(Debug)]
pub struct RedactionSearch {
    paths: Arc<[RedactedPath]>,
    found: Vec<Arc<str>>,
    has_start: bool,
}

impl RedactionSearch {
    pub fn new(paths: Arc<[RedactedPath]>) -> Self {
        Self {
            paths,
            found: Vec::new(),
            has_start: false,
        }
    }

    pub fn event(&mut self, event: &Event) {
        self.has_start |= matches!(event.kind, EventKind::Start(_));
        if let Some(input) = input_of(event) {
            gather(&self.paths, &RedactedOf::Input, input, &mut self.found);
        }
    }

    pub fn execution(&mut self, execution: &Execution) {
        let of = RedactedOf::Step(Arc::clone(&execution.step));
        if let Some(output) = &execution.output {
            gather(&self.paths, &of, output, &mut self.found);
        }
    }

    pub fn end(mut self, record: &RunRecord) -> Redaction {
        if let Some(result) = result_of(record) {
            gather(&self.paths, &RedactedOf::Result, &result, &mut self.found);
        }
        Redaction {
            paths: self.paths,
            masks: Masks::of(self.found),
            // A fork begins with a state instead of an input.
            is_blind: !self.has_start,
        }
    }
}

impl Redaction {
    /// What is shown where nobody looks into runs, as in a list: nothing of what they gave.
    pub fn blind(paths: Arc<[RedactedPath]>) -> Self {
        Self {
            paths,
            masks: Masks::default(),
            is_blind: true,
        }
    }

    /// A run as it may be shown.
    pub fn record(&self, record: &mut RunRecord) {
        if let Some(result) = result_of(record) {
            record.result = Some(codec::result_bytes(&self.result(&result)));
        }
        let error = record.error.as_deref();
        if let Some(failure) = error.and_then(|bytes| codec::read_error(bytes).ok()) {
            record.error = Some(codec::error_bytes(&self.failure(failure)));
        }
    }

    /// An execution as it may be shown.
    pub fn execution(&self, execution: &Execution) -> Execution {
        let mut shown = execution.clone();
        let of = RedactedOf::Step(Arc::clone(&execution.step));
        shown.input = shown.input.map(|input| self.given(input));
        shown.output = shown.output.map(|output| self.value(&of, &output));
        shown.failure = shown.failure.map(|failure| self.failure(failure));
        for attempt in &mut shown.attempts {
            let failure = attempt.failure.take();
            attempt.failure = failure.map(|failure| self.failure(failure));
        }
        shown
    }

    /// An input as it may be shown.
    pub fn input(&self, input: &Value) -> Value {
        self.value(&RedactedOf::Input, input)
    }

    /// A result as it may be shown.
    pub fn result(&self, result: &Value) -> Value {
        self.value(&RedactedOf::Result, result)
    }

    /// The beginning of a result as it may be shown. What it is cut in may go on as something hidden,
    /// and then it ends before that. No path leads into it: see [`Redaction::looks_into_results`].
    pub fn result_head(&self, head: Value) -> Value {
        self.result(&self.ended(head))
    }

    /// Is what must not be shown looked for in results?
    pub fn looks_into_results(paths: &[RedactedPath]) -> bool {
        paths.iter().any(|path| path.of == RedactedOf::Result)
    }

    /// What became of an input, as it may be shown.
    pub fn settled(&self, settled: &Settled) -> Settled {
        match settled {
            Settled::Done(value) => Settled::Done(self.result(value)),
            Settled::Failed(failure) => {
                Settled::Failed(Box::new(self.failure(Failure::clone(failure))))
            }
            Settled::Cancelled => Settled::Cancelled,
        }
    }

    /// Words about a run, as they may be shown.
    pub fn words(&self, text: &str) -> String {
        self.masks.hide(text)
    }

    /// A text that the run's steps wrote, as it may be shown.
    pub fn text(&self, text: &str) -> String {
        if self.is_blind && !text.is_empty() {
            return MASK.to_owned();
        }
        self.masks.hide(text)
    }

    /// The same for what comes piece by piece, of a log that may be shown at all.
    pub fn stream(&self) -> MaskedStream {
        self.masks.stream()
    }

    /// Must the log of an execution not be shown at all? What its step will give is not known while
    /// it works, and what it gives may be what it writes.
    pub fn hides_log(&self, execution: &str) -> bool {
        let is_step =
            |path: &RedactedPath| matches!(&path.of, RedactedOf::Step(of) if may_be(execution, of));
        self.is_blind || self.paths.iter().any(is_step)
    }

    /// What stands in place of a log that is not shown.
    pub const fn left_out(&self) -> &'static str {
        "*** (this log is not shown: the workflow redacts what its step gives)"
    }

    /// Does a search by this path of an input tell something that must not be shown?
    pub fn hides_input(paths: &[RedactedPath], keys: &str) -> bool {
        let is_number = |key: &str| key.parse::<usize>().is_ok();
        // A path that leaves the places of a list out means all of them.
        let named = |keys: &[&str]| -> Vec<String> {
            let named = keys.iter().filter(|key| !is_number(key));
            named.map(|key| (*key).to_owned()).collect()
        };
        let asked: Vec<&str> = keys.split('.').collect();
        let meets = |path: &RedactedPath| {
            let known: Vec<&str> = path.keys.iter().map(|key| &**key).collect();
            let whole = known.iter().zip(&asked).all(|(known, asked)| {
                *known == "*" || known == asked || is_number(known) || is_number(asked)
            });
            let (known, asked) = (named(&known), named(&asked));
            let bare = known.iter().zip(&asked);
            let bare = bare
                .into_iter()
                .all(|(one, other)| one == "*" || one == other);
            path.of == RedactedOf::Input && (whole || bare)
        };
        paths.iter().any(meets)
    }

    /// An input that a person edited where it was shown: what was hidden is as it was before.
    /// Nothing: something hidden stands where it is not known what it was.
    pub fn restored(&self, edited: Value, original: &Value) -> Option<Value> {
        let shown = self.input(original);
        let found = restored(edited, &shown, original);
        let own = self
            .paths
            .iter()
            .filter(|path| path.of == RedactedOf::Input);
        let mut is_known = true;
        for path in own {
            at(&found, &path.keys, &mut |value| {
                is_known &= *value != Value::from(MASK);
            });
        }
        is_known.then_some(found)
    }

    /// A whole run as a document: what rows, states and executions hold is left out.
    pub fn document(&self, export: &mut Json) {
        for (list, field) in [("journal", "body"), ("mail", "body"), ("results", "result")] {
            for entry in export[list].as_array_mut().into_iter().flatten() {
                cover(entry, field);
            }
        }
        cover(&mut export["snapshot"], "state");
        for result in export["results"].as_array_mut().into_iter().flatten() {
            cover_error(result);
        }
        let executions = export["run"]["executions"].as_array_mut();
        for execution in executions.into_iter().flatten() {
            cover(execution, "output");
            cover_error(execution);
            let attempts = execution.get_mut("attempts").and_then(Json::as_array_mut);
            for attempt in attempts.into_iter().flatten() {
                cover_error(attempt);
            }
        }
    }

    fn value(&self, of: &RedactedOf, value: &Value) -> Value {
        if self.is_blind {
            return hidden(value, &[]);
        }
        let own = self.paths.iter().filter(|path| path.of == *of);
        let shown = own.fold(value.clone(), |value, path| hidden(&value, &path.keys));
        self.masks.hide_in(shown)
    }

    /// A value that was cut, without what may be the beginning of something hidden at its end.
    fn ended(&self, value: Value) -> Value {
        match value {
            Value::Str(text) => {
                let shown = self.masks.stream().push(text.as_bytes());
                Value::from(String::from_utf8_lossy(&shown).into_owned())
            }
            Value::Bytes(bytes) => Value::bytes(self.masks.stream().push(&bytes)),
            Value::List(items) => {
                let last = items.len().saturating_sub(1);
                let items = items.iter().cloned().enumerate().map(|(index, item)| {
                    if index == last {
                        self.ended(item)
                    } else {
                        item
                    }
                });
                Value::list(items.collect())
            }
            Value::Map(map) => {
                let last = map.len().saturating_sub(1);
                Value::map(map.iter().enumerate().map(|(index, (key, inner))| {
                    let inner = inner.clone();
                    let inner = if index == last {
                        self.ended(inner)
                    } else {
                        inner
                    };
                    (key.as_ref().to_owned(), inner)
                }))
            }
            Value::Tag(tag) => Value::tag(&tag.name, self.ended(tag.value.clone())),
            other @ (Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_)) => other,
        }
    }

    /// What a step was given, as it may be shown: no path leads into it.
    fn given(&self, input: Value) -> Value {
        if self.is_blind {
            return hidden(&input, &[]);
        }
        self.masks.hide_in(input)
    }

    fn failure(&self, failure: Failure) -> Failure {
        if !self.is_blind {
            return self.masks.hide_in_failure(failure);
        }
        Failure {
            message: MASK.to_owned(),
            traceback: None,
            detail: Value::Null,
            ..failure
        }
    }
}

/// May an execution be one of this step? Between the names of the steps around it stand its input
/// (`@2`), rounds (`3`), parts of a step (`:else`) and names of branches, which look like steps.
fn may_be(execution: &str, step: &str) -> bool {
    let is_name = |part: &&str| !part.starts_with(['@', ':']) && part.parse::<u64>().is_err();
    let parts: Vec<&str> = execution.split('/').filter(is_name).collect();
    let names: Vec<&str> = step.split('/').collect();
    leads_to(&parts, &names)
}

/// Are the parts these names in order, with at most one branch between two of them?
fn leads_to(parts: &[&str], names: &[&str]) -> bool {
    let (Some((part, parts)), Some((name, names))) = (parts.split_first(), names.split_first())
    else {
        return parts.is_empty() && names.is_empty();
    };
    let has_branch = !names.is_empty() && parts.len() > 1;
    part == name && (leads_to(parts, names) || has_branch && leads_to(&parts[1..], names))
}

/// Hides a field of an object, if both are there.
fn cover(object: &mut Json, field: &str) {
    let found = object.get_mut(field).filter(|value| !value.is_null());
    if let Some(value) = found {
        *value = json!(MASK);
    }
}

/// Hides what steps had to say in the error of an object; its type stays.
fn cover_error(object: &mut Json) {
    if let Some(error) = object.get_mut("error") {
        for field in ["message", "detail", "traceback"] {
            cover(error, field);
        }
    }
}

/// The input that an event brings.
fn input_of(event: &Event) -> Option<&Value> {
    match &event.kind {
        EventKind::Start(start) => start.input.as_ref().map(|fed| &fed.value),
        EventKind::Input(fed) => Some(&fed.value),
        EventKind::Outcome(_)
        | EventKind::Timer
        | EventKind::Signal { .. }
        | EventKind::Child { .. }
        | EventKind::Cancel { .. }
        | EventKind::Pause { .. }
        | EventKind::Resume
        | EventKind::Adopted { .. }
        | EventKind::Refused { .. }
        | EventKind::Dispatched { .. }
        | EventKind::Returned { .. }
        | EventKind::Retry { .. }
        | EventKind::Close
        | EventKind::Forked { .. } => None,
    }
}

fn result_of(record: &RunRecord) -> Option<Value> {
    let bytes = record.result.as_deref()?;
    codec::read_result(bytes).ok()
}

/// Everything at the paths of a value, as text.
fn gather(paths: &[RedactedPath], of: &RedactedOf, value: &Value, found: &mut Vec<Arc<str>>) {
    for path in paths.iter().filter(|path| path.of == *of) {
        at(value, &path.keys, &mut |value| scalars(value, found));
    }
}

fn at(value: &Value, keys: &[Arc<str>], each: &mut impl FnMut(&Value)) {
    let Some((first, rest)) = keys.split_first() else {
        return each(value);
    };
    match value {
        Value::Map(map) => {
            let meant = map.iter().filter(|(key, _)| is_meant(first, key));
            meant.for_each(|(_, inner)| at(inner, rest, each));
        }
        Value::List(items) if is_index(first) => {
            let meant = items.iter().enumerate();
            let meant = meant.filter(|(index, _)| is_meant(first, &index.to_string()));
            meant.for_each(|(_, inner)| at(inner, rest, each));
        }
        Value::List(items) => items.iter().for_each(|inner| at(inner, keys, each)),
        Value::Tag(tag) => at(&tag.value, keys, each),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {}
        Value::Str(_) | Value::Bytes(_) => {}
    }
}

fn is_meant(asked: &str, key: &str) -> bool {
    asked == "*" || asked == key
}

/// Does it choose among the items of a list? A name means that of each item.
fn is_index(asked: &str) -> bool {
    asked == "*" || asked.parse::<usize>().is_ok()
}

fn scalars(value: &Value, found: &mut Vec<Arc<str>>) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Int(_) | Value::Float(_) => found.push(value.to_string().into()),
        Value::Str(text) => found.push(text.as_ref().into()),
        Value::Bytes(bytes) => found.push(String::from_utf8_lossy(bytes).into()),
        Value::List(items) => items.iter().for_each(|item| scalars(item, found)),
        Value::Map(map) => map.iter().for_each(|(_, inner)| scalars(inner, found)),
        Value::Tag(tag) => scalars(&tag.value, found),
    }
}

/// The value without what stands at a path.
fn hidden(value: &Value, keys: &[Arc<str>]) -> Value {
    let Some((first, rest)) = keys.split_first() else {
        return match value {
            Value::Null => Value::Null,
            _ => Value::from(MASK),
        };
    };
    match value {
        Value::Map(map) => Value::map(map.iter().map(|(key, inner)| {
            let is_on_path = is_meant(first, key);
            let inner = if is_on_path {
                hidden(inner, rest)
            } else {
                inner.clone()
            };
            (key.as_ref().to_owned(), inner)
        })),
        Value::List(items) if !is_index(first) => {
            Value::list(items.iter().map(|inner| hidden(inner, keys)).collect())
        }
        Value::List(items) => {
            let items = items.iter().enumerate().map(|(index, inner)| {
                if is_meant(first, &index.to_string()) {
                    hidden(inner, rest)
                } else {
                    inner.clone()
                }
            });
            Value::list(items.collect())
        }
        Value::Tag(tag) => Value::tag(&tag.name, hidden(&tag.value, keys)),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Str(_)
        | Value::Bytes(_) => value.clone(),
    }
}

fn restored(edited: Value, shown: &Value, original: &Value) -> Value {
    if edited == *shown {
        return original.clone();
    }
    match (edited, shown, original) {
        (Value::Map(edited), Value::Map(shown), Value::Map(original)) => {
            Value::map(edited.iter().map(|(key, value)| {
                let before = shown.get(key).zip(original.get(key));
                let value = match before {
                    Some((shown, original)) => restored(value.clone(), shown, original),
                    None => value.clone(),
                };
                (key.as_ref().to_owned(), value)
            }))
        }
        // Which item was which is known only as long as there are as many.
        (Value::List(edited), Value::List(shown), Value::List(original))
            if edited.len() == original.len() =>
        {
            let items = edited.iter().enumerate().map(|(index, value)| {
                match shown.get(index).zip(original.get(index)) {
                    Some((shown, original)) => restored(value.clone(), shown, original),
                    None => value.clone(),
                }
            });
            Value::list(items.collect())
        }
        (edited, _, _) => edited,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "hush-4711-hush";

    /// What must not be shown of a run whose input has the secret.
    fn redaction() -> Redaction {
        Redaction {
            paths: [RedactedPath::parse("input.card").unwrap()].into(),
            masks: Masks::of([SECRET.into()]),
            is_blind: false,
        }
    }

    /// Wherever a result is cut, no letter of what is hidden is seen; what cannot be the beginning of
    /// it is.
    #[test]
    fn the_beginning_of_a_result_ends_before_what_may_be_hidden() {
        let redaction = redaction();
        let inside = |text: &str| {
            let list = Value::list(vec![Value::Int(1), Value::str(text)]);
            Value::map([("a", Value::str("first")), ("b", list)])
        };
        for length in 0..SECRET.len() {
            let cut = format!("paid with {}", &SECRET[..length]);
            assert_eq!(
                redaction.result_head(inside(&cut)),
                inside("paid with "),
                "{cut}"
            );
        }
        let whole = format!("paid with {SECRET} tod");
        assert_eq!(
            redaction.result_head(inside(&whole)),
            inside("paid with *** tod")
        );
        assert_eq!(
            redaction.result_head(Value::str("a hu")),
            Value::str("a "),
            "a text by itself"
        );
        // What ends before the cut is whole.
        let early = Value::list(vec![Value::str("a hush"), Value::Null]);
        assert_eq!(redaction.result_head(early.clone()), early);
        assert_eq!(redaction.result_head(Value::Null), Value::Null);
    }

    /// "The log of a step whose own output is redacted is not shown at all", wherever it is executed.
    #[test]
    fn the_log_of_a_redacted_step_is_hidden_by_the_path_of_its_execution() {
        let hides = |path: &str, execution: &str| {
            let redaction = Redaction {
                paths: [RedactedPath::parse(path).unwrap()].into(),
                masks: Masks::default(),
                is_blind: false,
            };
            redaction.hides_log(execution)
        };
        for (path, execution) in [
            ("pay.token", "pay"),
            ("pay", "pay"),
            ("pay.token", "@2/pay"),
            ("schl\u{fc}ssel.token", "schl\u{fc}ssel"),
            ("each/pay.token", "each/3/pay"),
            ("each/pay.token", "@12/each/3/pay"),
            ("check/pay.token", "check/:else/pay"),
            ("try/pay.token", "try/:catch0/pay"),
            ("try/pay.token", "try/:finally/pay"),
            ("both/pay.token", "both/left/pay"),
            ("both/each/pay", "both/left/each/7/pay"),
            ("a/b/c", "a/b/b/x/c"),
        ] {
            assert!(hides(path, execution), "{path} {execution}");
        }
        for (path, execution) in [
            ("pay.token", "payed"),
            ("pay.token", "each/pay"),
            ("pay.token", "pay/each"),
            ("each/pay.token", "each"),
            ("each/pay.token", "pay"),
            ("each/pay.token", "each/3/tell"),
            ("each/pay.token", "each/a/b/pay"),
            ("input.pay", "pay"),
            ("result.pay", "pay"),
        ] {
            assert!(!hides(path, execution), "{path} {execution}");
        }
        let blind = Redaction::blind([RedactedPath::parse("input").unwrap()].into());
        assert!(blind.hides_log("anything"));
    }

    #[test]
    fn results_are_looked_into_only_for_paths_of_results() {
        for (path, looks) in [
            ("input.card", false),
            ("pay.token", false),
            ("result", true),
            ("result.receipt", true),
        ] {
            let paths = [RedactedPath::parse(path).unwrap()];
            assert_eq!(Redaction::looks_into_results(&paths), looks, "{path}");
        }
    }
}
