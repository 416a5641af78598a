//! How a tree is stored and crosses to other languages: flat, in postfix order, so that no depth of
//! nesting ever meets a decoder's limit.
//!
//! A tree is a list of instructions. An instruction that is not a list is a literal; a list starts
//! with a word and takes as many trees as it needs from those before it: `x.total > 100 && y ==
//! "a"` is `[["name","x"], ["field","total"], 100, ["gt"], ["name","y"], "a", ["eq"], ["and",2]]`.
//! With positions it is `{"code": […], "at": [line, column, …]}`, a pair for each instruction. The
//! plain list is the canonical form.

use std::sync::Arc;

use lope_model::{Map, Value};
use lope_values::{Binary, EachKind, Logic, TextLocation, Unary};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

use super::functions::Function;
use super::tree::{Each, Expr, Let, Name, Node};
use super::{DEPTH_MAX, NODES_MAX};

/// A stored tree that is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not an expression: {0}")]
pub struct BadTree(String);

impl Expr {
    /// The stored form, with positions if there are any.
    pub fn to_value(&self) -> Value {
        let (mut code, mut locations) = (Vec::new(), Vec::new());
        write(self, &mut code, &mut locations);
        if locations.iter().all(|at| !at.is_known()) {
            return Value::list(code);
        }
        let numbers = locations
            .iter()
            .flat_map(|at| [at.line, at.column])
            .map(|n| Value::Int(n.into()))
            .collect();
        Value::map([("code", Value::list(code)), ("at", Value::list(numbers))])
    }

    /// The stored form without positions: the same for equal trees.
    pub fn canonical(&self) -> Value {
        let mut code = Vec::new();
        write(self, &mut code, &mut Vec::new());
        Value::list(code)
    }

    pub fn from_value(value: &Value) -> Result<Self, BadTree> {
        let (code, numbers) = match value {
            Value::List(code) => (code.as_slice(), &[][..]),
            Value::Map(map) => parts(map).ok_or_else(|| bad("'code' and 'at' expected"))?,
            other => {
                return Err(bad(format!(
                    "a list of instructions expected, not {}",
                    other.kind()
                )));
            }
        };
        if code.len() > NODES_MAX || numbers.len() > 2 * code.len() {
            return Err(bad(format!("more than {NODES_MAX} nodes")));
        }
        let mut stack = Stack::default();
        for (index, instruction) in code.iter().enumerate() {
            let at = location(numbers, index).ok_or_else(|| bad("'at' holds lines and columns"))?;
            stack.read(instruction, at)?;
        }
        stack.finish()
    }
}

fn parts(map: &Map) -> Option<(&[Value], &[Value])> {
    Some((map.get("code")?.as_list()?, map.get("at")?.as_list()?))
}

fn location(numbers: &[Value], index: usize) -> Option<TextLocation> {
    let Some([line, column]) = numbers.get(index * 2..index * 2 + 2) else {
        return Some(TextLocation::NOWHERE);
    };
    Some(TextLocation::new(
        u32::try_from(line.as_int()?).ok()?,
        u32::try_from(column.as_int()?).ok()?,
    ))
}

fn bad(message: impl Into<String>) -> BadTree {
    BadTree(message.into())
}

fn write(expr: &Expr, code: &mut Vec<Value>, locations: &mut Vec<TextLocation>) {
    expr.each_child(&mut |child| write(child, code, locations));
    code.push(instruction(&expr.node));
    locations.push(expr.at);
}

fn instruction(node: &Node) -> Value {
    let count = |items: usize| Value::Int(items as i64);
    match node {
        Node::Literal(value @ (Value::List(_) | Value::Map(_))) => op("lit", [value.clone()]),
        Node::Literal(value) => value.clone(),
        Node::Name(name) => op("name", [Value::Str(Arc::clone(&name.text))]),
        Node::Secret(name) => op("secret", [Value::Str(Arc::clone(name))]),
        Node::Field(_, name) => op("field", [Value::Str(Arc::clone(name))]),
        Node::Has(_, name) => op("has", [Value::Str(Arc::clone(name))]),
        Node::Unary(operator, _) => op(operator.word(), []),
        Node::Binary(operator, _) => op(operator.word(), []),
        Node::Logic(operator, items) => op(operator.word(), [count(items.len())]),
        Node::Choice(_) => op("if", []),
        Node::List(items) => op("list", [count(items.len())]),
        Node::Map(entries) => op("map", [count(entries.len())]),
        Node::Text(items) => op("text", [count(items.len())]),
        Node::Call(function, items) => {
            op("call", [function.entry().name.into(), count(items.len())])
        }
        Node::Each(each) => op(
            "each",
            [
                each.kind.word().into(),
                Value::Str(Arc::clone(&each.name)),
                each.when.is_some().into(),
            ],
        ),
        Node::Let(bound) => op("let", [Value::Str(Arc::clone(&bound.name))]),
    }
}

fn op(word: &str, rest: impl IntoIterator<Item = Value>) -> Value {
    Value::list([Value::str(word)].into_iter().chain(rest).collect())
}

/// Trees read so far, each with its depth.
#[derive(Default)]
struct Stack(Vec<(Expr, usize)>);

impl Stack {
    fn read(&mut self, instruction: &Value, at: TextLocation) -> Result<(), BadTree> {
        let Value::List(parts) = instruction else {
            self.0
                .push((Expr::new(Node::Literal(instruction.clone())).at(at), 1));
            return Ok(());
        };
        let [Value::Str(word), rest @ ..] = parts.as_slice() else {
            return Err(bad("an instruction starts with a word"));
        };
        let before = self.0.len();
        let (node, taken) = self.node(word, rest)?;
        debug_assert!(
            self.0.len() + taken.count == before,
            "every tree taken is counted"
        );
        if taken.depth >= DEPTH_MAX {
            return Err(bad(format!("nested deeper than {DEPTH_MAX} levels")));
        }
        self.0.push((Expr::new(node).at(at), taken.depth + 1));
        Ok(())
    }

    fn node(&mut self, word: &str, rest: &[Value]) -> Result<(Node, Taken), BadTree> {
        let mut taken = Taken::default();
        if let Some(operator) = Unary::from_word(word) {
            return Ok((
                Node::Unary(operator, Box::new(self.one(&mut taken)?)),
                taken,
            ));
        }
        if let Some(operator) = Binary::from_word(word) {
            let [left, right] = self.some(&mut taken)?;
            return Ok((Node::Binary(operator, Box::new((left, right))), taken));
        }
        if let Some(operator) = Logic::from_word(word) {
            let items = self.many(number(rest, 0)?, &mut taken)?;
            return if items.len() < 2 {
                Err(bad(format!("'{word}' of {}", items.len())))
            } else {
                Ok((Node::Logic(operator, items), taken))
            };
        }
        let node = match word {
            "lit" => Node::Literal(argument(rest, 0)?.clone()),
            "name" => Node::Name(Name {
                text: text(rest, 0)?,
                slot: None,
            }),
            "secret" => Node::Secret(text(rest, 0)?),
            "field" => Node::Field(Box::new(self.one(&mut taken)?), text(rest, 0)?),
            "has" => Node::Has(Box::new(self.one(&mut taken)?), text(rest, 0)?),
            "if" => {
                let [condition, yes, no] = self.some(&mut taken)?;
                Node::Choice(Box::new((condition, yes, no)))
            }
            "list" => Node::List(self.many(number(rest, 0)?, &mut taken)?),
            "text" => Node::Text(self.many(number(rest, 0)?, &mut taken)?),
            "map" => Node::Map(pairs(
                self.many(number(rest, 0)?.saturating_mul(2), &mut taken)?,
            )),
            "call" => self.call(rest, &mut taken)?,
            "each" => self.each(rest, &mut taken)?,
            "let" => {
                let [value, body] = self.some(&mut taken)?;
                Node::Let(Box::new(Let {
                    name: text(rest, 0)?,
                    value,
                    body,
                }))
            }
            _ => return Err(bad(format!("unknown instruction '{word}'"))),
        };
        Ok((node, taken))
    }

    fn call(&mut self, rest: &[Value], taken: &mut Taken) -> Result<Node, BadTree> {
        let name = text(rest, 0)?;
        let function =
            Function::named(&name).ok_or_else(|| bad(format!("unknown function '{name}'")))?;
        let arguments = self.many(number(rest, 1)?, taken)?;
        if !function.takes(arguments.len()) {
            return Err(bad(format!(
                "'{name}' does not take {} arguments",
                arguments.len()
            )));
        }
        Ok(Node::Call(function, arguments))
    }

    fn each(&mut self, rest: &[Value], taken: &mut Taken) -> Result<Node, BadTree> {
        let kind = text(rest, 0)?;
        let kind = EachKind::from_word(&kind)
            .ok_or_else(|| bad(format!("unknown kind of each '{kind}'")))?;
        let name = text(rest, 1)?;
        let Value::Bool(filtered) = argument(rest, 2)? else {
            return Err(bad("an each says whether it has a condition"));
        };
        let body = self.one(taken)?;
        let when = if *filtered {
            Some(self.one(taken)?)
        } else {
            None
        };
        let over = self.one(taken)?;
        Ok(Node::Each(Box::new(Each {
            kind,
            name,
            over,
            when,
            body,
        })))
    }

    fn one(&mut self, taken: &mut Taken) -> Result<Expr, BadTree> {
        let (expr, depth) = self.0.pop().ok_or_else(|| bad("an operand is missing"))?;
        taken.depth = taken.depth.max(depth);
        taken.count += 1;
        Ok(expr)
    }

    fn many(&mut self, count: usize, taken: &mut Taken) -> Result<Vec<Expr>, BadTree> {
        let start = self
            .0
            .len()
            .checked_sub(count)
            .ok_or_else(|| bad("an operand is missing"))?;
        taken.depth = self.0[start..]
            .iter()
            .map(|(_, depth)| *depth)
            .max()
            .unwrap_or(0)
            .max(taken.depth);
        taken.count += count;
        Ok(self.0.drain(start..).map(|(expr, _)| expr).collect())
    }

    fn some<const N: usize>(&mut self, taken: &mut Taken) -> Result<[Expr; N], BadTree> {
        Ok(self
            .many(N, taken)?
            .try_into()
            .expect("as many as asked for"))
    }

    fn finish(mut self) -> Result<Expr, BadTree> {
        match (self.0.pop(), self.0.is_empty()) {
            (Some((expr, _)), true) => Ok(expr),
            _ => Err(bad("one tree expected")),
        }
    }
}

/// What an instruction took from the stack.
#[derive(Default)]
struct Taken {
    count: usize,
    depth: usize,
}

fn pairs(items: Vec<Expr>) -> Vec<(Expr, Expr)> {
    let mut items = items.into_iter();
    std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect()
}

fn argument(rest: &[Value], index: usize) -> Result<&Value, BadTree> {
    rest.get(index)
        .ok_or_else(|| bad("an instruction lacks its arguments"))
}

fn text(rest: &[Value], index: usize) -> Result<Arc<str>, BadTree> {
    match argument(rest, index)? {
        Value::Str(text) => Ok(Arc::clone(text)),
        other => Err(bad(format!("text expected, not {}", other.kind()))),
    }
}

fn number(rest: &[Value], index: usize) -> Result<usize, BadTree> {
    let number = argument(rest, index)?
        .as_int()
        .and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| bad("a count expected"))
}

impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_value(&Value::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}
