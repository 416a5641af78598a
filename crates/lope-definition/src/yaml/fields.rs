//! Reads single values off the tree: texts, numbers, durations, words of a list; what does not fit
//! is noted and left out.

use std::str::FromStr;
use std::sync::Arc;

use lope_expr::TextLocation;
use lope_model::{Span, Value};

use super::tree::{NodeId, Shape, Text, YamlEntry, YamlTree};
use crate::definition::{BlockId, Definition, Problem, Step};

/// Reads a tree into a definition and gathers what is wrong with it.
#[derive(Debug)]
pub(super) struct WorkflowReader<'a> {
    pub(super) tree: &'a YamlTree,
    pub(super) source: &'a str,
    pub(super) definition: Definition,
    pub(super) problems: Vec<Problem>,
    /// The path of the step that is being read, for messages.
    pub(super) path: String,
    /// Blocks whose steps have not been read yet.
    pub(super) unread: Vec<Unread>,
    /// The entries of every step and rule by its place.
    pub(super) written: super::refine::Written<'a>,
    /// What must not be shown, and where it was written.
    pub(super) redacted: Vec<(Arc<str>, TextLocation)>,
}

/// A block that is known but not read.
#[derive(Debug)]
pub(super) struct Unread {
    pub(super) block: BlockId,
    pub(super) steps: NodeId,
    /// The path of its steps without their own names.
    pub(super) prefix: Arc<str>,
    pub(super) depth: usize,
}

/// The entries of a map whose keys are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    pub(super) entries: &'a [YamlEntry],
    pub(super) at: TextLocation,
}

impl<'a> Fields<'a> {
    pub(super) fn get(&self, key: &str) -> Option<NodeId> {
        self.entry(key).map(|entry| entry.value)
    }

    pub(super) fn entry(&self, key: &str) -> Option<&'a YamlEntry> {
        self.entries.iter().find(|entry| &*entry.key == key)
    }
}

impl<'a> WorkflowReader<'a> {
    pub(super) fn new(tree: &'a YamlTree, source: &'a str) -> Self {
        Self {
            tree,
            source,
            definition: Definition::new(""),
            problems: Vec::new(),
            path: String::new(),
            unread: Vec::new(),
            written: super::refine::Written::default(),
            redacted: Vec::new(),
        }
    }

    pub(super) fn problem(&self, at: TextLocation, message: impl Into<String>) -> Problem {
        Problem::new(at, self.path.clone(), message)
    }

    pub(super) fn refuse(&mut self, at: TextLocation, message: impl Into<String>) {
        let problem = self.problem(at, message);
        self.problems.push(problem);
    }

    /// Notes that a value is not what `what` takes.
    pub(super) fn mismatch(&mut self, id: NodeId, what: &str, expected: &str) {
        let problem = self.mismatched(id, what, expected);
        self.problems.push(problem);
    }

    pub(super) fn mismatched(&self, id: NodeId, what: &str, expected: &str) -> Problem {
        let found = self.tree.shape(id).describe();
        self.problem(
            self.tree.at(id),
            format!("{} takes {expected}, not {found}", quoted(what)),
        )
    }

    /// The entries of a map; keys that are not `known` are noted.
    pub(super) fn fields(&mut self, id: NodeId, what: &str, known: &[&str]) -> Option<Fields<'a>> {
        let fields = self.map(id, what)?;
        for entry in fields
            .entries
            .iter()
            .filter(|entry| !known.contains(&&*entry.key))
        {
            self.unknown_key(entry, what, known);
        }
        Some(fields)
    }

    pub(super) fn unknown_key(&mut self, entry: &YamlEntry, what: &str, known: &[&str]) {
        let problem = self.problem(entry.at, format!("unknown key '{}' in {what}", entry.key));
        let problem = problem.did_you_mean(&entry.key, known.iter().copied());
        let problem = if problem.hint.is_none() {
            problem.hint(format!("it takes {}", listed(known)))
        } else {
            problem
        };
        self.problems.push(problem);
    }

    /// The entries of a map, whatever their keys.
    pub(super) fn map(&mut self, id: NodeId, what: &str) -> Option<Fields<'a>> {
        let node = self.tree.node(id);
        match &node.shape {
            Shape::Map(entries) => Some(Fields {
                entries,
                at: node.at,
            }),
            Shape::Plain(_) | Shape::Text(_) | Shape::List(_) => {
                self.mismatch(id, what, "a map");
                None
            }
        }
    }

    pub(super) fn items(&mut self, id: NodeId, what: &str) -> &'a [NodeId] {
        match self.tree.shape(id) {
            Shape::List(items) => items,
            Shape::Plain(_) | Shape::Text(_) | Shape::Map(_) => {
                self.mismatch(id, what, "a list");
                &[]
            }
        }
    }

    pub(super) fn as_text(&self, id: NodeId) -> Option<&'a Text> {
        match self.tree.shape(id) {
            Shape::Text(text) => Some(text),
            Shape::Plain(_) | Shape::List(_) | Shape::Map(_) => None,
        }
    }

    /// A text without expressions.
    pub(super) fn text(&mut self, id: NodeId, what: &str) -> Option<Arc<str>> {
        match self.tree.shape(id) {
            Shape::Text(text) if text.content.contains("${{") => {
                self.refuse(
                    self.tree.at(id),
                    format!("'{what}' takes no expression: it is fixed before a run starts"),
                );
                None
            }
            Shape::Text(text) => Some(Arc::clone(&text.content)),
            Shape::Plain(value) if !value.is_null() => {
                let problem = self.mismatched(id, what, "a text");
                self.problems
                    .push(problem.hint("put it in quotes to make it a text"));
                None
            }
            Shape::Plain(_) | Shape::List(_) | Shape::Map(_) => {
                self.mismatch(id, what, "a text");
                None
            }
        }
    }

    /// One text, or a list of texts.
    pub(super) fn texts(&mut self, id: NodeId, what: &str) -> Vec<(Arc<str>, TextLocation)> {
        let items = match self.tree.shape(id) {
            Shape::List(items) => items.clone(),
            Shape::Text(_) => vec![id],
            Shape::Plain(_) | Shape::Map(_) => {
                self.mismatch(id, what, "a list of texts");
                Vec::new()
            }
        };
        let texts = items
            .into_iter()
            .filter_map(|item| Some((self.text(item, what)?, self.tree.at(item))));
        texts.collect()
    }

    pub(super) fn boolean(&mut self, id: NodeId, what: &str) -> Option<bool> {
        if let Shape::Plain(Value::Bool(value)) = self.tree.shape(id) {
            return Some(*value);
        }
        self.mismatch(id, what, "true or false");
        None
    }

    /// A whole number from `least` up.
    pub(super) fn count<T: TryFrom<i64>>(
        &mut self,
        id: NodeId,
        what: &str,
        least: i64,
    ) -> Option<T> {
        if let Shape::Plain(Value::Int(value)) = self.tree.shape(id)
            && *value >= least
            && let Ok(value) = T::try_from(*value)
        {
            return Some(value);
        }
        self.mismatch(id, what, &format!("a whole number from {least} up"));
        None
    }

    /// A duration such as `30s`.
    pub(super) fn span(&mut self, id: NodeId, what: &str) -> Option<Span> {
        if let Shape::Plain(Value::Int(number)) = self.tree.shape(id) {
            let problem = self.mismatched(id, what, "a duration");
            self.problems
                .push(problem.hint(format!("did you mean {number}s?")));
            return None;
        }
        let text = self.text(id, what)?;
        self.parsed(id, &text)
    }

    /// What a text stands for, in the words of its own error if it does not.
    pub(super) fn parsed<T: FromStr>(&mut self, id: NodeId, text: &str) -> Option<T>
    where
        T::Err: std::fmt::Display,
    {
        text.parse()
            .map_err(|error: T::Err| self.refuse(self.tree.at(id), error.to_string()))
            .ok()
    }

    /// One word of a list.
    pub(super) fn word<T: Copy>(
        &mut self,
        id: NodeId,
        what: &str,
        words: &[(&str, T)],
    ) -> Option<T> {
        let text = self.text(id, what)?;
        let found = words
            .iter()
            .find(|(word, _)| *word == &*text)
            .map(|(_, value)| *value);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let message = format!("'{what}' takes {}, not '{text}'", alternatives(&known));
            self.problems.push(
                self.problem(self.tree.at(id), message)
                    .did_you_mean(&text, known),
            );
        }
        found
    }

    /// Notes the step that is being read for later, so that what is said of it can point into it.
    pub(super) fn remember(&mut self, step: &Step, entries: &'a [YamlEntry]) {
        self.written.remember(step.at, entries);
    }
}

/// A key in quotes; a phrase has its own.
pub(super) fn quoted(what: &str) -> String {
    if what.contains('\'') {
        what.to_owned()
    } else {
        format!("'{what}'")
    }
}

/// `'a', 'b' and 'c'`.
pub(super) fn listed(words: &[&str]) -> String {
    joined(words, "and")
}

/// `'a', 'b' or 'c'`.
pub(super) fn alternatives(words: &[&str]) -> String {
    joined(words, "or")
}

fn joined(words: &[&str], last: &str) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    match quoted.split_last() {
        Some((tail, head)) if !head.is_empty() => format!("{} {last} {tail}", head.join(", ")),
        _ => quoted.concat(),
    }
}
