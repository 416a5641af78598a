//! The tree of an expression. Both front ends meet here: CEL text is parsed into it, the compiler of
//! Python writes the little that workflows ask of it.
//!
//! Names come in as text and may be given slots by the law. Positions are kept for messages and graphs; two trees that differ in positions alone are
//! equal. How a tree is stored is in `wire`, how it is written for people in `print`; what it means
//! is in `eval`.

use std::fmt;
use std::sync::Arc;

use lope_model::Value;
use lope_values::{Binary, EachKind, Logic, TextLocation, Unary};

use super::functions::Function;

/// An expression: a node and where it was written.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    pub node: Node,
    pub at: TextLocation,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Node {
    Literal(Value),
    Name(Name),
    /// `secrets.NAME`: an opaque reference that only dispatch arguments may hold.
    Secret(Arc<str>),
    /// `a.b`: an entry of a map, or a field of a tagged value.
    Field(Box<Expr>, Arc<str>),
    /// `has(a.b)`.
    Has(Box<Expr>, Arc<str>),
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<(Expr, Expr)>),
    /// Two or more operands of one `&&` or `||`.
    Logic(Logic, Vec<Expr>),
    /// `c ? a : b`; the condition is a bool.
    Choice(Box<(Expr, Expr, Expr)>),
    List(Vec<Expr>),
    /// A map with text keys.
    Map(Vec<(Expr, Expr)>),
    /// Parts put together as text, as in a template; a secret among them makes it secret.
    Text(Vec<Expr>),
    Call(Function, Vec<Expr>),
    Each(Box<Each>),
    Let(Box<Let>),
}

/// A name, and the slot that the law may have given it.
#[derive(Clone)]
pub struct Name {
    pub text: Arc<str>,
    pub slot: Option<u32>,
}

/// One value per element of `over` (a list, or a map's keys) for which `when` holds.
#[derive(Clone, PartialEq, Debug)]
pub struct Each {
    pub kind: EachKind,
    /// What the element is called in it.
    pub name: Arc<str>,
    pub over: Expr,
    pub when: Option<Expr>,
    pub body: Expr,
}

/// `body` with `name` bound to `value`.
#[derive(Clone, PartialEq, Debug)]
pub struct Let {
    pub name: Arc<str>,
    pub value: Expr,
    pub body: Expr,
}

impl Expr {
    pub const fn new(node: Node) -> Self {
        Self {
            node,
            at: TextLocation::NOWHERE,
        }
    }

    #[must_use]
    pub const fn at(mut self, at: TextLocation) -> Self {
        self.at = at;
        self
    }

    pub fn literal(value: impl Into<Value>) -> Self {
        Self::new(Node::Literal(value.into()))
    }

    pub fn name(text: &str) -> Self {
        Self::new(Node::Name(Name {
            text: text.into(),
            slot: None,
        }))
    }

    pub fn field(self, name: &str) -> Self {
        Self::new(Node::Field(Box::new(self), name.into()))
    }

    pub fn unary(operator: Unary, operand: Self) -> Self {
        Self::new(Node::Unary(operator, Box::new(operand)))
    }

    pub fn binary(operator: Binary, left: Self, right: Self) -> Self {
        Self::new(Node::Binary(operator, Box::new((left, right))))
    }

    /// The value, if the expression is nothing but one.
    pub fn as_literal(&self) -> Option<&Value> {
        match &self.node {
            Node::Literal(value) => Some(value),
            _ => None,
        }
    }
}

/// Slots are the law's business: two names are equal if their texts are.
impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
