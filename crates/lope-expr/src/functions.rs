//! The one table of functions: a line per function with its name, parameters and kind. Each
//! family's file holds its lines and what they do.
//!
//! A function gets its arguments by value and may use them up; it draws on the fuel for whatever
//! grows with its input. The parameters are written as `a, b=default, *rest`; the numbers of
//! arguments allowed follow from them.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use lope_model::Value;
use lope_values::{EvalError, Fuel};

mod arguments;
mod convert;
mod list;
mod map;
mod number;
mod text;
mod time;

/// How a function is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionKind {
    /// `f(x)` in text.
    Function,
    /// `x.f()` in text.
    Method,
}

/// What a function answers.
type FunctionResult = Result<Value, EvalError>;

pub(crate) type Body = fn(&mut [Value], &mut Fuel) -> FunctionResult;

/// A line of the table.
#[derive(Debug)]
pub struct FunctionEntry {
    pub name: &'static str,
    pub parameters: &'static str,
    pub kind: FunctionKind,
    /// Fewest and most arguments.
    pub arity: (usize, usize),
    pub(crate) body: Body,
}

/// A function of the table.
#[derive(Clone, Copy)]
pub struct Function(&'static FunctionEntry);

static TABLE: LazyLock<HashMap<&'static str, &'static FunctionEntry>> = LazyLock::new(|| {
    families()
        .flatten()
        .map(|entry| (entry.name, entry))
        .collect()
});

fn families() -> impl Iterator<Item = &'static [FunctionEntry]> {
    [
        text::TABLE,
        list::TABLE,
        map::TABLE,
        number::TABLE,
        convert::TABLE,
        time::TABLE,
    ]
    .into_iter()
}

/// Every function, family by family.
pub fn all() -> impl Iterator<Item = &'static FunctionEntry> {
    families().flatten()
}

impl Function {
    pub fn named(name: &str) -> Option<Self> {
        TABLE.get(name).map(|entry| Self(entry))
    }

    pub fn entry(self) -> &'static FunctionEntry {
        self.0
    }

    pub fn takes(self, arguments: usize) -> bool {
        (self.0.arity.0..=self.0.arity.1).contains(&arguments)
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Function {}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// A line of a family's table.
const fn line(
    name: &'static str,
    parameters: &'static str,
    kind: FunctionKind,
    body: Body,
) -> FunctionEntry {
    FunctionEntry {
        name,
        parameters,
        kind,
        arity: arity(parameters),
        body,
    }
}

/// Fewest and most arguments: those without a default, and all of them (any number if one is
/// starred).
const fn arity(parameters: &str) -> (usize, usize) {
    let bytes = parameters.as_bytes();
    if bytes.is_empty() {
        return (0, 0);
    }
    let mut all = 1;
    let mut optional = 0;
    let mut starred = 0;
    let mut index = 0;
    while index < bytes.len() {
        match bytes[index] {
            b',' => all += 1,
            b'=' => optional += 1,
            b'*' => starred += 1,
            _ => {}
        }
        index += 1;
    }
    (
        all - optional - starred,
        if starred > 0 { usize::MAX } else { all },
    )
}

/// The ints from `start` up to and without `stop`, as a list.
fn numbers_from(start: i64, stop: i64, step: i64, fuel: &mut Fuel) -> Result<Value, EvalError> {
    if step == 0 {
        return Err(EvalError::value("range() arg 3 must not be zero"));
    }
    let distance = (i128::from(stop) - i128::from(start)) * i128::from(step.signum());
    let length = if distance <= 0 {
        0
    } else {
        (distance - 1) / i128::from(step.unsigned_abs()) + 1
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    fuel.spend(length as u64)?;
    fuel.build(length)?;
    // Every number but one step behind the last is between start and stop.
    Ok(Value::list(
        (0..length as i64)
            .map(|index| Value::Int(start + index * step))
            .collect(),
    ))
}
