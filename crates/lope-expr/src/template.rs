//! Templates: values whose texts may hold `${{ … }}`.
//!
//! A text that is one expression keeps that expression's type; any other is put together as text. A
//! template is stored as the expression it stands for, so the law evaluates one thing only. `$${{`
//! stands for a literal `${{`.

use std::fmt;

use lope_model::Value;
use lope_values::{EvalError, Fuel, TextLocation};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::DEPTH_MAX;
use super::eval::eval;
use super::parser::parse_at;
use super::scope::Scope;
use super::tree::{Expr, Node};
use crate::error::SyntaxError;

const OPEN: &str = "${{";
const CLOSE: &str = "}}";

/// A value with expressions in it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Template(Expr);

/// A step into a value: the key of an entry, or the index of an item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PathPart {
    Key(String),
    Index(usize),
}

/// Where a text stands in its file: the place of its first character, and how many columns its
/// later lines are indented.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Origin {
    pub line: u32,
    pub column: u32,
    pub indent: u32,
}

/// A text in a value that is not a template.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{error}", PathText(path))]
pub struct TemplateError {
    /// Which text of the value.
    pub path: Vec<PathPart>,
    /// What is wrong with it; positions count from the text's start, or from the file's if its
    /// origin was known.
    pub error: SyntaxError,
}

impl Template {
    pub const fn new(expr: Expr) -> Self {
        Self(expr)
    }

    pub fn literal(value: impl Into<Value>) -> Self {
        Self(Expr::literal(value))
    }

    /// Reads a value; positions count from the start of each text.
    pub fn parse(value: &Value) -> Result<Self, TemplateError> {
        Self::parse_in(value, &|_| Origin::START)
    }

    /// Reads a value out of a file: `origin` says where the text at a path stands.
    pub fn parse_in(
        value: &Value,
        origin: &dyn Fn(&[PathPart]) -> Origin,
    ) -> Result<Self, TemplateError> {
        TemplateParser {
            path: Vec::new(),
            origin,
        }
        .read(value)
        .map(Self)
    }

    /// Reads one text.
    pub fn parse_text(text: &str, origin: Origin) -> Result<Self, SyntaxError> {
        read_text(text, origin).map(Self)
    }

    pub const fn expr(&self) -> &Expr {
        &self.0
    }

    pub const fn expr_mut(&mut self) -> &mut Expr {
        &mut self.0
    }

    pub fn into_expr(self) -> Expr {
        self.0
    }

    /// The value, if there is nothing to evaluate.
    pub fn as_literal(&self) -> Option<&Value> {
        self.0.as_literal()
    }

    pub fn eval(&self, scope: &dyn Scope, fuel: &mut Fuel) -> Result<Value, EvalError> {
        eval(&self.0, scope, fuel)
    }
}

impl From<Expr> for Template {
    fn from(expr: Expr) -> Self {
        Self(expr)
    }
}

impl Default for Template {
    fn default() -> Self {
        Self::literal(Value::Null)
    }
}

impl Origin {
    pub const START: Self = Self {
        line: 1,
        column: 1,
        indent: 0,
    };

    /// The place in the file of a place in the text.
    pub fn location(self, at: TextLocation) -> TextLocation {
        let shift = if at.line == 1 {
            self.column.saturating_sub(1)
        } else {
            self.indent
        };
        TextLocation::new(
            self.line.saturating_add(at.line).saturating_sub(1),
            at.column.saturating_add(shift),
        )
    }
}

struct TemplateParser<'a> {
    path: Vec<PathPart>,
    origin: &'a dyn Fn(&[PathPart]) -> Origin,
}

impl TemplateParser<'_> {
    fn read(&mut self, value: &Value) -> Result<Expr, TemplateError> {
        if !holds_expression(value) {
            return Ok(Expr::literal(value.clone()));
        }
        match value {
            Value::Str(text) => {
                read_text(text, (self.origin)(&self.path)).map_err(|error| self.error(error))
            }
            Value::List(items) => {
                let items = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| self.at(PathPart::Index(index), item));
                Ok(Expr::new(Node::List(items.collect::<Result<_, _>>()?)))
            }
            Value::Map(map) => {
                let entries = map.iter().map(|(key, item)| {
                    let value = self.at(PathPart::Key(key.to_string()), item)?;
                    Ok((Expr::literal(Value::Str(key.clone())), value))
                });
                Ok(Expr::new(Node::Map(
                    entries.collect::<Result<_, TemplateError>>()?,
                )))
            }
            _ => Ok(Expr::literal(value.clone())),
        }
    }

    fn at(&mut self, part: PathPart, value: &Value) -> Result<Expr, TemplateError> {
        self.path.push(part);
        let expr = self.read(value)?;
        if self.path.len() + expr.depth() > DEPTH_MAX {
            let message = format!("a template nested deeper than {DEPTH_MAX} levels");
            return Err(self.error(SyntaxError {
                offset: 0,
                at: expr.at,
                message,
                hint: None,
            }));
        }
        self.path.pop();
        Ok(expr)
    }

    fn error(&self, error: SyntaxError) -> TemplateError {
        TemplateError {
            path: self.path.clone(),
            error,
        }
    }
}

/// Is there anything to evaluate in a value (at most as deep as values are allowed to be)?
fn holds_expression(value: &Value) -> bool {
    match value {
        Value::Str(text) => text.contains(OPEN),
        Value::List(items) => items.iter().any(holds_expression),
        Value::Map(map) => map.values().any(holds_expression),
        _ => false,
    }
}

fn read_text(text: &str, origin: Origin) -> Result<Expr, SyntaxError> {
    let mut parts = Parts {
        text,
        origin,
        done: 0,
        literal: String::new(),
        exprs: Vec::new(),
    };
    while let Some(open) = text[parts.done..]
        .find(OPEN)
        .map(|found| parts.done + found)
    {
        if text[..open].ends_with('$') {
            parts.literal.push_str(&text[parts.done..open - 1]);
            parts.literal.push_str(OPEN);
            parts.done = open + OPEN.len();
        } else {
            parts.literal.push_str(&text[parts.done..open]);
            parts.expression(open)?;
        }
    }
    Ok(parts.finish())
}

struct Parts<'a> {
    text: &'a str,
    origin: Origin,
    done: usize,
    literal: String,
    exprs: Vec<Expr>,
}

impl Parts<'_> {
    fn expression(&mut self, open: usize) -> Result<(), SyntaxError> {
        self.flush();
        let start = open + OPEN.len();
        let (mut expr, end) =
            parse_at(self.text, start, CLOSE).map_err(|error| self.moved(error))?;
        expr.relocate(&|at| self.origin.location(at));
        self.exprs.push(expr);
        self.done = end + CLOSE.len();
        Ok(())
    }

    fn moved(&self, mut error: SyntaxError) -> SyntaxError {
        error.at = self.origin.location(error.at);
        error
    }

    fn flush(&mut self) {
        if !self.literal.is_empty() {
            self.exprs
                .push(Expr::literal(std::mem::take(&mut self.literal)));
        }
    }

    fn finish(mut self) -> Expr {
        self.literal.push_str(&self.text[self.done..]);
        self.flush();
        if self.exprs.len() == 1 {
            return self.exprs.remove(0);
        }
        let at = self
            .exprs
            .iter()
            .map(|expr| expr.at)
            .find(|at| at.is_known())
            .unwrap_or_default();
        Expr::new(Node::Text(self.exprs)).at(at)
    }
}

struct PathText<'a>(&'a [PathPart]);

impl fmt::Display for PathText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            match part {
                PathPart::Key(key) if index == 0 => f.write_str(key)?,
                PathPart::Key(key) => write!(f, ".{key}")?,
                PathPart::Index(index) => write!(f, "[{index}]")?,
            }
        }
        if self.0.is_empty() {
            Ok(())
        } else {
            f.write_str(": ")
        }
    }
}
