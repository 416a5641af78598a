//! Expressions: one tree over values, with CEL syntax as its text form, evaluated here.
//!
//! Text flows in through `parse` and `Template::parse`, trees compiled elsewhere through `wire`; a
//! value or an error with a position flows out of `eval`. Everything is bounded: source length,
//! depth, steps, size. Nothing here reads a clock or knows what a step is; what a function answers
//! is part of the law and never depends on machine or locale.

pub mod functions;
pub mod secret;

mod error;
mod eval;
mod lexer;
mod names;
mod parser;
mod print;
mod scope;
mod template;
mod tree;
mod wire;

pub use error::SyntaxError;
pub use eval::eval;
pub use functions::Function;
pub use lope_values::text::{SECRET, SECRET_TEXT};
pub use lope_values::{
    Binary, EachKind, ErrorKind, EvalError, Fuel, Logic, TextLocation, Unary, nearest,
};
pub use parser::parse;
pub use scope::{NoNames, Scope};
pub use template::{Origin, PathPart, Template, TemplateError};
pub use tree::{Each, Expr, Let, Name, Node};
pub use wire::BadTree;

/// Longest text of one expression, in bytes.
pub const SOURCE_MAX: usize = 64 * 1024;
/// Deepest nesting of an expression, parsed or loaded.
pub const DEPTH_MAX: usize = 200;
/// Most nodes of one expression.
pub const NODES_MAX: usize = 100_000;
