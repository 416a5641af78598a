//! What the tests do alike: short ways to name cells, and to set and read them in a transaction of
//! their own.

use lope_cells::{CellAddress, CellPath, EntityId, Json, Link, SpaceName, Spaces};

pub(crate) use serde_json::json;

pub(crate) fn space(name: &str) -> SpaceName {
    name.parse().unwrap()
}

/// `doc/a/b` in the space `home`, or `doc/a/b` in `other` when written `other:doc/a/b`.
pub(crate) fn cell(text: &str) -> CellAddress {
    let (place, rest) = text.split_once(':').unwrap_or(("home", text));
    let mut keys = rest.split('/');
    let id = EntityId::named(keys.next().unwrap());
    CellAddress::document(space(place), id).with_path(keys.collect::<CellPath>())
}

/// A plain link to a cell, with everything said.
pub(crate) fn link(text: &str) -> Json {
    Link::to(&cell(text), &cell("nowhere:-")).to_json()
}

/// A redirect to a cell, with everything said.
pub(crate) fn redirect(text: &str) -> Json {
    let link = Link::to(&cell(text), &cell("nowhere:-"));
    link.redirecting().to_json()
}

pub(crate) fn set(spaces: &mut Spaces, at: &str, value: impl Into<Json>) {
    let mut transaction = spaces.begin();
    transaction.set(&cell(at), &value.into()).unwrap();
    spaces.commit(transaction).unwrap();
}

/// How many paths a write of `value` changes.
pub(crate) fn writes(spaces: &mut Spaces, at: &str, value: impl Into<Json>) -> usize {
    let mut transaction = spaces.begin();
    transaction.set(&cell(at), &value.into()).unwrap();
    let count = transaction.operations().len();
    spaces.commit(transaction).unwrap();
    count
}

/// The value of a cell, links at its end followed.
pub(crate) fn get(spaces: &Spaces, at: &str) -> Option<Json> {
    spaces.begin().get(&cell(at))
}

/// What is stored at a cell, no link followed.
pub(crate) fn raw(spaces: &Spaces, at: &str) -> Option<Json> {
    spaces.snapshot().at(&cell(at)).cloned()
}
