//! Finding keys among many: dicts with keys that are no text and sets are plain lists, so whoever
//! asks the same one again within an evaluation gets an index of it.

use std::collections::HashMap;
use std::sync::Arc;

use lope_model::Value;

use super::HashKey;
use crate::error::EvalError;
use crate::fuel::Fuel;
use crate::lookup::IndexedList;

/// Up to here looking through the items is as quick.
const SMALL: usize = 16;
/// Most lists that one evaluation remembers.
const HELD_MAX: usize = 8;

/// The place of a key: the items themselves, or what `key_of` says is theirs.
pub(crate) fn index(
    items: &Arc<Vec<Value>>,
    key_of: fn(&Value) -> Option<&Value>,
    wanted: &Value,
    fuel: &mut Fuel,
) -> Result<Option<usize>, EvalError> {
    let wanted = HashKey::of(wanted, fuel)?;
    if items.len() <= SMALL {
        return scan(items, key_of, &wanted, fuel);
    }
    let known = fuel
        .lookup
        .0
        .iter()
        .position(|held| Arc::ptr_eq(&held.items, items));
    let Some(known) = known else {
        if fuel.lookup.0.len() == HELD_MAX {
            fuel.lookup.0.remove(0);
        }
        fuel.lookup.0.push(IndexedList {
            items: Arc::clone(items),
            indexes: None,
        });
        return scan(items, key_of, &wanted, fuel);
    };
    if fuel.lookup.0[known].indexes.is_none() {
        let indexes = indexed(items, key_of, fuel)?;
        fuel.lookup.0[known].indexes = Some(indexes);
    }
    Ok(fuel.lookup.0[known]
        .indexes
        .as_ref()
        .and_then(|indexes| indexes.get(&wanted).copied()))
}

fn scan(
    items: &[Value],
    key_of: fn(&Value) -> Option<&Value>,
    wanted: &HashKey,
    fuel: &mut Fuel,
) -> Result<Option<usize>, EvalError> {
    for (index, item) in items.iter().enumerate() {
        if let Some(key) = key_of(item)
            && HashKey::of(key, fuel)? == *wanted
        {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

fn indexed(
    items: &[Value],
    key_of: fn(&Value) -> Option<&Value>,
    fuel: &mut Fuel,
) -> Result<HashMap<HashKey, usize>, EvalError> {
    fuel.grow(items.len() as u64 * 32)?;
    let mut indexes = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        if let Some(key) = key_of(item) {
            indexes.entry(HashKey::of(key, fuel)?).or_insert(index);
        }
    }
    Ok(indexes)
}
