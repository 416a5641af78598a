//! The kinds of steps that hold no blocks and need no worker.

use lope_expr::Template;
use lope_model::Value;

use super::fields::{Fields, WorkflowReader};
use super::templates::object;
use super::tree::{NodeId, Shape};
use crate::definition::{Recipient, StepKind};

const MAILBOX: [&str; 7] = [
    "mailbox", "payload", "id", "kind", "dedupe", "priority", "at",
];
const RUN: [&str; 4] = ["run", "signal", "value", "id"];

impl<'a> WorkflowReader<'a> {
    pub(super) fn leaf(&mut self, word: &str, id: NodeId, fields: Fields<'a>) -> StepKind {
        match word {
            "sleep" => StepKind::Sleep {
                span: self.span_template(id, "sleep"),
            },
            "until" => StepKind::Until {
                time: self.time_template(id, "until"),
            },
            "wait" => self.wait(id, fields),
            "workflow" => self.workflow_kind(id, fields),
            "send" => self.send(id),
            "state" => self.state(id),
            "return" => StepKind::Return {
                value: self.template(id),
            },
            "raise" => self.raise(id),
            "break" => self.bare(id, "break", StepKind::Break),
            "continue" => self.bare(id, "continue", StepKind::Continue),
            _ => StepKind::Let {
                value: self.template(id),
            },
        }
    }

    /// A kind that is only a word.
    fn bare(&mut self, id: NodeId, word: &str, kind: StepKind) -> StepKind {
        if !matches!(
            self.tree.shape(id),
            Shape::Plain(Value::Null | Value::Bool(true))
        ) {
            let problem = self.mismatched(id, word, "nothing");
            self.problems
                .push(problem.hint(format!("write '{word}:' or just the word as the step")));
        }
        kind
    }

    fn wait(&mut self, id: NodeId, fields: Fields<'a>) -> StepKind {
        let signal = self.text_template(id, "wait");
        let timeout = fields
            .get("timeout")
            .map(|id| self.span_template(id, "timeout"));
        let default = fields.get("default").map(|id| self.template(id));
        if let (Some(entry), None) = (fields.entry("default"), &timeout) {
            self.refuse(
                entry.at,
                "'default' is never used: 'wait' without 'timeout' waits for ever",
            );
        }
        StepKind::Wait {
            signal,
            timeout,
            default,
        }
    }

    fn workflow_kind(&mut self, id: NodeId, fields: Fields<'a>) -> StepKind {
        let workflow = self.text_template(id, "workflow");
        let with = fields
            .get("with")
            .map(|id| self.template(id))
            .unwrap_or_default();
        let detach = fields
            .get("detach")
            .and_then(|id| self.boolean(id, "detach"))
            .unwrap_or_default();
        StepKind::Workflow {
            workflow,
            with,
            detach,
        }
    }

    fn send(&mut self, id: NodeId) -> StepKind {
        let fallback = StepKind::Let {
            value: Template::default(),
        };
        let Some(fields) = self.map(id, "send") else {
            return fallback;
        };
        match (fields.get("mailbox"), fields.get("run")) {
            (Some(target), None) => {
                let Some(fields) = self.fields(id, "'send' to a mailbox", &MAILBOX) else {
                    return fallback;
                };
                self.required(fields, "payload", "send");
                self.message_words(fields);
                let target = self.text_template(target, "mailbox");
                StepKind::Send {
                    to: Recipient::Mailbox,
                    target,
                    body: self.body_of(fields, &MAILBOX[1..]),
                }
            }
            (None, Some(target)) => {
                let Some(fields) = self.fields(id, "'send' to a run", &RUN) else {
                    return fallback;
                };
                self.required(fields, "signal", "send");
                let target = self.text_template(target, "run");
                StepKind::Send {
                    to: Recipient::Run,
                    target,
                    body: self.body_of(fields, &RUN[1..]),
                }
            }
            (Some(_), Some(_)) => {
                self.refuse(
                    fields.at,
                    "'send' goes to a 'mailbox' or to a 'run', not to both",
                );
                fallback
            }
            (None, None) => {
                let problem = self.problem(fields.at, "'send' does not say where to");
                self.problems
                    .push(problem.hint("add 'mailbox: NAME' or 'run: ID'"));
                fallback
            }
        }
    }

    fn message_words(&mut self, fields: Fields<'a>) {
        let is_plain = |reader: &Self, id| {
            reader
                .as_text(id)
                .is_none_or(|text| !text.content.contains("${{"))
        };
        if let Some(id) = fields.get("kind").filter(|id| is_plain(self, *id)) {
            self.word(id, "kind", &[("command", ()), ("event", ())]);
        }
        for key in ["dedupe", "priority"] {
            if let Some(id) = fields.get(key).filter(|id| is_plain(self, *id)) {
                self.boolean(id, key);
            }
        }
        if let Some(id) = fields.get("at").filter(|id| is_plain(self, *id)) {
            self.time_template(id, "at");
        }
    }

    fn body_of(&mut self, fields: Fields<'a>, keys: &[&'static str]) -> Template {
        let parts: Vec<_> = keys
            .iter()
            .map(|key| (*key, fields.get(key).map(|id| self.template(id))))
            .collect();
        object(parts)
    }

    fn state(&mut self, id: NodeId) -> StepKind {
        let fields = self.fields(id, "'state'", &["init", "next", "value"]);
        let init = fields
            .and_then(|fields| fields.get("init"))
            .map(|id| self.template(id))
            .unwrap_or_default();
        let next = fields.and_then(|fields| self.required(fields, "next", "state"));
        let next = next.map(|id| self.template(id)).unwrap_or_default();
        let value = fields
            .and_then(|fields| fields.get("value"))
            .map(|id| self.template(id));
        StepKind::State {
            init,
            next,
            value,
            action: None,
        }
    }

    fn raise(&mut self, id: NodeId) -> StepKind {
        if matches!(self.tree.shape(id), Shape::Map(_)) {
            let fields = self.fields(id, "'raise'", &["type", "message", "detail"]);
            if let Some(fields) = fields {
                self.required(fields, "type", "raise");
            }
            return StepKind::Raise {
                error: self.template(id),
            };
        }
        let error = self.template(id);
        if !matches!(error.as_literal(), None | Some(Value::Str(_))) {
            self.mismatch(id, "raise", "{type, message}, a text or an expression");
        }
        StepKind::Raise { error }
    }
}
