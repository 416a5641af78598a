//! Values with `${{ … }}` off the tree: templates, conditions, and the checks that a literal allows
//! at once.
//!
//! Every place inside an expression is one in the file, whatever quotes, escapes or block texts
//! stand around it.

use std::sync::Arc;

use lope_expr::{self as expr, Expr, Node, Origin, SyntaxError, Template, TextLocation};
use lope_model::{Span, Timestamp, Value, limit};

use super::fields::WorkflowReader;
use super::source_map::SourceMap;
use super::tree::{NodeId, Shape, Text};

const OPEN: &str = "${{";

impl WorkflowReader<'_> {
    /// Any value; what cannot be read is noted and stands as null.
    pub(super) fn template(&mut self, id: NodeId) -> Template {
        if self.tree.node(id).depth as usize > limit::DEPTH_MAX {
            let at = self.tree.at(id);
            self.refuse(
                at,
                format!("values are nested at most {} levels deep", limit::DEPTH_MAX),
            );
            return Template::default();
        }
        Template::new(self.expr_of(id))
    }

    /// Depth is checked by `template`.
    fn expr_of(&mut self, id: NodeId) -> Expr {
        let at = self.tree.at(id);
        match self.tree.shape(id) {
            Shape::Plain(value) => Expr::literal(value.clone()).at(at),
            Shape::Text(text) => self.text_expr(text, at),
            Shape::List(items) => {
                let items: Vec<Expr> = items.iter().map(|item| self.expr_of(*item)).collect();
                list(items).at(at)
            }
            Shape::Map(entries) => {
                let entries: Vec<(Arc<str>, Expr)> = entries
                    .iter()
                    .map(|entry| (Arc::clone(&entry.key), self.expr_of(entry.value)))
                    .collect();
                map(entries).at(at)
            }
        }
    }

    fn text_expr(&mut self, text: &Text, at: TextLocation) -> Expr {
        if !text.content.contains(OPEN) {
            return Expr::literal(Value::Str(Arc::clone(&text.content))).at(at);
        }
        let read = Template::parse_text(&text.content, Origin::START).map(Template::into_expr);
        self.placed(text, at, read)
    }

    /// Moves the places of an expression from its text to the file.
    fn placed(&mut self, text: &Text, at: TextLocation, read: Result<Expr, SyntaxError>) -> Expr {
        let source_map = SourceMap::of(self.source, text, at);
        match read {
            Ok(mut expr) => {
                expr.relocate(&|at| source_map.find(at));
                if expr.at.is_known() {
                    expr
                } else {
                    expr.at(at)
                }
            }
            Err(error) => {
                let mut problem = self.problem(source_map.find(error.at), error.message);
                problem.hint = error.hint;
                self.problems.push(problem);
                Expr::literal(Value::Null)
            }
        }
    }

    /// A condition: one expression, in `${{ … }}` or bare, or the words true and false.
    pub(super) fn condition(&mut self, id: NodeId, what: &str) -> Expr {
        let at = self.tree.at(id);
        match self.tree.shape(id) {
            Shape::Plain(value @ Value::Bool(_)) => Expr::literal(value.clone()).at(at),
            Shape::Text(text) if text.content.contains(OPEN) => {
                let before = self.problems.len();
                let expr = self.text_expr(text, at);
                if matches!(expr.node, Node::Text(_) | Node::Literal(Value::Str(_)))
                    && self.problems.len() == before
                {
                    let problem = self.problem(
                        at,
                        format!("'{what}' takes one expression, not a text around one"),
                    );
                    self.problems
                        .push(problem.hint("put the whole condition inside ${{ … }}"));
                }
                expr
            }
            Shape::Text(text) => {
                let read = expr::parse(&text.content);
                self.placed(text, at, read)
            }
            Shape::Plain(_) | Shape::List(_) | Shape::Map(_) => {
                self.mismatch(id, what, "an expression");
                Expr::literal(true)
            }
        }
    }

    /// A duration: `5m`, a number of seconds, or an expression that gives one.
    pub(super) fn span_template(&mut self, id: NodeId, what: &str) -> Template {
        let template = self.template(id);
        match template.as_literal() {
            Some(Value::Str(text)) => {
                let text = Arc::clone(text);
                self.parsed::<Span>(id, &text);
            }
            Some(Value::Int(number)) if *number >= 0 => {}
            Some(Value::Float(number)) if *number >= 0.0 && number.is_finite() => {}
            Some(_) => self.mismatch(id, what, "a duration such as 5m, or seconds"),
            None => {}
        }
        template
    }

    /// A time: RFC 3339, milliseconds since 1970, or an expression that gives one.
    pub(super) fn time_template(&mut self, id: NodeId, what: &str) -> Template {
        let template = self.template(id);
        match template.as_literal() {
            Some(Value::Str(text)) => {
                let text = Arc::clone(text);
                self.parsed::<Timestamp>(id, &text);
            }
            Some(Value::Int(_)) | None => {}
            Some(_) => self.mismatch(id, what, "a time such as 2026-01-31T09:30:00Z"),
        }
        template
    }

    /// A text, or an expression that may give one.
    pub(super) fn text_template(&mut self, id: NodeId, what: &str) -> Template {
        let template = self.template(id);
        match template.as_literal() {
            Some(Value::Str(text)) if text.is_empty() => {
                self.refuse(self.tree.at(id), format!("'{what}' is empty"));
            }
            Some(Value::Str(_)) | None => {}
            Some(_) => self.mismatch(id, what, "a text"),
        }
        template
    }

    /// A map, or an expression that may give one.
    pub(super) fn map_template(&mut self, id: NodeId, what: &str) -> Template {
        let template = self.template(id);
        if !matches!(self.tree.shape(id), Shape::Map(_)) && template.as_literal().is_some() {
            self.mismatch(id, what, "a map");
        }
        template
    }
}

/// A map of the parts that are there.
pub(super) fn object(parts: Vec<(&str, Option<Template>)>) -> Template {
    let there = parts
        .into_iter()
        .filter_map(|(key, part)| Some((Arc::from(key), part?.into_expr())));
    Template::new(map(there.collect()))
}

/// A list of expressions: a literal if all of them are.
fn list(items: Vec<Expr>) -> Expr {
    let values: Option<Vec<Value>> = items
        .iter()
        .map(|item| item.as_literal().cloned())
        .collect();
    match values {
        Some(values) => Expr::literal(Value::list(values)),
        None => Expr::new(Node::List(items)),
    }
}

/// A map of expressions: a literal if all of them are.
fn map(entries: Vec<(Arc<str>, Expr)>) -> Expr {
    if entries
        .iter()
        .all(|(_, value)| value.as_literal().is_some())
    {
        let values = entries
            .into_iter()
            .map(|(key, value)| (key, value.as_literal().cloned().unwrap_or_default()));
        return Expr::literal(Value::map(values));
    }
    let entries = entries
        .into_iter()
        .map(|(key, value)| (Expr::literal(Value::Str(key)), value));
    Expr::new(Node::Map(entries.collect()))
}
