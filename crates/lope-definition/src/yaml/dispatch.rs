//! The kinds of steps that give work to a worker, and the arguments each kind of worker gets:
//!
//! | kind | action | arguments |
//! |---|---|---|
//! | `action` | its name | `with` as it is |
//! | `run` | `run` | `argv` (a list) or `command` (a text for a shell), `cwd`, `env`, `stdin`, `shell` |
//! | `js` | `js` | `source`, `with` |
//! | `http` | `http` | `method`, `url`, `headers`, `body`, `accept` |
//! | `agent` | `agent` | `prompt`, `agent`, `cwd`, `role`, `budget`, `silence` |

use lope_expr::{Expr, Template};
use lope_model::{Span, Value};

use super::fields::{Fields, WorkflowReader};
use super::templates::object;
use super::tree::{NodeId, Shape};
use crate::definition::{DispatchSpec, StepKind, executor};

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

impl<'a> WorkflowReader<'a> {
    pub(super) fn action(&mut self, id: NodeId, fields: Fields<'a>) -> StepKind {
        let action = self.text(id, "action").unwrap_or_else(|| "".into());
        if action.is_empty() && self.as_text(id).is_some_and(|text| text.content.is_empty()) {
            self.refuse(self.tree.at(id), "'action' is empty");
        }
        let with = fields.get("with").map(|id| self.template(id));
        let with = with.unwrap_or_else(|| Template::literal(Value::map::<&str>([])));
        StepKind::Dispatch(DispatchSpec {
            executor: executor::ACTION.into(),
            action,
            with,
            heap: false,
        })
    }

    pub(super) fn run(&mut self, id: NodeId, fields: Fields<'a>) -> StepKind {
        let (key, program) = self.program(id);
        if key == "argv"
            && let Some(shell) = fields.entry("shell")
        {
            let problem = self.problem(
                shell.at,
                "'shell' needs a command as one text; a list is run without a shell",
            );
            self.problems.push(problem);
        }
        let env = fields.get("env").map(|id| self.map_template(id, "env"));
        let shell = fields
            .get("shell")
            .map(|id| self.text_template(id, "shell"));
        let cwd = fields.get("cwd").map(|id| self.text_template(id, "cwd"));
        let stdin = fields.get("stdin").map(|id| self.template(id));
        let with = object(vec![
            (key, Some(program)),
            ("cwd", cwd),
            ("env", env),
            ("stdin", stdin),
            ("shell", shell),
        ]);
        dispatch(executor::RUN, with)
    }

    /// A list is a program and its arguments, a text is for a shell.
    fn program(&mut self, id: NodeId) -> (&'static str, Template) {
        match self.tree.shape(id) {
            Shape::List(items) => {
                if items.is_empty() {
                    self.refuse(self.tree.at(id), "'run' needs a program");
                }
                for item in items {
                    if matches!(
                        self.tree.shape(*item),
                        Shape::List(_) | Shape::Map(_) | Shape::Plain(Value::Null)
                    ) {
                        self.mismatch(*item, "run", "texts and numbers as arguments");
                    }
                }
                ("argv", self.template(id))
            }
            Shape::Text(_) => ("command", self.text_template(id, "run")),
            Shape::Plain(_) | Shape::Map(_) => {
                self.mismatch(id, "run", "a list of arguments or a text for a shell");
                ("argv", Template::default())
            }
        }
    }

    /// The source is not a template: JavaScript has its own use for `${`.
    pub(super) fn js(&mut self, id: NodeId, fields: Fields<'a>) -> StepKind {
        let source = self.as_text(id).map(|text| Expr::literal(&*text.content));
        if source.is_none() {
            self.mismatch(id, "js", "a text");
        }
        let with = fields.get("with").map(|id| self.template(id));
        let with = object(vec![("source", source.map(Template::new)), ("with", with)]);
        dispatch(executor::JS, with)
    }

    /// A request, or the address of a page to get.
    pub(super) fn http(&mut self, id: NodeId, fields: Fields<'a>) -> StepKind {
        if self.as_text(id).is_some() {
            let url = self.text_template(id, "http");
            let accept = fields.get("accept").map(|id| self.accept(id));
            let with = object(vec![("url", Some(url)), ("accept", accept)]);
            return dispatch(executor::HTTP, with);
        }
        let keys = ["method", "url", "headers", "body", "accept"];
        let Some(request) = self.fields(id, "'http'", &keys) else {
            return dispatch(executor::HTTP, Template::default());
        };
        self.required(request, "url", "http");
        let method = request.get("method").map(|id| self.method(id));
        let url = request.get("url").map(|id| self.text_template(id, "url"));
        let headers = request
            .get("headers")
            .map(|id| self.map_template(id, "headers"));
        let body = request.get("body").map(|id| self.template(id));
        let accept = request
            .get("accept")
            .or(fields.get("accept"))
            .map(|id| self.accept(id));
        let with = object(vec![
            ("method", method),
            ("url", url),
            ("headers", headers),
            ("body", body),
            ("accept", accept),
        ]);
        dispatch(executor::HTTP, with)
    }

    fn method(&mut self, id: NodeId) -> Template {
        let template = self.text_template(id, "method");
        if let Some(Value::Str(method)) = template.as_literal().cloned()
            && !METHODS.contains(&&*method)
        {
            let problem = self.problem(self.tree.at(id), format!("'{method}' is not a method"));
            self.problems
                .push(problem.did_you_mean(&method.to_uppercase(), METHODS));
        }
        template
    }

    /// Statuses that are no failure: numbers, or classes such as `4xx`.
    fn accept(&mut self, id: NodeId) -> Template {
        let items = match self.tree.shape(id) {
            Shape::List(items) => items.clone(),
            Shape::Plain(_) | Shape::Text(_) | Shape::Map(_) => vec![id],
        };
        for item in &items {
            let fits = match self.tree.shape(*item) {
                Shape::Plain(Value::Int(status)) => (100..=599).contains(status),
                Shape::Text(text) => {
                    text.content.contains("${{")
                        || matches!(&*text.content, "1xx" | "2xx" | "3xx" | "4xx" | "5xx")
                }
                Shape::Plain(_) | Shape::List(_) | Shape::Map(_) => false,
            };
            if !fits {
                self.mismatch(*item, "accept", "statuses such as 404 or 4xx");
            }
        }
        let template = self.template(id);
        let single = !matches!(self.tree.shape(id), Shape::List(_));
        match template.as_literal().filter(|_| single) {
            Some(status) => Template::literal(Value::list(vec![status.clone()])),
            None => template,
        }
    }

    /// A task for an agent, or just its prompt.
    pub(super) fn agent(&mut self, id: NodeId, fields: Fields<'a>) -> StepKind {
        let budget = fields.get("budget").map(|id| self.budget(id));
        let silence = fields.get("silence").map(|id| self.silence(id));
        let mut parts = vec![("budget", budget), ("silence", silence)];
        if self.as_text(id).is_some() {
            parts.push(("prompt", Some(self.text_template(id, "agent"))));
        } else if let Some(task) = self.fields(id, "'agent'", &["prompt", "agent", "cwd", "role"]) {
            // In the workflow of a task, a role alone means the task's own prompt.
            if task.get("role").is_none() {
                self.required(task, "prompt", "agent");
            }
            for key in ["prompt", "agent", "cwd", "role"] {
                parts.push((key, task.get(key).map(|id| self.text_template(id, key))));
            }
        }
        let with = object(parts);
        dispatch(executor::AGENT, with)
    }

    /// What an agent may cost, or an expression that tells it.
    fn budget(&mut self, id: NodeId) -> Template {
        let template = self.template(id);
        let fits = match template.as_literal() {
            Some(Value::Int(dollars)) => *dollars > 0,
            Some(Value::Float(dollars)) => *dollars > 0.0 && dollars.is_finite(),
            Some(Value::Null) | None => true,
            Some(_) => false,
        };
        if !fits {
            self.mismatch(id, "budget", "an amount of dollars, more than nothing");
        }
        template
    }

    /// How long an agent may say nothing. It is longer than nothing.
    fn silence(&mut self, id: NodeId) -> Template {
        let template = self.span_template(id, "silence");
        let is_none = match template.as_literal() {
            Some(Value::Str(text)) => text.parse::<Span>() == Ok(Span::ZERO),
            Some(Value::Int(seconds)) => *seconds == 0,
            Some(Value::Float(seconds)) => (0.0..0.001).contains(seconds),
            Some(_) | None => false,
        };
        if is_none {
            self.mismatch(id, "silence", "a duration longer than nothing, such as 10m");
        }
        template
    }
}

/// Work of a kind that has one action only.
fn dispatch(executor: &str, with: Template) -> StepKind {
    StepKind::Dispatch(DispatchSpec {
        executor: executor.into(),
        action: executor.into(),
        with,
        heap: false,
    })
}
