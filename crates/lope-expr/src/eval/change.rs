//! A variable that is replaced by a changed self: `xs = append(xs, x)`. The value is handed over,
//! not lent, so that nothing is copied and a list that grows by one item costs one item, however
//! long it is.
//!
//! Fuel is counted by the form of the expression alone, never by who else holds the value: a replay
//! costs the same.

use std::borrow::Cow;

use lope_model::Value;
use lope_values::{EvalError, Fuel};

use super::super::scope::Scope;
use super::super::tree::{Expr, Node};
use super::Machine;

impl Expr {
    /// Is this a change of the variable in `slot` that may be made in place: nothing else in it
    /// looks at the variable?
    pub fn changes(&self, slot: u32) -> bool {
        let Node::Call(function, arguments) = &self.node else {
            return false;
        };
        let [first, rest @ ..] = &**arguments else {
            return false;
        };
        function.changes_in_place()
            && function.takes(arguments.len())
            && first.is_slot(slot)
            && !mentions(rest, slot)
    }

    fn is_slot(&self, slot: u32) -> bool {
        matches!(&self.node, Node::Name(name) if name.slot == Some(slot))
    }
}

fn mentions(exprs: &[Expr], slot: u32) -> bool {
    exprs.iter().any(|expr| {
        let mut found = expr.is_slot(slot);
        expr.each_child(&mut |child| found = found || mentions(std::slice::from_ref(child), slot));
        found
    })
}

/// Make the change that `expr` says to the variable's value. If that fails, the value is as it was.
pub fn change(
    expr: &Expr,
    whole: &mut Value,
    scope: &dyn Scope,
    fuel: &mut Fuel,
) -> Result<(), EvalError> {
    let Node::Call(function, arguments) = &expr.node else {
        return Ok(());
    };
    // As if the call and its first argument had been walked over.
    fuel.spend(2).map_err(|error| error.or_at(expr.at))?;
    let mut machine = Machine {
        scope,
        fuel,
        locals: Vec::new(),
        depth: 1,
    };
    let mut values = vec![Value::Null];
    for argument in &arguments[1..] {
        values.push(
            machine
                .eval(argument)
                .map(Cow::into_owned)
                .map_err(|error| error.or_at(expr.at))?,
        );
    }
    fuel.end();
    fuel.check_growth(whole, &values[1..])
        .map_err(|error| error.or_at(expr.at))?;
    values[0] = std::mem::take(whole);
    fuel.set_in_place(true);
    let changed = (function.entry().body)(&mut values, fuel);
    fuel.set_in_place(false);
    fuel.begin();
    fuel.end();
    match changed {
        Ok(changed) => *whole = changed,
        Err(error) => {
            *whole = std::mem::take(&mut values[0]);
            return Err(error.or_at(expr.at));
        }
    }
    Ok(())
}
