//! Values that are not a tree yet: they hold cells, and parts of them may lead back to where they
//! came from, as objects of a script do.
//!
//! A cell becomes a link; a part that contains itself becomes a link to where it first stood.

use std::sync::Arc;

use crate::address::CellAddress;
use crate::json::Json;
use crate::link::Link;
use crate::path::CellPath;

/// A part of a value graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartId(usize);

/// Parts that refer to each other.
#[derive(Clone, Debug, Default)]
pub struct ValueGraph {
    parts: Vec<ValuePart>,
}

#[derive(Clone, Debug)]
enum ValuePart {
    Plain(Json),
    Array(Vec<PartId>),
    Object(Vec<(Arc<str>, PartId)>),
    Cell(CellAddress),
}

impl ValueGraph {
    pub fn plain(&mut self, value: Json) -> PartId {
        self.add(ValuePart::Plain(value))
    }

    pub fn cell(&mut self, address: CellAddress) -> PartId {
        self.add(ValuePart::Cell(address))
    }

    /// An empty list, to be filled with `push`.
    pub fn array(&mut self) -> PartId {
        self.add(ValuePart::Array(Vec::new()))
    }

    /// An empty object, to be filled with `insert`.
    pub fn object(&mut self) -> PartId {
        self.add(ValuePart::Object(Vec::new()))
    }

    /// Appends to a list; does nothing to any other part.
    pub fn push(&mut self, array: PartId, element: PartId) {
        if let ValuePart::Array(elements) = &mut self.parts[array.0] {
            elements.push(element);
        }
    }

    /// Puts an entry into an object; does nothing to any other part.
    pub fn insert(&mut self, object: PartId, key: &str, value: PartId) {
        if let ValuePart::Object(entries) = &mut self.parts[object.0] {
            entries.push((key.into(), value));
        }
    }

    /// The value of `root` as it will be written to `at`.
    pub fn to_json(&self, root: PartId, at: &CellAddress) -> Json {
        self.part(root, at, &mut Vec::new())
    }

    fn add(&mut self, part: ValuePart) -> PartId {
        self.parts.push(part);
        PartId(self.parts.len() - 1)
    }

    fn part(&self, id: PartId, at: &CellAddress, open: &mut Vec<(PartId, CellPath)>) -> Json {
        if let Some((_, path)) = open.iter().find(|(part, _)| *part == id) {
            return Link::to(&at.with_path(path.clone()), at).to_json();
        }
        open.push((id, at.path.clone()));
        let value = match &self.parts[id.0] {
            ValuePart::Plain(value) => value.clone(),
            ValuePart::Cell(address) => Link::to(address, at).to_json(),
            ValuePart::Array(elements) => Json::array(
                elements
                    .iter()
                    .enumerate()
                    .map(|(index, element)| self.part(*element, &at.key(index.to_string()), open)),
            ),
            ValuePart::Object(entries) => Json::object(entries.iter().map(|(key, value)| {
                let value = self.part(*value, &at.key(key.clone()), open);
                (key.clone(), value)
            })),
        };
        open.pop();
        value
    }
}
