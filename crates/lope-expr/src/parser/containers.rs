//! Lists, maps and the arguments of calls: expressions with commas between them.

use std::sync::Arc;

use lope_model::{Map, Value};
use lope_values::TextLocation;

use super::{Lexeme, Parsed, Parser, Sub};
use crate::tree::{Expr, Node};

/// Deepest literal list or map that becomes one value, so that every decoder can read it.
const FOLD_MAX: usize = 32;

impl Parser<'_> {
    pub(super) fn list(&mut self, at: TextLocation) -> Parsed<Sub> {
        self.expect("[")?;
        let (items, depth) = self.items("]")?;
        self.sub(
            if depth < FOLD_MAX {
                fold_list(items)
            } else {
                Node::List(items)
            },
            depth,
            at,
        )
    }

    pub(super) fn map(&mut self, at: TextLocation) -> Parsed<Sub> {
        self.expect("{")?;
        let (mut entries, mut depth) = (Vec::new(), 0);
        while !self.accept("}")? {
            let start = self.span.start;
            let key = self.expression()?;
            self.validate_key(start, &key.expr, &entries)?;
            self.expect(":")?;
            let value = self.expression()?;
            depth = depth.max(key.depth).max(value.depth);
            entries.push((*key.expr, *value.expr));
            self.comma_or("}")?;
        }
        self.sub(
            if depth < FOLD_MAX {
                fold_map(entries)
            } else {
                Node::Map(entries)
            },
            depth,
            at,
        )
    }

    fn validate_key(&mut self, start: usize, key: &Expr, entries: &[(Expr, Expr)]) -> Parsed<()> {
        let problem = match key.as_literal() {
            Some(Value::Str(text))
                if entries
                    .iter()
                    .any(|(known, _)| known.as_literal() == key.as_literal()) =>
            {
                format!("the key '{text}' stands twice in the map")
            }
            Some(Value::Str(_)) | None => return Ok(()),
            Some(other) => format!("keys of a map are text, not {}", other.kind()),
        };
        Err(self.lexer.error(start, problem))
    }

    /// Expressions up to `close`, a comma between them; one after the last is allowed.
    pub(super) fn items(&mut self, close: &'static str) -> Parsed<(Vec<Expr>, usize)> {
        let (mut items, mut depth) = (Vec::new(), 0);
        while !self.accept(close)? {
            let item = self.expression()?;
            depth = depth.max(item.depth);
            items.push(*item.expr);
            self.comma_or(close)?;
        }
        Ok((items, depth))
    }

    fn comma_or(&mut self, close: &'static str) -> Parsed<()> {
        if self.token == Lexeme::Sign(close) || self.accept(",")? {
            return Ok(());
        }
        Err(self.unexpected(&format!("',' or '{close}'")))
    }
}

/// A list of nothing but literals is a literal: it is made once.
fn fold_list(items: Vec<Expr>) -> Node {
    match items
        .iter()
        .map(|item| item.as_literal().cloned())
        .collect()
    {
        Some(values) => Node::Literal(Value::list(values)),
        None => Node::List(items),
    }
}

fn fold_map(entries: Vec<(Expr, Expr)>) -> Node {
    let literal = |(key, value): &(Expr, Expr)| match key.as_literal()? {
        Value::Str(key) => Some((Arc::clone(key), value.as_literal()?.clone())),
        _ => None,
    };
    match entries.iter().map(literal).collect::<Option<Map>>() {
        Some(map) => Node::Literal(Value::Map(Arc::new(map))),
        None => Node::Map(entries),
    }
}
