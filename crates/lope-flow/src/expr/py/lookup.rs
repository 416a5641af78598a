//! Finding keys among many: dicts with keys that are no text and sets are plain lists, so whoever asks the same one again
//! within an evaluation gets an index of it.

use std::collections::HashMap;
use std::sync::Arc;

use lope_model::Value;

use super::Key;
use crate::expr::error::EvalError;
use crate::expr::fuel::Fuel;

/// Up to here looking through the items is as quick.
const SMALL: usize = 16;
/// Most lists that one evaluation remembers.
const HELD_MAX: usize = 8;

/// The lists asked about, and the places of their keys from the second time on.
#[derive(Debug, Clone, Default)]
pub(in crate::expr) struct Lookup(Vec<Held>);

#[derive(Debug, Clone)]
struct Held {
    items: Arc<Vec<Value>>,
    places: Option<HashMap<Key, usize>>,
}

impl Lookup {
    pub(in crate::expr) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The place of a key: the items themselves, or what `key_of` says is theirs.
pub(in crate::expr) fn place(
    items: &Arc<Vec<Value>>,
    key_of: fn(&Value) -> Option<&Value>,
    wanted: &Value,
    fuel: &mut Fuel,
) -> Result<Option<usize>, EvalError> {
    let wanted = Key::of(wanted, fuel)?;
    if items.len() <= SMALL {
        return scan(items, key_of, &wanted, fuel);
    }
    let known = fuel.lookup.0.iter().position(|held| Arc::ptr_eq(&held.items, items));
    let Some(known) = known else {
        if fuel.lookup.0.len() == HELD_MAX {
            fuel.lookup.0.remove(0);
        }
        fuel.lookup.0.push(Held { items: Arc::clone(items), places: None });
        return scan(items, key_of, &wanted, fuel);
    };
    if fuel.lookup.0[known].places.is_none() {
        let places = indexed(items, key_of, fuel)?;
        fuel.lookup.0[known].places = Some(places);
    }
    Ok(fuel.lookup.0[known].places.as_ref().and_then(|places| places.get(&wanted).copied()))
}

fn scan(
    items: &[Value],
    key_of: fn(&Value) -> Option<&Value>,
    wanted: &Key,
    fuel: &mut Fuel,
) -> Result<Option<usize>, EvalError> {
    for (place, item) in items.iter().enumerate() {
        if let Some(key) = key_of(item)
            && Key::of(key, fuel)? == *wanted
        {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

fn indexed(
    items: &[Value],
    key_of: fn(&Value) -> Option<&Value>,
    fuel: &mut Fuel,
) -> Result<HashMap<Key, usize>, EvalError> {
    fuel.grow(items.len() as u64 * 32)?;
    let mut places = HashMap::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        if let Some(key) = key_of(item) {
            places.entry(Key::of(key, fuel)?).or_insert(place);
        }
    }
    Ok(places)
}
