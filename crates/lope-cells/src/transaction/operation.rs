//! What a transaction does to a document: a value put somewhere, or an intent that holds whatever
//! else has happened to the value.

use crate::address::CellAddress;
use crate::error::{CommitRefusal, WriteError};
use crate::json::{Array, Json, Number, put};
use crate::link::{Link, same_target};

/// What a key takes besides its text, and a number.
const KEY_WEIGHT: usize = 10;

/// One change of one document.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    pub at: CellAddress,
    pub change: Change,
}

/// What is done to the value at an address.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It becomes this, or goes away.
    Put(Option<Json>),
    /// The list gets these elements at its end.
    Append(Vec<Json>),
    /// The list gets those of these elements that it does not have.
    AddUnique(Vec<Json>),
    /// The list loses every element that equals this.
    RemoveValue(Json),
    /// The number grows by this.
    Increment(Number),
}

impl Operation {
    /// Does it to `document`; if it cannot be done, nothing is changed.
    pub fn apply(&self, document: &mut Option<Json>) -> Result<(), CommitRefusal> {
        let value = match &self.change {
            Change::Put(value) => value.clone(),
            intent => {
                let current = document.as_ref();
                let current = current.and_then(|root| root.at(self.at.path.keys()));
                Some(self.intended(intent, current)?)
            }
        };
        Ok(self.store(document, value)?)
    }

    /// How much room what it adds takes at most, the way to it included.
    pub fn weight(&self) -> usize {
        let keys = self.at.path.keys().iter();
        let keys: usize = keys.map(|key| key.len() + KEY_WEIGHT).sum();
        keys + match &self.change {
            Change::Put(value) => value.as_ref().map_or(0, Json::weight),
            Change::Append(elements) | Change::AddUnique(elements) => {
                elements.iter().map(Json::weight).sum()
            }
            Change::RemoveValue(element) => element.weight(),
            Change::Increment(_) => KEY_WEIGHT,
        }
    }

    /// Puts `value` where the operation applies.
    pub(super) fn store(
        &self,
        document: &mut Option<Json>,
        value: Option<Json>,
    ) -> Result<(), WriteError> {
        put(document, self.at.path.keys(), value).map_err(|source| {
            let at = self.at.clone();
            WriteError::NotAContainer { at, source }
        })
    }

    fn intended(&self, intent: &Change, current: Option<&Json>) -> Result<Json, CommitRefusal> {
        match intent {
            Change::Put(value) => Ok(value.clone().unwrap_or_default()),
            Change::Increment(by) => self.sum(current, *by).map(Json::Number),
            Change::Append(elements) => {
                let mut list = self.list(current)?;
                elements
                    .iter()
                    .for_each(|element| list.push(element.clone()));
                Ok(Json::Array(list))
            }
            Change::AddUnique(elements) => {
                let mut list = self.list(current)?;
                for element in elements {
                    if !list.iter().any(|other| self.is_equal(other, element)) {
                        list.push(element.clone());
                    }
                }
                Ok(Json::Array(list))
            }
            Change::RemoveValue(value) => {
                let list = self.list(current)?;
                let kept = list.iter().filter(|other| !self.is_equal(other, value));
                Ok(Json::array(kept.cloned()))
            }
        }
    }

    fn is_equal(&self, one: &Json, other: &Json) -> bool {
        match Link::from_json(one) {
            Some(_) => same_target(one, other, &self.at),
            None => one == other,
        }
    }

    fn list(&self, current: Option<&Json>) -> Result<Array, CommitRefusal> {
        match current {
            None => Ok(Array::default()),
            Some(Json::Array(array)) => Ok(array.clone()),
            Some(other) => Err(CommitRefusal::NotAList {
                at: self.at.clone(),
                kind: other.kind(),
            }),
        }
    }

    fn sum(&self, current: Option<&Json>, by: Number) -> Result<Number, CommitRefusal> {
        let at = || self.at.clone();
        let current = match current {
            None => Number::from(0),
            Some(Json::Number(number)) => *number,
            Some(other) => {
                let kind = other.kind();
                return Err(CommitRefusal::NotANumber { at: at(), kind });
            }
        };
        let whole = current.as_int().zip(by.as_int());
        if whole.is_some_and(|(one, other)| one.checked_add(other).is_none()) {
            return Err(CommitRefusal::Overflow { at: at() });
        }
        current
            .plus(by)
            .ok_or_else(|| CommitRefusal::Overflow { at: at() })
    }
}
