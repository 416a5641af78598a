//! Tokens into a tree: CEL's grammar and precedence. Names of functions are settled here, so that a
//! misspelt one is found when a file is checked and not when a run gets there. Calls and macros are
//! in `calls`.

use std::ops::Range;
use std::sync::Arc;

use lope_model::Value;
use lope_values::{Binary, Logic, TextLocation, Unary};

use super::lexer::{Lexeme, Lexer};
use super::tree::{Expr, Name, Node};
use super::{DEPTH_MAX, SOURCE_MAX};
use crate::error::SyntaxError;

mod calls;
mod containers;

pub(super) use calls::MACROS;

/// Name under which secrets are written; it is no variable.
const SECRETS: &str = "secrets";
/// Deepest nesting of parentheses, brackets and signs: each level takes the parser deeper into the
/// stack, which a chain of operators or fields does not.
const NESTING_MAX: usize = 100;

/// Reads one expression.
pub fn parse(text: &str) -> Result<Expr, SyntaxError> {
    parse_at(text, 0, "").map(|(expr, _)| expr)
}

/// Reads the expression of `text` from byte `start` up to `close`, or to the end if that is empty;
/// also says where it ends.
pub(super) fn parse_at(
    text: &str,
    start: usize,
    close: &str,
) -> Result<(Expr, usize), SyntaxError> {
    parse_up_to(text, start, close).map_err(|error| *error)
}

fn parse_up_to(text: &str, start: usize, close: &str) -> Parsed<(Expr, usize)> {
    let mut parser = Parser::new(text, start)?;
    let found = parser.expression()?;
    let end = parser.span.start;
    let closed = if close.is_empty() {
        parser.token == Lexeme::End
    } else {
        text[end..].starts_with(close)
    };
    match closed {
        true => Ok((*found.expr, end)),
        false if close.is_empty() => Err(parser.unexpected("an operator or the end")),
        false => Err(parser.unexpected(&format!("an operator or '{close}'"))),
    }
}

/// A tree and how deep it is. Small, and so are the errors inside the parser: it calls itself for
/// every level of nesting, and what it holds on the way is what the stack holds.
struct Sub {
    expr: Box<Expr>,
    depth: usize,
}

type Parsed<T> = Result<T, Box<SyntaxError>>;

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Lexeme,
    span: Range<usize>,
    nesting: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, start: usize) -> Parsed<Self> {
        let mut lexer = Lexer::new(text, start);
        if text.len() - start > SOURCE_MAX {
            return Err(lexer.error(
                start,
                format!("an expression of more than {SOURCE_MAX} bytes"),
            ));
        }
        let (token, span) = lexer.next()?;
        Ok(Self {
            lexer,
            token,
            span,
            nesting: 0,
        })
    }

    fn expression(&mut self) -> Parsed<Sub> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(self.too_deep(NESTING_MAX));
        }
        let at = self.here();
        let condition = self.operators(0)?;
        let found = if self.accept("?")? {
            let yes = self.operators(0)?;
            self.expect(":")?;
            let no = self.expression()?;
            let depth = condition.depth.max(yes.depth).max(no.depth);
            self.sub(
                Node::Choice(Box::new((*condition.expr, *yes.expr, *no.expr))),
                depth,
                at,
            )?
        } else {
            condition
        };
        self.nesting -= 1;
        Ok(found)
    }

    /// Operators that bind at least as tightly as `level`.
    fn operators(&mut self, level: usize) -> Parsed<Sub> {
        let start = self.here();
        let mut left = self.unary()?;
        while let Some((found, operator)) = self.operator().filter(|(found, _)| *found >= level) {
            let at = self.here();
            left = match operator {
                Operator::Logic(logic, sign) => self.logic(left, logic, sign, found)?.at(start),
                Operator::Binary(binary) => {
                    self.advance()?;
                    let right = self.operators(found + 1)?;
                    let depth = left.depth.max(right.depth);
                    self.sub(
                        Node::Binary(binary, Box::new((*left.expr, *right.expr))),
                        depth,
                        at,
                    )?
                }
            };
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(usize, Operator)> {
        let Lexeme::Sign(sign) = self.token else {
            return None;
        };
        Some(match sign {
            "||" => (1, Operator::Logic(Logic::Or, sign)),
            "&&" => (2, Operator::Logic(Logic::And, sign)),
            _ => {
                let (_, level, binary) =
                    OPERATORS.into_iter().find(|(known, ..)| *known == sign)?;
                (level, Operator::Binary(binary))
            }
        })
    }

    fn logic(&mut self, first: Sub, logic: Logic, sign: &str, level: usize) -> Parsed<Sub> {
        let mut depth = first.depth;
        let mut operands = vec![*first.expr];
        while self.accept(sign)? {
            let operand = self.operators(level + 1)?;
            depth = depth.max(operand.depth);
            operands.push(*operand.expr);
        }
        self.sub(Node::Logic(logic, operands), depth, TextLocation::NOWHERE)
    }

    fn unary(&mut self) -> Parsed<Sub> {
        let at = self.here();
        let operator = match self.token {
            Lexeme::Sign("!") => Unary::Not,
            Lexeme::Sign("-") => Unary::Neg,
            _ => return self.member(),
        };
        self.advance()?;
        if let Some(value) = self.negated().filter(|_| operator == Unary::Neg) {
            self.advance()?;
            let number = self.sub(Node::Literal(value), 0, at)?;
            return self.selections(number);
        }
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(self.too_deep(NESTING_MAX));
        }
        let operand = self.unary()?;
        self.nesting -= 1;
        self.sub(Node::Unary(operator, operand.expr), operand.depth, at)
    }

    /// The number after a minus, as one literal.
    fn negated(&self) -> Option<Value> {
        match &self.token {
            Lexeme::Literal(Value::Int(number)) => Some(Value::Int(-number)),
            Lexeme::Literal(Value::Float(number)) => Some(Value::Float(-number)),
            Lexeme::Smallest => Some(Value::Int(i64::MIN)),
            _ => None,
        }
    }

    fn member(&mut self) -> Parsed<Sub> {
        let primary = self.primary()?;
        self.selections(primary)
    }

    fn selections(&mut self, mut left: Sub) -> Parsed<Sub> {
        loop {
            let at = self.here();
            if self.accept(".")? {
                left = self.selection(left, at)?;
            } else if self.accept("[")? {
                let index = self.expression()?;
                self.expect("]")?;
                let depth = left.depth.max(index.depth);
                left = self.sub(
                    Node::Binary(Binary::Index, Box::new((*left.expr, *index.expr))),
                    depth,
                    at,
                )?;
            } else {
                return Ok(left);
            }
        }
    }

    /// What follows a point: a field, or a call with the left side as its first argument.
    fn selection(&mut self, left: Sub, at: TextLocation) -> Parsed<Sub> {
        let (name, quoted) = match &self.token {
            Lexeme::Name(name) => (Arc::clone(name), false),
            Lexeme::Quoted(name) => (Arc::clone(name), true),
            // `in` is a word everywhere but between two values.
            Lexeme::Sign("in") => ("in".into(), false),
            _ => return Err(self.unexpected("the name of a field")),
        };
        let span = self.span.clone();
        self.advance()?;
        if !quoted && self.accept("(")? {
            return self.method(left, &name, span);
        }
        self.sub(Node::Field(left.expr, name), left.depth, at)
    }

    fn primary(&mut self) -> Parsed<Sub> {
        let at = self.here();
        match self.token.clone() {
            Lexeme::Literal(value) => {
                self.advance()?;
                self.sub(Node::Literal(value), 0, at)
            }
            Lexeme::Quoted(name) => {
                self.advance()?;
                self.sub(
                    Node::Name(Name {
                        text: name,
                        slot: None,
                    }),
                    0,
                    at,
                )
            }
            Lexeme::Name(name) => self.word(&name),
            Lexeme::Sign("(") => {
                self.advance()?;
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Lexeme::Sign("[") => self.list(at),
            Lexeme::Sign("{") => self.map(at),
            Lexeme::Smallest => Err(self.lexer.error(
                self.span.start,
                "the number 9223372036854775808 does not fit 64 bits",
            )),
            Lexeme::Sign(_) | Lexeme::End => Err(self.unexpected("a value")),
        }
    }

    fn word(&mut self, name: &Arc<str>) -> Parsed<Sub> {
        let span = self.span.clone();
        let at = self.here();
        self.advance()?;
        if self.accept("(")? {
            return self.function(name, span);
        }
        if &**name == SECRETS {
            return self.secret(at);
        }
        self.sub(
            Node::Name(Name {
                text: Arc::clone(name),
                slot: None,
            }),
            0,
            at,
        )
    }

    /// `secrets.NAME` or `secrets["NAME"]`.
    fn secret(&mut self, at: TextLocation) -> Parsed<Sub> {
        let indexed = !self.accept(".")? && self.accept("[")?;
        let name = match &self.token {
            Lexeme::Literal(Value::Str(name)) if indexed => Arc::clone(name),
            Lexeme::Name(name) | Lexeme::Quoted(name) if !indexed => Arc::clone(name),
            _ => {
                let mut error = self.unexpected("the name of a secret");
                error.hint = Some("write secrets.NAME".into());
                return Err(error);
            }
        };
        self.advance()?;
        if indexed {
            self.expect("]")?;
        }
        self.sub(Node::Secret(name), 0, at)
    }

    fn sub(&mut self, node: Node, depth: usize, at: TextLocation) -> Parsed<Sub> {
        if depth >= DEPTH_MAX {
            return Err(self.too_deep(DEPTH_MAX));
        }
        Ok(Sub {
            expr: Box::new(Expr::new(node).at(at)),
            depth: depth + 1,
        })
    }

    fn here(&mut self) -> TextLocation {
        self.lexer.location(self.span.start)
    }

    fn advance(&mut self) -> Parsed<()> {
        (self.token, self.span) = self.lexer.next()?;
        Ok(())
    }

    fn accept(&mut self, sign: &str) -> Parsed<bool> {
        let found = matches!(self.token, Lexeme::Sign(known) if known == sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, sign: &str) -> Parsed<()> {
        if self.accept(sign)? {
            Ok(())
        } else {
            Err(self.unexpected(&format!("'{sign}'")))
        }
    }

    fn unexpected(&mut self, wanted: &str) -> Box<SyntaxError> {
        let found = match &self.lexer.text[self.span.clone()] {
            "" => "the end".to_owned(),
            text => format!("'{}'", text.chars().take(20).collect::<String>()),
        };
        let hint = match &self.token {
            Lexeme::Name(word) => word_hint(word),
            _ => None,
        };
        let mut error = self
            .lexer
            .error(self.span.start, format!("{wanted} expected, found {found}"));
        error.hint = hint;
        error
    }

    fn too_deep(&mut self, levels: usize) -> Box<SyntaxError> {
        self.lexer.error(
            self.span.start,
            format!("an expression nested deeper than {levels} levels"),
        )
    }
}

/// Words of other languages where an operator is expected.
fn word_hint(word: &str) -> Option<String> {
    let hint = match word {
        "and" => "write && for 'and'",
        "or" => "write || for 'or'",
        "not" => "write ! for 'not'",
        "is" => "write == to compare",
        "if" => "write condition ? yes : no",
        _ => return None,
    };
    Some(hint.into())
}

enum Operator {
    Logic(Logic, &'static str),
    Binary(Binary),
}

/// Signs of two operands: how tightly they bind (`||` is 1, `&&` is 2), and what they mean.
pub(super) const OPERATORS: [(&str, usize, Binary); 12] = [
    ("==", 3, Binary::Eq),
    ("!=", 3, Binary::Ne),
    ("<=", 3, Binary::Le),
    (">=", 3, Binary::Ge),
    ("<", 3, Binary::Lt),
    (">", 3, Binary::Gt),
    ("in", 3, Binary::In),
    ("+", 4, Binary::Add),
    ("-", 4, Binary::Sub),
    ("*", 5, Binary::Mul),
    ("/", 5, Binary::Div),
    ("%", 5, Binary::Rem),
];

impl Sub {
    fn at(mut self, at: TextLocation) -> Self {
        self.expr.at = at;
        self
    }
}
