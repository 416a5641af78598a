//! The kinds of steps that hold blocks, and which reader serves which kind.

use std::sync::Arc;

use lope_expr::{Expr, Template};
use lope_model::Value;

use super::fields::{Fields, WorkflowReader};
use super::tree::{NodeId, Shape, YamlEntry};
use crate::definition::{Branch, Case, FailureHandler, OnError, Parallel, StepKind, executor};

const ON_ERROR: [(&str, OnError); 2] = [("fail", OnError::Fail), ("collect", OnError::Collect)];
/// The name of an element whose `each` gives it none.
const ITEM: &str = "item";

impl<'a> WorkflowReader<'a> {
    /// What the step does. `entry` is the key that says so, `fields` are all keys of the step.
    pub(super) fn kind(&mut self, entry: &'a YamlEntry, fields: Fields<'a>) -> StepKind {
        let id = entry.value;
        match &*entry.key {
            executor::ACTION => self.action(id, fields),
            executor::RUN => self.run(id, fields),
            executor::JS => self.js(id, fields),
            executor::HTTP => self.http(id, fields),
            executor::AGENT => self.agent(id, fields),
            "if" => self.if_kind(id, fields),
            "switch" => self.switch(id, fields),
            "each" => self.each(id, fields),
            "while" => self.while_kind(id, fields),
            "try" => self.try_kind(id, fields),
            "race" => StepKind::Race {
                branches: self.branches(id, "race"),
            },
            "all" => StepKind::All {
                branches: self.branches(id, "all"),
                on_error: self.on_error(fields),
            },
            word => self.leaf(word, id, fields),
        }
    }

    fn if_kind(&mut self, id: NodeId, fields: Fields<'a>) -> StepKind {
        let when = self.condition(id, "if");
        let steps = self.required(fields, "steps", "if");
        let then = self.child_of(steps, fields.get("collect"), "steps");
        StepKind::If {
            when,
            then,
            otherwise: fields.get("else").map(|id| self.child(id, "else")),
        }
    }

    fn switch(&mut self, id: NodeId, fields: Fields<'a>) -> StepKind {
        let mut cases = Vec::new();
        for item in self.items(id, "switch") {
            let Some(case) =
                self.fields(*item, "a case of 'switch'", &["when", "steps", "collect"])
            else {
                continue;
            };
            let when = self
                .required(case, "when", "a case of 'switch'")
                .map(|id| self.condition(id, "when"));
            let steps = self.required(case, "steps", "a case of 'switch'");
            let block = self.child_of(steps, case.get("collect"), "steps");
            cases.push(Case {
                when: when.unwrap_or_else(|| Expr::literal(true)),
                block,
            });
        }
        let otherwise = fields.get("else").map(|id| self.child(id, "else"));
        if cases.is_empty() && matches!(self.tree.shape(id), Shape::List(_)) {
            self.refuse(self.tree.at(id), "'switch' needs a case");
            let block = self.child_of(None, None, "steps");
            cases.push(Case {
                when: Expr::literal(true),
                block,
            });
        }
        StepKind::Switch { cases, otherwise }
    }

    fn each(&mut self, id: NodeId, fields: Fields<'a>) -> StepKind {
        let over = self.elements(id);
        let item = fields.get("as").and_then(|id| self.text(id, "as"));
        let index = fields.get("index").and_then(|id| self.text(id, "index"));
        let parallel = fields
            .get("parallel")
            .and_then(|id| self.parallel(id))
            .unwrap_or_default();
        let steps = self.required(fields, "steps", "each");
        let block = self.child_of(steps, fields.get("collect"), "steps");
        let item = item.unwrap_or_else(|| Arc::from(ITEM));
        StepKind::Each {
            over,
            item,
            index,
            parallel,
            block,
            on_error: self.on_error(fields),
            open: false,
        }
    }

    /// What `each` goes over: a list, a map, or an expression that gives one.
    fn elements(&mut self, id: NodeId) -> Template {
        let template = self.template(id);
        match template.as_literal() {
            Some(Value::List(_) | Value::Map(_)) | None => {}
            Some(Value::Str(text)) => {
                let hint = format!("did you mean ${{{{ {text} }}}}?");
                let problem = self.mismatched(id, "each", "a list or an expression");
                self.problems.push(problem.hint(hint));
            }
            Some(_) => self.mismatch(id, "each", "a list or an expression"),
        }
        template
    }

    fn parallel(&mut self, id: NodeId) -> Option<Parallel> {
        let bound = match self.tree.shape(id) {
            Shape::Text(text) if &*text.content == "max" => return Some(Parallel::Max),
            Shape::Plain(Value::Int(bound)) => u32::try_from(*bound).ok(),
            Shape::Plain(_) | Shape::Text(_) | Shape::List(_) | Shape::Map(_) => None,
        };
        match bound {
            Some(1) => Some(Parallel::One),
            Some(bound @ 2..) => Some(Parallel::Upto(bound)),
            Some(0) | None => {
                self.mismatch(id, "parallel", "a whole number from 1 up, or 'max'");
                None
            }
        }
    }

    fn on_error(&mut self, fields: Fields<'a>) -> OnError {
        fields
            .get("on_error")
            .and_then(|id| self.word(id, "on_error", &ON_ERROR))
            .unwrap_or_default()
    }

    fn while_kind(&mut self, id: NodeId, fields: Fields<'a>) -> StepKind {
        let when = self.condition(id, "while");
        let steps = self.required(fields, "steps", "while");
        let block = self.child_of(steps, None, "steps");
        StepKind::While {
            when,
            block,
            max: fields.get("max").and_then(|id| self.count(id, "max", 1)),
        }
    }

    fn try_kind(&mut self, id: NodeId, fields: Fields<'a>) -> StepKind {
        let block = self.child(id, "try");
        let handlers = fields
            .get("catch")
            .map(|id| self.handlers(id))
            .unwrap_or_default();
        let finally = fields.get("finally").map(|id| self.child(id, "finally"));
        if fields.get("catch").is_none() && finally.is_none() {
            let problem = self.problem(
                fields.at,
                "'try' without 'catch' and 'finally' changes nothing",
            );
            self.problems
                .push(problem.hint("add 'catch: [{steps: {…}}]' or 'finally: {…}'"));
        }
        StepKind::Try {
            block,
            handlers,
            finally,
        }
    }

    /// A list of handlers, or a single one.
    fn handlers(&mut self, id: NodeId) -> Vec<FailureHandler> {
        let items = match self.tree.shape(id) {
            Shape::Map(_) => vec![id],
            Shape::List(_) | Shape::Plain(_) | Shape::Text(_) => self.items(id, "catch").to_vec(),
        };
        let mut handlers: Vec<FailureHandler> = Vec::new();
        for item in items {
            let Some(fields) = self.fields(
                item,
                "a handler of 'catch'",
                &["match", "as", "steps", "collect"],
            ) else {
                continue;
            };
            if handlers
                .last()
                .is_some_and(|before| before.matches.is_empty())
            {
                self.refuse(
                    fields.at,
                    "this handler is never reached: the one before it catches everything",
                );
            }
            let matches = fields
                .get("match")
                .map(|id| self.texts(id, "match"))
                .unwrap_or_default();
            let name = fields.get("as").and_then(|id| self.text(id, "as"));
            let steps = self.required(fields, "steps", "a handler of 'catch'");
            let block = self.child_of(steps, fields.get("collect"), "steps");
            handlers.push(FailureHandler {
                matches: matches.into_iter().map(|(name, _)| name).collect(),
                name,
                block,
            });
        }
        handlers
    }

    fn branches(&mut self, id: NodeId, what: &str) -> Vec<Branch> {
        let entries = self.map(id, what).map_or(&[][..], |fields| fields.entries);
        if entries.is_empty() && matches!(self.tree.shape(id), Shape::Map(_)) {
            self.refuse(self.tree.at(id), format!("'{what}' needs a branch"));
        }
        let branches = entries.iter().map(|entry| {
            let block = self.child(entry.value, &entry.key);
            Branch {
                name: Arc::clone(&entry.key),
                block,
            }
        });
        let mut branches: Vec<Branch> = branches.collect();
        if branches.is_empty() {
            // What the checker would say again has been said.
            branches.push(Branch {
                name: "branch".into(),
                block: self.child_of(None, None, what),
            });
        }
        branches
    }
}
