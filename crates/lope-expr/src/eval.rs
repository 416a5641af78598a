//! What a tree means: a walk over it that borrows from the scope wherever it can and copies nothing
//! it need not.
//!
//! Every node costs a step of fuel; an error gets the place of the nearest node that has one.
//! Operators are in `compare`, `arithmetic` and `select`; loops in `each`.

use std::borrow::Cow;
use std::sync::Arc;

use lope_model::{Map, Value};
use lope_values::compare::{self, Relation};
use lope_values::{Binary, ErrorKind, EvalError, Fuel, Logic, Unary, arithmetic, select, text};

use super::scope::Scope;
use super::tree::{Expr, Name, Node};
use super::{DEPTH_MAX, functions::Function};

mod each;

/// The value of an expression.
pub fn eval(expr: &Expr, scope: &dyn Scope, fuel: &mut Fuel) -> Result<Value, EvalError> {
    fuel.begin();
    let mut machine = Machine {
        scope,
        fuel,
        locals: Vec::new(),
        depth: 0,
    };
    let value = machine.eval(expr)?.into_owned();
    fuel.check_result(&value)
        .map_err(|error| error.or_at(expr.at))?;
    Ok(value)
}

type Evaluated<'a> = Cow<'a, Value>;

struct Machine<'a, 'f> {
    scope: &'a dyn Scope,
    fuel: &'f mut Fuel,
    /// Names bound by the loops and `let`s around the current node, innermost last.
    locals: Vec<(&'a str, Value)>,
    depth: usize,
}

impl<'a> Machine<'a, '_> {
    fn eval(&mut self, expr: &'a Expr) -> Result<Evaluated<'a>, EvalError> {
        self.fuel.spend(1).map_err(|error| error.or_at(expr.at))?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(EvalError::limit(format!(
                "an expression nested deeper than {DEPTH_MAX} levels"
            ))
            .or_at(expr.at));
        }
        let value = self.node(&expr.node).map_err(|error| error.or_at(expr.at));
        self.depth -= 1;
        value
    }

    fn node(&mut self, node: &'a Node) -> Result<Evaluated<'a>, EvalError> {
        match node {
            Node::Literal(value) => Ok(Cow::Borrowed(value)),
            Node::Name(name) => self.name(name),
            Node::Field(operand, name) => select::field(self.eval(operand)?, name),
            Node::Binary(operator, pair) => self.binary(*operator, &pair.0, &pair.1),
            Node::Logic(operator, operands) => self.logic(*operator, operands),
            Node::Unary(operator, operand) => self.unary(*operator, operand).map(Cow::Owned),
            Node::Choice(three) => match &*self.eval(&three.0)? {
                Value::Bool(true) => self.eval(&three.1),
                Value::Bool(false) => self.eval(&three.2),
                other => Err(EvalError::typed(format!(
                    "the condition of ?: is a bool, not {}",
                    other.kind()
                ))),
            },
            Node::Secret(name) => Ok(Cow::Owned(Value::tag(
                text::SECRET,
                Value::Str(Arc::clone(name)),
            ))),
            Node::Has(operand, name) => {
                select::has(&*self.eval(operand)?, name).map(|found| owned(Value::Bool(found)))
            }
            Node::List(items) => self.list(items).map(Cow::Owned),
            Node::Map(entries) => self.map(entries).map(Cow::Owned),
            Node::Text(parts) => {
                let parts = self.values(parts)?;
                text::join(&parts, self.fuel).map(Cow::Owned)
            }
            Node::Call(function, arguments) => self.call(*function, arguments).map(Cow::Owned),
            Node::Each(each) => self.each(each).map(Cow::Owned),
            Node::Let(bound) => {
                let value = self.eval(&bound.value)?.into_owned();
                self.locals.push((&bound.name, value));
                let body = self.eval(&bound.body);
                self.locals.pop();
                body
            }
        }
    }

    fn name(&mut self, name: &'a Name) -> Result<Evaluated<'a>, EvalError> {
        if let Some(value) = name.slot.and_then(|slot| self.scope.slot(slot)) {
            return Ok(Cow::Borrowed(value));
        }
        if let Some((_, value)) = self
            .locals
            .iter()
            .rev()
            .find(|(known, _)| **known == *name.text)
        {
            return Ok(Cow::Owned(value.clone()));
        }
        let found = self.scope.lookup(&name.text).map(Cow::Borrowed);
        found.ok_or_else(|| unknown(name))
    }

    fn unary(&mut self, operator: Unary, operand: &'a Expr) -> Result<Value, EvalError> {
        let value = self.eval(operand)?;
        match operator {
            Unary::Not => match &*value {
                Value::Bool(value) => Ok(Value::Bool(!value)),
                other => Err(EvalError::typed(format!(
                    "! takes a bool, not {}",
                    other.kind()
                ))),
            },
            Unary::Neg => arithmetic::negate(&value),
        }
    }

    fn binary(
        &mut self,
        operator: Binary,
        left: &'a Expr,
        right: &'a Expr,
    ) -> Result<Evaluated<'a>, EvalError> {
        let left = self.eval(left)?;
        let right = self.eval(right)?;
        match operator {
            Binary::Index => select::index(left, &right),
            _ => apply(operator, &left, &right, self.fuel).map(Cow::Owned),
        }
    }

    fn logic(&mut self, operator: Logic, operands: &'a [Expr]) -> Result<Evaluated<'a>, EvalError> {
        match operator {
            Logic::And => self.absorbing(operands, false),
            Logic::Or => self.absorbing(operands, true),
        }
    }

    /// CEL's: an operand equal to `decisive` decides, even if another fails.
    fn absorbing(
        &mut self,
        operands: &'a [Expr],
        decisive: bool,
    ) -> Result<Evaluated<'a>, EvalError> {
        let mut verdict = Absorption::new(decisive);
        for operand in operands {
            let found = self
                .eval(operand)
                .and_then(|value| as_bool(&value).map_err(|error| error.or_at(operand.at)));
            if verdict.decided(found)? {
                break;
            }
        }
        verdict.answer().map(|value| owned(Value::Bool(value)))
    }

    fn values(&mut self, items: &'a [Expr]) -> Result<Vec<Value>, EvalError> {
        items
            .iter()
            .map(|item| self.eval(item).map(Cow::into_owned))
            .collect()
    }

    fn list(&mut self, items: &'a [Expr]) -> Result<Value, EvalError> {
        self.fuel.build(items.len())?;
        self.values(items).map(Value::list)
    }

    fn map(&mut self, entries: &'a [(Expr, Expr)]) -> Result<Value, EvalError> {
        self.fuel.build(entries.len())?;
        let mut map = Map::with_capacity(entries.len());
        for (key, value) in entries {
            let key = match &*self.eval(key)? {
                Value::Str(key) => Arc::clone(key),
                other => {
                    return Err(EvalError::typed(format!(
                        "keys of a map are text, not {}",
                        other.kind()
                    )));
                }
            };
            let value = self.eval(value)?.into_owned();
            if map.contains_key(&key) {
                return Err(EvalError::value(format!(
                    "the key '{key}' stands twice in the map"
                )));
            }
            map.insert(key, value);
        }
        Ok(Value::Map(Arc::new(map)))
    }

    fn call(&mut self, function: Function, arguments: &'a [Expr]) -> Result<Value, EvalError> {
        let mut values = self.values(arguments)?;
        let entry = function.entry();
        if !function.takes(values.len()) {
            return Err(EvalError::typed(format!(
                "{} does not take {} arguments",
                entry.name,
                values.len()
            )));
        }
        self.fuel.note_built();
        (entry.body)(&mut values, self.fuel)
    }
}

/// A name that has a place and no value was not set yet.
fn unknown(name: &Name) -> EvalError {
    match name.slot {
        Some(_) => {
            let shown = name.text.split('.').next().unwrap_or_default();
            let message = format!(
                "cannot access local variable '{shown}' where it is not associated with a value"
            );
            EvalError::new(ErrorKind::Unbound, message)
        }
        None => EvalError::new(
            ErrorKind::Name,
            format!("name '{}' is not defined", name.text),
        ),
    }
}

fn owned<'a>(value: Value) -> Evaluated<'a> {
    Cow::Owned(value)
}

fn as_bool(value: &Value) -> Result<bool, EvalError> {
    match value {
        Value::Bool(value) => Ok(*value),
        other => Err(EvalError::typed(format!(
            "a bool expected, not {}",
            other.kind()
        ))),
    }
}

/// How `&&`, `||`, `all` and `exists` come to an answer although some operands fail.
struct Absorption {
    decisive: bool,
    seen: bool,
    failed: Option<EvalError>,
}

impl Absorption {
    const fn new(decisive: bool) -> Self {
        Self {
            decisive,
            seen: false,
            failed: None,
        }
    }

    /// Takes one operand's answer; true if it decides. An empty tank is never absorbed.
    fn decided(&mut self, found: Result<bool, EvalError>) -> Result<bool, EvalError> {
        match found {
            Ok(value) => self.seen = value == self.decisive,
            Err(error) if error.kind == ErrorKind::Limit => return Err(error),
            Err(error) => self.failed = self.failed.take().or(Some(error)),
        }
        Ok(self.seen)
    }

    fn answer(self) -> Result<bool, EvalError> {
        match self.failed {
            Some(error) if !self.seen => Err(error),
            _ => Ok(self.seen == self.decisive),
        }
    }
}

/// An operator that needs no more than its two values.
fn apply(
    operator: Binary,
    left: &Value,
    right: &Value,
    fuel: &mut Fuel,
) -> Result<Value, EvalError> {
    match operator {
        Binary::Eq => compare::equal(left, right, fuel).map(Value::Bool),
        Binary::Ne => compare::equal(left, right, fuel).map(|equal| Value::Bool(!equal)),
        Binary::Lt => compare::ordered(Relation::Lt, left, right).map(Value::Bool),
        Binary::Le => compare::ordered(Relation::Le, left, right).map(Value::Bool),
        Binary::Gt => compare::ordered(Relation::Gt, left, right).map(Value::Bool),
        Binary::Ge => compare::ordered(Relation::Ge, left, right).map(Value::Bool),
        Binary::In => compare::contained(left, right, fuel).map(Value::Bool),
        Binary::Add => arithmetic::add(left, right, fuel),
        Binary::Sub => arithmetic::subtract(left, right),
        Binary::Mul => arithmetic::multiply(left, right),
        Binary::Div => arithmetic::divide(left, right),
        Binary::Rem => arithmetic::remainder(left, right),
        Binary::Index => select::index(Cow::Borrowed(left), right).map(Cow::into_owned),
    }
}
