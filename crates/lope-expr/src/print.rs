//! Trees as text, for graphs and messages, written so that it parses back to the same tree.

use std::fmt;

use lope_model::Value;
use lope_values::{Binary, Logic, Unary, text};

use super::functions::{Function, FunctionKind};
use super::parser::{MACROS, OPERATORS};
use super::template::Template;
use super::tree::{Each, Expr, Node};

mod words;

use words::{literal, name, reserved_name};

/// How tightly things bind: what is looser than its place needs parentheses.
const CHOICE: usize = 0;
const OR: usize = 1;
const AND: usize = 2;
const RELATION: usize = 3;
const UNARY: usize = 6;
const MEMBER: usize = 7;

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer {
            text: String::new(),
        };
        printer.expr(self, CHOICE);
        f.write_str(&printer.text)
    }
}

/// As it stands in a file.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.expr().node {
            Node::Literal(Value::Str(text)) => f.write_str(&text.replace("${{", "$${{")),
            Node::Literal(value) => fmt::Display::fmt(value, f),
            Node::Text(parts) => parts.iter().try_for_each(|part| match part.as_literal() {
                Some(Value::Str(text)) => f.write_str(&text.replace("${{", "$${{")),
                _ => write!(f, "${{{{ {part} }}}}"),
            }),
            _ => write!(f, "${{{{ {} }}}}", self.expr()),
        }
    }
}

struct Printer {
    text: String,
}

impl Printer {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Writes an expression in a place that needs something as tight as `level`.
    fn expr(&mut self, expr: &Expr, level: usize) {
        let loose = tightness(&expr.node) < level;
        self.push(if loose { "(" } else { "" });
        self.node(&expr.node);
        self.push(if loose { ")" } else { "" });
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Literal(value) => literal(value, &mut self.text),
            Node::Name(found) => reserved_name(&found.text, &mut self.text),
            Node::Secret(secret) => {
                self.push("secrets.");
                name(secret, &mut self.text);
            }
            Node::Field(operand, field) => self.field(operand, field),
            Node::Has(operand, field) => {
                self.push("has(");
                self.field(operand, field);
                self.push(")");
            }
            Node::Unary(operator, operand) => self.unary(*operator, operand),
            Node::Binary(operator, pair) => self.binary(*operator, &pair.0, &pair.1),
            Node::Logic(operator, operands) => self.logic(*operator, operands),
            Node::Choice(three) => {
                self.expr(&three.0, OR);
                self.push(" ? ");
                self.expr(&three.1, OR);
                self.push(" : ");
                self.expr(&three.2, CHOICE);
            }
            Node::List(items) => self.items("[", items, "]"),
            Node::Map(entries) => self.map(entries),
            Node::Text(parts) => self.items("text(", parts, ")"),
            Node::Call(function, arguments) => self.call(*function, arguments),
            Node::Each(each) => self.each(each),
            Node::Let(bound) => {
                self.push("bind(");
                reserved_name(&bound.name, &mut self.text);
                self.push(", ");
                self.expr(&bound.value, CHOICE);
                self.push(", ");
                self.expr(&bound.body, CHOICE);
                self.push(")");
            }
        }
    }

    fn field(&mut self, operand: &Expr, field: &str) {
        self.expr(operand, MEMBER);
        self.push(".");
        name(field, &mut self.text);
    }

    fn unary(&mut self, operator: Unary, operand: &Expr) {
        self.push(match operator {
            Unary::Not => "!",
            Unary::Neg => "-",
        });
        let before = self.text.len();
        self.expr(operand, UNARY);
        // A minus before digits would become part of the number.
        if self.text[before..].starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            self.text.insert(before, '(');
            self.push(")");
        }
    }

    fn binary(&mut self, operator: Binary, left: &Expr, right: &Expr) {
        match operator {
            Binary::Index => {
                self.expr(left, MEMBER);
                self.push("[");
                self.expr(right, CHOICE);
                self.push("]");
            }
            _ => {
                let (sign, level) = sign(operator);
                self.expr(left, level);
                self.push(&format!(" {sign} "));
                self.expr(right, level + 1);
            }
        }
    }

    fn logic(&mut self, operator: Logic, operands: &[Expr]) {
        let (sign, level) = match operator {
            Logic::And => (" && ", AND),
            Logic::Or => (" || ", OR),
        };
        for (index, operand) in operands.iter().enumerate() {
            self.push(if index > 0 { sign } else { "" });
            self.expr(operand, level + 1);
        }
    }

    fn items(&mut self, open: &str, items: &[Expr], close: &str) {
        self.push(open);
        for (index, item) in items.iter().enumerate() {
            self.push(if index > 0 { ", " } else { "" });
            self.expr(item, CHOICE);
        }
        self.push(close);
    }

    fn map(&mut self, entries: &[(Expr, Expr)]) {
        self.push("{");
        for (index, (key, value)) in entries.iter().enumerate() {
            self.push(if index > 0 { ", " } else { "" });
            self.expr(key, CHOICE);
            self.push(": ");
            self.expr(value, CHOICE);
        }
        self.push("}");
    }

    fn call(&mut self, function: Function, arguments: &[Expr]) {
        let entry = function.entry();
        match (entry.kind, arguments) {
            (FunctionKind::Method, [receiver, rest @ ..]) => {
                self.expr(receiver, MEMBER);
                self.items(&format!(".{}(", entry.name), rest, ")");
            }
            _ => self.items(&format!("{}(", entry.name), arguments, ")"),
        }
    }

    fn each(&mut self, each: &Each) {
        self.expr(&each.over, MEMBER);
        self.push(".");
        let kind = MACROS.iter().find(|(_, known)| *known == each.kind);
        self.push(kind.map_or("map", |(name, _)| name));
        self.push("(");
        reserved_name(&each.name, &mut self.text);
        for part in each.when.iter().chain([&each.body]) {
            self.push(", ");
            self.expr(part, CHOICE);
        }
        self.push(")");
    }
}

/// Sign and tightness of an operator between two values.
fn sign(operator: Binary) -> (&'static str, usize) {
    let cel = OPERATORS
        .iter()
        .find(|(_, _, known)| *known == operator)
        .map(|(sign, level, _)| (*sign, *level));
    cel.unwrap_or((operator.word(), RELATION))
}

fn tightness(node: &Node) -> usize {
    match node {
        Node::Choice(_) => CHOICE,
        Node::Logic(Logic::Or, _) => OR,
        Node::Logic(Logic::And, _) => AND,
        Node::Binary(Binary::Index, _) => MEMBER,
        Node::Binary(operator, _) => sign(*operator).1,
        Node::Unary(..) => UNARY,
        _ => MEMBER,
    }
}

/// A text in quotes that the lexer reads back.
fn quoted(value: &str, text: &mut String) {
    text::quote(value, text);
}
