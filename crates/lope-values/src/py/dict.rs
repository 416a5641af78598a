//! Dicts: a map when all keys are text, else a tagged list of pairs. One face for both.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use lope_model::{Map, Value};

use super::{DICT, HashKey, lookup, tagged};
use crate::error::EvalError;
use crate::fuel::Fuel;

/// A dict to look at.
#[derive(Clone, Copy, Debug)]
pub enum Dict<'v> {
    Map(&'v Map),
    Pairs(&'v Arc<Vec<Value>>),
}

impl<'v> Dict<'v> {
    pub fn of(value: &'v Value) -> Option<Self> {
        match value {
            Value::Map(map) => Some(Self::Map(map)),
            _ => tagged(value, DICT).map(Self::Pairs),
        }
    }

    pub fn len(self) -> usize {
        match self {
            Self::Map(map) => map.len(),
            Self::Pairs(pairs) => pairs.len(),
        }
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    pub fn get(self, key: &Value, fuel: &mut Fuel) -> Result<Option<&'v Value>, EvalError> {
        let key = super::object::plain(key);
        let pairs = match (self, key) {
            (Self::Map(map), Value::Str(key)) => return Ok(map.get(key)),
            (Self::Map(_), _) => return HashKey::of(key, fuel).map(|_| None),
            (Self::Pairs(pairs), _) => pairs,
        };
        let index = lookup::index(pairs, first, key, fuel)?;
        Ok(index.and_then(|index| pairs[index].as_list()?.get(1)))
    }

    /// Keys and values in the order in which they came.
    pub fn iter(self) -> Box<dyn Iterator<Item = (Cow<'v, Value>, &'v Value)> + 'v> {
        match self {
            Self::Map(map) => Box::new(
                map.iter()
                    .map(|(key, value)| (Cow::Owned(Value::Str(Arc::clone(key))), value)),
            ),
            Self::Pairs(pairs) => Box::new(pairs.iter().filter_map(|pair| match pair.as_list() {
                Some([key, value]) => Some((Cow::Borrowed(key), value)),
                _ => None,
            })),
        }
    }
}

/// The key of a pair.
fn first(pair: &Value) -> Option<&Value> {
    match pair.as_list() {
        Some([key, _]) => Some(key),
        _ => None,
    }
}

/// A dict being made.
#[derive(Debug, Default)]
pub struct Pairs {
    indexes: HashMap<HashKey, usize>,
    pairs: Vec<Option<(Value, Value)>>,
}

impl Pairs {
    pub fn of(dict: Dict<'_>, fuel: &mut Fuel) -> Result<Self, EvalError> {
        let mut pairs = Self::default();
        for (key, value) in dict.iter() {
            pairs.insert(key.into_owned(), value.clone(), fuel)?;
        }
        Ok(pairs)
    }

    /// A key that is there keeps its place and its first form, and gets the new value.
    pub fn insert(&mut self, key: Value, value: Value, fuel: &mut Fuel) -> Result<(), EvalError> {
        let index = *self
            .indexes
            .entry(HashKey::of(&key, fuel)?)
            .or_insert(self.pairs.len());
        if let Some(Some(pair)) = self.pairs.get_mut(index) {
            pair.1 = value;
            return Ok(());
        }
        self.pairs.push(Some((key, value)));
        fuel.build(1)
    }

    pub fn remove(&mut self, key: &Value, fuel: &mut Fuel) -> Result<Option<Value>, EvalError> {
        let index = self.indexes.remove(&HashKey::of(key, fuel)?);
        Ok(index
            .and_then(|index| self.pairs[index].take())
            .map(|(_, value)| value))
    }

    pub fn remove_last(&mut self, fuel: &mut Fuel) -> Result<Option<(Value, Value)>, EvalError> {
        let Some((key, _)) = self.pairs.iter().rev().flatten().next() else {
            return Ok(None);
        };
        let key = key.clone();
        Ok(self.remove(&key, fuel)?.map(|value| (key, value)))
    }

    pub fn into_value(self) -> Value {
        let pairs: Vec<(Value, Value)> = self.pairs.into_iter().flatten().collect();
        if pairs.iter().all(|(key, _)| matches!(key, Value::Str(_))) {
            let entry = |(key, value): (Value, Value)| match key {
                Value::Str(key) => Some((key, value)),
                _ => None,
            };
            return Value::Map(Arc::new(pairs.into_iter().filter_map(entry).collect()));
        }
        let pairs = pairs
            .into_iter()
            .map(|(key, value)| Value::list(vec![key, value]))
            .collect();
        Value::tag(DICT, Value::list(pairs))
    }
}
