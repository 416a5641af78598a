//! A stable sort whose comparison may fail and need not be consistent (NaN): it never panics, and
//! its work is paid for.

use lope_model::Value;

use super::compare::{self, Relation};
use super::error::EvalError;
use super::fuel::Fuel;

/// Is the first strictly before the second?
pub type Less<'l, T> = &'l mut dyn FnMut(&T, &T, &mut Fuel) -> Result<bool, EvalError>;

/// Merges runs of doubling length; equal elements keep their order.
pub fn stable<T>(items: Vec<T>, less: Less<'_, T>, fuel: &mut Fuel) -> Result<Vec<T>, EvalError> {
    let levels = u64::from(items.len().max(1).ilog2()) + 1;
    fuel.spend(items.len() as u64 * levels)?;
    let mut runs: Vec<Vec<T>> = items.into_iter().map(|item| vec![item]).collect();
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut rest = runs.into_iter();
        while let Some(left) = rest.next() {
            merged.push(match rest.next() {
                Some(right) => merge(left, right, less, fuel)?,
                None => left,
            });
        }
        runs = merged;
    }
    Ok(runs.pop().unwrap_or_default())
}

fn merge<T>(
    left: Vec<T>,
    right: Vec<T>,
    less: Less<'_, T>,
    fuel: &mut Fuel,
) -> Result<Vec<T>, EvalError> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let next = if less(b, a, fuel)? {
            right.next()
        } else {
            left.next()
        };
        merged.extend(next);
    }
    merged.extend(left);
    merged.extend(right);
    Ok(merged)
}

/// The order of text expressions.
pub fn plain_less(left: &Value, right: &Value) -> Result<bool, EvalError> {
    compare::ordered(Relation::Lt, left, right)
}
