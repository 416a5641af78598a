//! Loops inside expressions: macros.

use std::borrow::Cow;
use std::sync::Arc;

use lope_model::{Map, Value};
use lope_values::{EachKind, EvalError, sort};

use super::{Absorption, Evaluated, Machine, as_bool};
use crate::tree::Each;

impl<'a> Machine<'a, '_> {
    pub(super) fn each(&mut self, each: &'a Each) -> Result<Value, EvalError> {
        let over = self.eval(&each.over)?;
        let items = elements(&over)?;
        match each.kind {
            EachKind::All => self.verdict(each, &items, false),
            EachKind::Exists => self.verdict(each, &items, true),
            EachKind::ExistsOne => self.exists_one(each, &items),
            EachKind::List => self.collect(each, &items, |found, _, body| {
                found.push(body);
                Ok(())
            }),
            EachKind::Filter => self.collect(each, &items, |found, item, body| {
                if as_bool(&body)? {
                    found.push(item.clone());
                }
                Ok(())
            }),
            EachKind::Flat => self.collect(each, &items, |found, _, body| match body {
                Value::List(part) => {
                    found.extend(part.iter().cloned());
                    Ok(())
                }
                other => Err(EvalError::typed(format!(
                    "a list expected for each element, not {}",
                    other.kind()
                ))),
            }),
            EachKind::SortBy => self.sort_by(each, &items),
            EachKind::GroupBy => self.group_by(each, &items),
        }
    }

    /// The body's value with `item` bound, or nothing if the condition does not hold.
    fn body(&mut self, each: &'a Each, item: &Value) -> Result<Option<Evaluated<'a>>, EvalError> {
        self.locals.push((&each.name, item.clone()));
        let found = self.body_bound(each);
        self.locals.pop();
        found
    }

    fn body_bound(&mut self, each: &'a Each) -> Result<Option<Evaluated<'a>>, EvalError> {
        if let Some(when) = &each.when
            && !as_bool(&*self.eval(when)?).map_err(|error| error.or_at(when.at))?
        {
            return Ok(None);
        }
        self.eval(&each.body).map(Some)
    }

    fn collect(
        &mut self,
        each: &'a Each,
        items: &[Value],
        mut take: impl FnMut(&mut Vec<Value>, &Value, Value) -> Result<(), EvalError>,
    ) -> Result<Value, EvalError> {
        let mut found = Vec::new();
        for item in items {
            if let Some(body) = self.body(each, item)? {
                let before = found.len();
                take(&mut found, item, body.into_owned())?;
                self.fuel.build(found.len() - before)?;
            }
        }
        self.fuel.note_built();
        Ok(Value::list(found))
    }

    fn verdict(
        &mut self,
        each: &'a Each,
        items: &[Value],
        decisive: bool,
    ) -> Result<Value, EvalError> {
        let mut verdict = Absorption::new(decisive);
        for item in items {
            let body = self
                .body(each, item)
                .and_then(|body| body.map_or(Ok(!decisive), |body| as_bool(&body)));
            if verdict.decided(body)? {
                break;
            }
        }
        verdict.answer().map(Value::Bool)
    }

    fn exists_one(&mut self, each: &'a Each, items: &[Value]) -> Result<Value, EvalError> {
        let mut count = 0;
        for item in items {
            if let Some(body) = self.body(each, item)? {
                count += usize::from(as_bool(&body)?);
            }
        }
        Ok(Value::Bool(count == 1))
    }

    fn sort_by(&mut self, each: &'a Each, items: &[Value]) -> Result<Value, EvalError> {
        let mut keyed = Vec::new();
        for item in items {
            if let Some(key) = self.body(each, item)? {
                keyed.push((key.into_owned(), item.clone()));
            }
        }
        self.fuel.build(keyed.len())?;
        let sorted = sort::stable(
            keyed,
            &mut |a, b, _| sort::plain_less(&a.0, &b.0),
            self.fuel,
        )?;
        Ok(Value::list(
            sorted.into_iter().map(|(_, item)| item).collect(),
        ))
    }

    fn group_by(&mut self, each: &'a Each, items: &[Value]) -> Result<Value, EvalError> {
        let mut groups = indexmap::IndexMap::<Arc<str>, Vec<Value>>::new();
        for item in items {
            let Some(key) = self.body(each, item)? else {
                continue;
            };
            let Value::Str(key) = &*key else {
                return Err(EvalError::typed(format!(
                    "groupBy wants text as key, not {}",
                    key.kind()
                )));
            };
            groups
                .entry(Arc::clone(key))
                .or_default()
                .push(item.clone());
            self.fuel.build(1)?;
        }
        let map: Map = groups
            .into_iter()
            .map(|(key, items)| (key, Value::list(items)))
            .collect();
        Ok(Value::Map(Arc::new(map)))
    }
}

/// What a loop runs over: the items of a list, the keys of a map.
fn elements(over: &Value) -> Result<Cow<'_, [Value]>, EvalError> {
    match over {
        Value::List(items) => Ok(Cow::Borrowed(items)),
        Value::Map(map) => Ok(Cow::Owned(
            map.keys().map(|key| Value::Str(Arc::clone(key))).collect(),
        )),
        other => Err(EvalError::typed(format!(
            "a list or a map expected, not {}",
            other.kind()
        ))),
    }
}
