//! One step: its kind, what it needs, when it runs, what it sets, and how it is tried.

use lope_expr::Template;

use super::blocks::NamedNeeds;
use super::fields::{Fields, WorkflowReader, alternatives, quoted};
use super::policy;
use super::tree::{NodeId, Shape, YamlEntry};
use super::words::KINDS;
use crate::definition::{Step, StepKind};

/// Keys that any step may have, beside those of its policy.
const ANY: [&str; 4] = ["needs", "follows", "when", "set"];

impl<'a> WorkflowReader<'a> {
    /// A step and the steps it names. A step that cannot be read stands as one that does nothing,
    /// so that others may refer to it.
    pub(super) fn step(&mut self, entry: &'a YamlEntry) -> (Step, NamedNeeds) {
        let kind = StepKind::Let {
            value: Template::default(),
        };
        let mut step = Step::new(&entry.key, kind).at(entry.at);
        let fields = match self.tree.shape(entry.value) {
            Shape::Map(entries) => Fields {
                entries,
                at: entry.at,
            },
            Shape::Text(text) if &*text.content == "break" => {
                return (
                    Step {
                        kind: StepKind::Break,
                        ..step
                    },
                    NamedNeeds::default(),
                );
            }
            Shape::Text(text) if &*text.content == "continue" => {
                return (
                    Step {
                        kind: StepKind::Continue,
                        ..step
                    },
                    NamedNeeds::default(),
                );
            }
            Shape::Plain(_) | Shape::Text(_) | Shape::List(_) => {
                self.not_a_step(entry);
                return (step, NamedNeeds::default());
            }
        };
        self.remember(&step, fields.entries);
        if let Some(kind) = self.kind_entry(fields) {
            self.known_keys(fields, &kind.key);
            step.kind = self.kind(kind, fields);
            step.policy = self.policy_of(fields, own_keys(&kind.key));
        }
        step.when = fields.get("when").map(|id| self.condition(id, "when"));
        step.set = fields.get("set").and_then(|id| self.text(id, "set"));
        let mut named = |key| {
            fields
                .get(key)
                .map(|id| self.texts(id, key))
                .unwrap_or_default()
        };
        let order = NamedNeeds {
            needs: named("needs"),
            follows: named("follows"),
        };
        (step, order)
    }

    fn not_a_step(&mut self, entry: &YamlEntry) {
        let found = self.tree.shape(entry.value).describe();
        let problem = self.problem(
            entry.at,
            format!("a step is a map with a kind, not {found}"),
        );
        self.problems
            .push(problem.hint("write it as 'let: …', 'run: …', 'action: …'"));
    }

    /// The entry that says what kind of step it is: there must be exactly one.
    fn kind_entry(&mut self, fields: Fields<'a>) -> Option<&'a YamlEntry> {
        let mut kinds = fields.entries.iter().filter(|entry| is_kind(&entry.key));
        let Some(first) = kinds.next() else {
            self.no_kind(fields);
            return None;
        };
        for second in kinds {
            let message = format!(
                "a step has one kind; this one has '{}' and '{}'",
                first.key, second.key
            );
            self.refuse(second.at, message);
        }
        Some(first)
    }

    /// A key that is nearly a kind is more likely misspelt than the kind is missing.
    fn no_kind(&mut self, fields: Fields<'a>) {
        let unknown = fields
            .entries
            .iter()
            .filter(|entry| !is_known_somewhere(&entry.key));
        let misspelt: Vec<&YamlEntry> = unknown.collect();
        for entry in &misspelt {
            let known = KINDS
                .iter()
                .map(|(word, _)| *word)
                .chain(ANY)
                .chain(policy::KEYS);
            let problem = self.problem(entry.at, format!("unknown key '{}' in a step", entry.key));
            self.problems.push(problem.did_you_mean(&entry.key, known));
        }
        if misspelt.is_empty() {
            let hint = "one of action, run, js, http, agent, let, if, switch, each, while, try, sleep, until, wait, workflow, \
                        send, state, race, all, return, raise, break, continue";
            let problem = self.problem(fields.at, "the step has no kind");
            self.problems.push(problem.hint(hint));
        }
    }

    fn known_keys(&mut self, fields: Fields<'a>, kind: &str) {
        let own = own_keys(kind);
        for entry in fields.entries {
            let key = &*entry.key;
            if is_kind(key)
                || own.contains(&key)
                || ANY.contains(&key)
                || policy::KEYS.contains(&key)
            {
                continue;
            }
            let owners: Vec<&str> = KINDS
                .iter()
                .filter(|(_, keys)| keys.contains(&key))
                .map(|(word, _)| *word)
                .collect();
            let problem = if owners.is_empty() {
                let known = own.iter().copied().chain(ANY).chain(policy::KEYS);
                self.problem(entry.at, format!("unknown key '{key}' in a step"))
                    .did_you_mean(key, known)
            } else {
                let problem =
                    self.problem(entry.at, format!("'{key}' means nothing beside '{kind}'"));
                problem.hint(format!("it belongs to {}", alternatives(&owners)))
            };
            self.problems.push(problem);
        }
    }

    /// The value of a key that the kind cannot do without.
    pub(super) fn required(&mut self, fields: Fields<'_>, key: &str, what: &str) -> Option<NodeId> {
        let found = fields.get(key);
        if found.is_none() {
            self.refuse(fields.at, format!("{} needs '{key}'", quoted(what)));
        }
        found
    }
}

fn is_kind(key: &str) -> bool {
    KINDS.iter().any(|(word, _)| *word == key)
}

pub(super) fn own_keys(kind: &str) -> &'static [&'static str] {
    KINDS
        .iter()
        .find(|(word, _)| *word == kind)
        .map_or(&[], |(_, keys)| *keys)
}

fn is_known_somewhere(key: &str) -> bool {
    ANY.contains(&key)
        || policy::KEYS.contains(&key)
        || KINDS.iter().any(|(_, keys)| keys.contains(&key))
}
