//! Changing a value at a path, links not followed.

use std::sync::Arc;

use thiserror::Error;

use super::{Json, Object, index};

/// A path that leads through something that is neither an object nor a list, or through a list by
/// something that is no index.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("what stands at depth {depth} of the path is {kind}, which has no entry '{key}'")]
pub struct NotAContainer {
    /// How many keys of the path lead to it.
    pub depth: usize,
    pub kind: &'static str,
    pub key: Arc<str>,
}

/// Puts `value` at `path` in `root`, or removes what stands there. Missing objects on the way are
/// made; the last element of a list is removed whole, any other becomes null.
pub fn put(
    root: &mut Option<Json>,
    path: &[Arc<str>],
    value: Option<Json>,
) -> Result<(), NotAContainer> {
    let Some((last, way)) = path.split_last() else {
        *root = value;
        return Ok(());
    };
    if value.is_none() && root.as_ref().is_none_or(|root| root.at(path).is_none()) {
        return Ok(());
    }
    if let Some(value) = &value
        && let Some(there) = root.as_mut().and_then(|root| existing(root, path))
    {
        *there = value.clone();
        return Ok(());
    }
    validate(root.as_ref(), path)?;
    let mut place = root.get_or_insert_with(|| Json::Object(Object::default()));
    for key in way {
        place = child_mut(place, key);
    }
    match value {
        Some(value) => *child_mut(place, last) = value,
        None => remove(place, last),
    }
    Ok(())
}

/// What stands at a path already.
fn existing<'a>(root: &'a mut Json, path: &[Arc<str>]) -> Option<&'a mut Json> {
    path.iter().try_fold(root, |place, key| match place {
        Json::Array(array) => array.get_mut(index(key)?),
        Json::Object(object) => object.get_mut(key),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) => None,
    })
}

/// Fails before anything was changed.
fn validate(root: Option<&Json>, path: &[Arc<str>]) -> Result<(), NotAContainer> {
    let mut place = root;
    for (depth, key) in path.iter().enumerate() {
        let Some(value) = place else { return Ok(()) };
        let fits = match value {
            Json::Object(_) => true,
            Json::Array(array) => index(key).is_some_and(|index| index <= array.len()),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) => false,
        };
        if !fits {
            return Err(NotAContainer {
                depth,
                kind: value.kind(),
                key: Arc::clone(key),
            });
        }
        place = value.child(key);
    }
    Ok(())
}

fn child_mut<'a>(place: &'a mut Json, key: &Arc<str>) -> &'a mut Json {
    match place {
        Json::Array(array) => {
            let index = index(key).expect("checked before");
            if index == array.len() {
                array.push(Json::Object(Object::default()));
            }
            array.get_mut(index).expect("it was just made")
        }
        Json::Object(object) => {
            if !object.contains_key(key) {
                object.insert(Arc::clone(key), Json::Object(Object::default()));
            }
            object.get_mut(key).expect("it was just made")
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) => {
            unreachable!("checked before that the path leads through containers")
        }
    }
}

fn remove(place: &mut Json, key: &Arc<str>) {
    match place {
        Json::Object(object) => {
            object.remove(key);
        }
        Json::Array(array) => {
            let index = index(key).expect("checked before");
            if index + 1 == array.len() {
                array.pop();
            } else {
                array.set(index, Json::Null);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) => {}
    }
}
