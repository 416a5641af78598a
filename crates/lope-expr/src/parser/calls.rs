//! Calls: functions and methods of the table, and the macros, which bind names or look at the text
//! of their arguments.

use std::ops::Range;
use std::sync::Arc;

use lope_values::{EachKind, nearest};

use super::{Parsed, Parser, Sub};
use crate::error::SyntaxError;
use crate::functions::{self, Function, FunctionKind};
use crate::tree::{Each, Expr, Let, Node};

/// Macros called on a value: their name and what they make.
pub(crate) const MACROS: [(&str, EachKind); 9] = [
    ("map", EachKind::List),
    ("filter", EachKind::Filter),
    ("all", EachKind::All),
    ("exists", EachKind::Exists),
    ("exists_one", EachKind::ExistsOne),
    ("existsOne", EachKind::ExistsOne),
    ("flatMap", EachKind::Flat),
    ("sortBy", EachKind::SortBy),
    ("groupBy", EachKind::GroupBy),
];

/// Macros called without one.
const PLAIN_MACROS: [&str; 3] = ["has", "bind", "text"];

impl Parser<'_> {
    /// `name(…)`, behind the parenthesis.
    pub(super) fn function(&mut self, name: &str, span: Range<usize>) -> Parsed<Sub> {
        match name {
            "has" => self.has(span),
            "bind" => self.bind(span),
            "text" => self.text(span),
            _ => {
                let (arguments, depth) = self.items(")")?;
                self.call(name, arguments, depth, span)
            }
        }
    }

    /// `left.name(…)`, behind the parenthesis.
    pub(super) fn method(&mut self, left: Sub, name: &str, span: Range<usize>) -> Parsed<Sub> {
        if let Some((_, kind)) = MACROS.into_iter().find(|(known, _)| *known == name) {
            return self.each(kind, left, span);
        }
        let (arguments, depth) = self.items(")")?;
        let all = [*left.expr].into_iter().chain(arguments).collect();
        self.call(name, all, depth.max(left.depth), span)
    }

    fn call(
        &mut self,
        name: &str,
        arguments: Vec<Expr>,
        depth: usize,
        span: Range<usize>,
    ) -> Parsed<Sub> {
        let at = self.lexer.location(span.start);
        let Some(function) = Function::named(name) else {
            return Err(self.unknown(name, span));
        };
        if !function.takes(arguments.len()) {
            let message = format!(
                "{} does not take {} arguments",
                signature(function),
                arguments.len()
            );
            return Err(self.lexer.error(span.start, message));
        }
        self.sub(Node::Call(function, arguments), depth, at)
    }

    fn unknown(&mut self, name: &str, span: Range<usize>) -> Box<SyntaxError> {
        let known = functions::all()
            .filter(|entry| matches!(entry.kind, FunctionKind::Function | FunctionKind::Method));
        let known = known
            .map(|entry| entry.name)
            .chain(MACROS.map(|(name, _)| name))
            .chain(PLAIN_MACROS);
        let hint = nearest(name, known).map(|close| format!("did you mean '{close}'?"));
        let mut error = self
            .lexer
            .error(span.start, format!("unknown function '{name}'"));
        error.hint = hint;
        error
    }

    /// `left.map(name, body)` or, for `map` and `flatMap`, `left.map(name, condition, body)`.
    fn each(&mut self, kind: EachKind, left: Sub, span: Range<usize>) -> Parsed<Sub> {
        let at = self.lexer.location(span.start);
        let name = self.binding()?;
        let (mut bodies, depth) = self.items(")")?;
        let conditional = matches!(kind, EachKind::List | EachKind::Flat);
        let (body, when) = match (bodies.len(), conditional) {
            (1, _) => (bodies.remove(0), None),
            (2, true) => (bodies.remove(1), bodies.pop()),
            (found, _) => {
                let message = format!(
                    "a name and an expression expected, found {} arguments",
                    found + 1
                );
                return Err(self.lexer.error(span.start, message));
            }
        };
        let each = Each {
            kind,
            name,
            over: *left.expr,
            when,
            body,
        };
        self.sub(Node::Each(Box::new(each)), depth.max(left.depth), at)
    }

    /// The name that a macro binds, and the comma behind it.
    fn binding(&mut self) -> Parsed<Arc<str>> {
        let (super::Lexeme::Name(name) | super::Lexeme::Quoted(name)) = self.token.clone() else {
            return Err(self.unexpected("a name to bind"));
        };
        if self.token == super::Lexeme::Name(super::SECRETS.into()) {
            return Err(self.lexer.error(
                self.span.start,
                "'secrets' cannot be bound: it names the secrets everywhere",
            ));
        }
        self.advance()?;
        self.expect(",")?;
        Ok(name)
    }

    fn bind(&mut self, span: Range<usize>) -> Parsed<Sub> {
        let at = self.lexer.location(span.start);
        let name = self.binding()?;
        let value = self.expression()?;
        self.expect(",")?;
        let body = self.expression()?;
        self.accept(",")?;
        self.expect(")")?;
        let depth = value.depth.max(body.depth);
        self.sub(
            Node::Let(Box::new(Let {
                name,
                value: *value.expr,
                body: *body.expr,
            })),
            depth,
            at,
        )
    }

    fn has(&mut self, span: Range<usize>) -> Parsed<Sub> {
        let at = self.lexer.location(span.start);
        let argument = self.expression()?;
        self.expect(")")?;
        let Node::Field(operand, name) = argument.expr.node else {
            let mut error = self.lexer.error(span.start, "has() takes a field");
            error.hint = Some("write has(value.field), or 'key' in value".into());
            return Err(error);
        };
        self.sub(Node::Has(operand, name), argument.depth - 1, at)
    }

    fn text(&mut self, span: Range<usize>) -> Parsed<Sub> {
        let at = self.lexer.location(span.start);
        let (parts, depth) = self.items(")")?;
        self.sub(Node::Text(parts), depth, at)
    }
}

/// How a function is called, for messages.
fn signature(function: Function) -> String {
    let entry = function.entry();
    format!("{}({})", entry.name, entry.parameters)
}
