//! What is written on a step: its name, its kind and what matters of the rest, short enough to be
//! read at a glance.

use lope_definition::{
    Block, BlockId, DispatchSpec, FailureHandler, Parallel, Recipient, Role, Step, StepKind,
    executor,
};
use lope_expr::{Expr, Node, Template};
use lope_model::Value;

/// Longest text of one line of a label, in characters.
const LINE_MAX: usize = 44;

/// The texts of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Label {
    pub(super) name: String,
    /// The key under which users write it.
    pub(super) kind: String,
    pub(super) detail: String,
    /// The condition of the step, if it has one.
    pub(super) when: Option<String>,
}

impl Label {
    /// Kind and detail in one line.
    pub(super) fn line(&self) -> String {
        cut(format!("{} {}", self.kind, self.detail).trim_end())
    }

    /// The title of a step that holds others.
    pub(super) fn title(&self) -> String {
        let when = self
            .when
            .as_ref()
            .map(|when| format!(" · {when}"))
            .unwrap_or_default();
        format!("{} · {}{when}", self.name, self.line())
    }
}

pub(super) fn of(step: &Step) -> Label {
    Label {
        name: step.name.to_string(),
        kind: step.kind.word().to_owned(),
        detail: cut(&detail(&step.kind)),
        when: step
            .when
            .as_ref()
            .map(|when| cut(&format!("when {}", expression(when)))),
    }
}

fn detail(kind: &StepKind) -> String {
    match kind {
        StepKind::Dispatch(dispatch) => work(dispatch),
        StepKind::Let { value } | StepKind::Return { value } => template(value),
        StepKind::If { when, .. } | StepKind::While { when, .. } => expression(when),
        StepKind::Switch { .. }
        | StepKind::Try { .. }
        | StepKind::Race { .. }
        | StepKind::All { .. }
        | StepKind::Break
        | StepKind::Continue => String::new(),
        StepKind::Each {
            over,
            item,
            parallel,
            ..
        } => format!("{} as {item}{}", template(over), at_once(*parallel)),
        StepKind::Sleep { span } => template(span),
        StepKind::Until { time } => template(time),
        StepKind::Wait {
            signal, timeout, ..
        } => {
            let timeout = timeout
                .as_ref()
                .map(|timeout| format!(", at most {}", template(timeout)));
            format!("{}{}", template(signal), timeout.unwrap_or_default())
        }
        StepKind::Workflow {
            workflow, detach, ..
        } => {
            format!(
                "{}{}",
                template(workflow),
                if *detach { ", detached" } else { "" }
            )
        }
        StepKind::Send {
            to: Recipient::Mailbox,
            target,
            ..
        } => format!("to mailbox {}", template(target)),
        StepKind::Send {
            to: Recipient::Run,
            target,
            ..
        } => format!("to run {}", template(target)),
        StepKind::State { next, .. } => template(next),
        StepKind::Raise { error } => {
            entry(error, "type").map_or_else(|| template(error), |kind| expression(&kind))
        }
        StepKind::Call { function, .. } => format!("function {}", function.0),
    }
}

fn work(dispatch: &DispatchSpec) -> String {
    let said = |key: &str| entry(&dispatch.with, key).map(|expr| expression(&expr));
    match &*dispatch.executor {
        executor::RUN => said("argv")
            .map(|argv| argv_line(&dispatch.with).unwrap_or(argv))
            .or(said("command"))
            .unwrap_or_default(),
        executor::JS => said("source").unwrap_or_default(),
        executor::HTTP => {
            format!(
                "{} {}",
                said("method").unwrap_or_else(|| "GET".into()),
                said("url").unwrap_or_default()
            )
        }
        executor::AGENT => said("prompt").unwrap_or_default(),
        _ => dispatch.action.to_string(),
    }
}

/// The arguments of a program as one would type them.
fn argv_line(with: &Template) -> Option<String> {
    let argv = entry(with, "argv")?;
    let words: Vec<String> = match &argv.node {
        Node::Literal(Value::List(items)) => items.iter().map(plain).collect(),
        Node::List(items) => items.iter().map(expression).collect(),
        _ => return None,
    };
    Some(words.join(" "))
}

/// An entry of a template that is a map.
fn entry(template: &Template, key: &str) -> Option<Expr> {
    match &template.expr().node {
        Node::Literal(value) => value.get(key).map(|value| Expr::literal(value.clone())),
        Node::Map(entries) => {
            let found = entries
                .iter()
                .find(|(name, _)| name.as_literal().and_then(Value::as_str) == Some(key));
            found.map(|(_, value)| value.clone())
        }
        _ => None,
    }
}

fn at_once(parallel: Parallel) -> String {
    match parallel {
        Parallel::One | Parallel::Upto(0 | 1) => String::new(),
        Parallel::Upto(bound) => format!(", {bound} at once"),
        Parallel::Max => ", all at once".into(),
    }
}

fn template(template: &Template) -> String {
    expression(template.expr())
}

/// An expression as it would be written; a literal as plain as it is read.
fn expression(expr: &Expr) -> String {
    match &expr.node {
        Node::Literal(value) => plain(value),
        Node::Text(parts) => parts.iter().map(part).collect(),
        _ => expr.to_string(),
    }
}

/// A part of a text, as in a workflow file.
fn part(expr: &Expr) -> String {
    expr.as_literal()
        .map_or_else(|| format!("${{{{ {expr} }}}}"), plain)
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// One line, not too long.
pub(super) fn cut(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LINE_MAX {
        return line;
    }
    line.chars().take(LINE_MAX - 1).chain(['…']).collect()
}

/// What a block is to its step, where that is not plain.
pub(super) fn role(kind: &StepKind, role: Role) -> Option<String> {
    match (kind, role) {
        (StepKind::If { otherwise, .. }, Role::Then) => otherwise.map(|_| "then".into()),
        (_, Role::Else) => Some("else".into()),
        (StepKind::Switch { cases, .. }, Role::Case(index)) => {
            Some(cut(&format!("when {}", expression(&cases[index].when))))
        }
        (StepKind::Try { .. }, Role::Body) => Some("try".into()),
        (StepKind::Try { handlers, .. }, Role::Handler(index)) => Some(handler(&handlers[index])),
        (StepKind::Try { .. }, Role::Finally) => Some("finally".into()),
        (StepKind::Race { branches } | StepKind::All { branches, .. }, Role::Branch(index)) => {
            Some(branches[index].name.to_string())
        }
        _ => None,
    }
}

fn handler(handler: &FailureHandler) -> String {
    let types = if handler.matches.is_empty() {
        String::new()
    } else {
        format!(" {}", handler.matches.join(", "))
    };
    let name = handler
        .name
        .as_ref()
        .map(|name| format!(" as {name}"))
        .unwrap_or_default();
    cut(&format!("catch{types}{name}"))
}

pub(super) fn function(block: &Block, id: BlockId) -> String {
    let parameters = block.parameters.as_deref().unwrap_or_default();
    cut(&format!("function {}({})", id.0, parameters.join(", ")))
}
