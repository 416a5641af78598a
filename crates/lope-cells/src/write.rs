//! Writing a value: only what differs from what is there is written.
//!
//! Writing goes through redirects, which stay, and replaces plain links. What is compared counts as
//! read, so that two writers of one object never end with a mixture that neither wrote. What is
//! written into another space is handed over whole: whoever has it compares.

use crate::address::CellAddress;
use crate::element::{Normal, normalise};
use crate::error::WriteError;
use crate::id::SpaceName;
use crate::json::{Array, Json, Object, index};
use crate::link::{Link, rebase};
use crate::read::{Extent, Reads};
use crate::resolve::{Follow, Resolved, resolve, resolve_within};

/// Documents that can be changed.
pub trait Writes: Reads {
    /// Puts `value` where `at` says, or removes what is there; follows no link.
    fn put(&mut self, at: &CellAddress, value: Option<Json>) -> Result<(), WriteError>;

    /// The space that is written, if what is written to others goes another way.
    fn home(&self) -> Option<SpaceName> {
        None
    }
}

/// Makes `value` what `at` stands for.
pub fn write(on: &mut dyn Writes, at: &CellAddress, value: &Json) -> Result<(), WriteError> {
    let found = find(on, at, value)?;
    let moved = !found.address.is_same_document(at);
    let rebased = moved.then(|| rebase(value, at)).flatten();
    let value = rebased.as_ref().unwrap_or(value);
    if on.leads_out(&found.address) {
        return on.put(&found.address, Some(value.clone()));
    }
    let normal = normalise(value, &found.address)?;
    store(on, found, normal)
}

/// Removes what `at` stands for.
pub fn remove(on: &mut dyn Writes, at: &CellAddress) -> Result<(), WriteError> {
    let home = on.home();
    let found = resolve_within(on, at, Follow::Redirects, home.as_ref())?;
    if on.leads_out(&found.address) {
        return on.put(&found.address, None);
    }
    on.record(&found.address, Extent::Shape);
    match found.value {
        Some(_) => on.put(&found.address, None),
        None => Ok(()),
    }
}

/// Removes what `at` stands for. An element of a list is taken out of it, and those behind it move up.
pub fn take_out(on: &mut dyn Writes, at: &CellAddress) -> Result<(), WriteError> {
    let Some((key, way)) = at.path.keys().split_last() else {
        return remove(on, at);
    };
    let home = on.home();
    let list = at.prefix(way.len());
    let list = resolve_within(on, &list, Follow::Every, home.as_ref())?;
    let (Some(Json::Array(array)), Some(place)) = (&list.value, index(key)) else {
        return remove(on, at);
    };
    // A redirect stays where it is, as it does everywhere.
    if array.get(place).is_none_or(is_redirect) {
        return remove(on, at);
    }
    on.record(&list.address, Extent::Whole);
    let kept = array.iter().enumerate();
    let kept = kept.filter(|(other, _)| *other != place);
    let kept = Json::array(kept.map(|(_, element)| element.clone()));
    on.put(&list.address, Some(kept))
}

/// Puts `value` at `at` whatever links stand there or inside: these are replaced, not followed.
/// Entries of an object that are the same stay untouched.
pub fn replace(on: &mut dyn Writes, at: &CellAddress, value: &Json) -> Result<(), WriteError> {
    let found = resolve(on, at, Follow::Nothing)?;
    let normal = normalise(value, &found.address)?;
    put_differing(on, &found.address, found.value.as_ref(), &normal.value)?;
    for (id, content) in normal.elements {
        let at = CellAddress::document(found.address.space.clone(), id);
        let current = on.document(&at.space, &at.id);
        put_differing(on, &at, current.as_ref(), &content)?;
    }
    Ok(())
}

/// Stores `value` exactly as it is as the whole of a document: a recipe, whose digest must stay what
/// it was.
pub fn store_as_is(on: &mut dyn Writes, at: &CellAddress, value: &Json) -> Result<(), WriteError> {
    on.record(at, Extent::Whole);
    if on.document(&at.space, &at.id).as_ref() == Some(value) {
        return Ok(());
    }
    on.put(at, Some(value.clone()))
}

fn put_differing(
    on: &mut dyn Writes,
    at: &CellAddress,
    current: Option<&Json>,
    value: &Json,
) -> Result<(), WriteError> {
    let is_link = |value: &Json| Link::from_json(value).is_some();
    let (before, after) = match (current, value) {
        (Some(Json::Object(before)), Json::Object(after))
            if !current.is_some_and(is_link) && !is_link(value) =>
        {
            (before, after)
        }
        _ => {
            on.record(at, Extent::Whole);
            if current == Some(value) {
                return Ok(());
            }
            return on.put(at, Some(value.clone()));
        }
    };
    on.record(at, Extent::Keys);
    for key in before.keys().filter(|key| !after.contains_key(key)) {
        on.put(&at.key(key.clone()), None)?;
    }
    for (key, entry) in after.iter() {
        put_differing(on, &at.key(key.clone()), before.get(key), entry)?;
    }
    Ok(())
}

/// Where a write of `value` to `at` ends.
fn find(on: &mut dyn Writes, at: &CellAddress, value: &Json) -> Result<Resolved, WriteError> {
    let follow = if is_redirect(value) {
        Follow::Nothing
    } else {
        Follow::Redirects
    };
    let home = on.home();
    let found = resolve_within(on, at, follow, home.as_ref())?;
    if found.address.id.is_inline() {
        return Err(WriteError::Inline { at: found.address });
    }
    Ok(found)
}

fn is_redirect(value: &Json) -> bool {
    Link::from_json(value).is_some_and(|link| link.redirect)
}

fn store(on: &mut dyn Writes, found: Resolved, normal: Normal) -> Result<(), WriteError> {
    let space = found.address.space.clone();
    diff(on, &found.address, found.value.as_ref(), &normal.value)?;
    for (id, content) in normal.elements {
        let at = CellAddress::document(space.clone(), id);
        let current = on.document(&at.space, &at.id);
        diff(on, &at, current.as_ref(), &content)?;
    }
    Ok(())
}

/// Writes what is different in `value`, which is in its stored form.
fn diff(
    on: &mut dyn Writes,
    at: &CellAddress,
    current: Option<&Json>,
    value: &Json,
) -> Result<(), WriteError> {
    if Link::from_json(value).is_none() && current.and_then(Link::from_json).is_none() {
        match (current, value) {
            (Some(Json::Object(current)), Json::Object(value)) => {
                return diff_object(on, at, current, value);
            }
            (Some(Json::Array(current)), Json::Array(value)) => {
                return diff_array(on, at, current, value);
            }
            _ => {}
        }
    }
    on.record(at, Extent::Whole);
    if current.is_some_and(|current| is_unchanged(current, value, at)) {
        return Ok(());
    }
    on.put(at, Some(value.clone()))
}

/// Whether both are the same value, or links of the same kind to the same address.
fn is_unchanged(current: &Json, value: &Json, base: &CellAddress) -> bool {
    match (Link::from_json(current), Link::from_json(value)) {
        (Some(current), Some(value)) => {
            current.redirect == value.redirect && current.target(base) == value.target(base)
        }
        _ => current == value,
    }
}

fn diff_object(
    on: &mut dyn Writes,
    at: &CellAddress,
    current: &Object,
    value: &Object,
) -> Result<(), WriteError> {
    if current.is_same(value) {
        on.record(at, Extent::Whole);
        return Ok(());
    }
    on.record(at, Extent::Keys);
    for key in current.keys().filter(|key| !value.contains_key(key)) {
        on.put(&at.key(key.clone()), None)?;
    }
    for (key, entry) in value.iter() {
        diff_child(on, &at.key(key.clone()), current.get(key), entry)?;
    }
    Ok(())
}

fn diff_array(
    on: &mut dyn Writes,
    at: &CellAddress,
    current: &Array,
    value: &Array,
) -> Result<(), WriteError> {
    if current.is_same(value) {
        on.record(at, Extent::Whole);
        return Ok(());
    }
    on.record(at, Extent::Shape);
    for index in (value.len()..current.len()).rev() {
        on.put(&at.key(index.to_string()), None)?;
    }
    for (index, element) in value.iter().enumerate() {
        let at = at.key(index.to_string());
        diff_child(on, &at, current.get(index), element)?;
    }
    Ok(())
}

/// A redirect inside the value is written through, like one at its top.
fn diff_child(
    on: &mut dyn Writes,
    at: &CellAddress,
    current: Option<&Json>,
    value: &Json,
) -> Result<(), WriteError> {
    if current.is_some_and(is_redirect) && !is_redirect(value) {
        let found = find(on, at, value)?;
        let moved = !found.address.is_same_document(at);
        let rebased = moved.then(|| rebase(value, at)).flatten();
        let value = rebased.as_ref().unwrap_or(value);
        if on.leads_out(&found.address) {
            return on.put(&found.address, Some(value.clone()));
        }
        return diff(on, &found.address, found.value.as_ref(), value);
    }
    diff(on, at, current, value)
}
