//! Reading through a schema: what is asked for, links followed, defaults filled in.
//!
//! Only what the schema names is looked at and recorded. A value that does not fit is absent, never
//! an error; one that is left out because there is too much is told to whoever reads. Where the schema says `asCell` or `asStream` the answer has the place instead of the
//! value. A link that leads back into the value it stands in stays a link.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::address::CellAddress;
use crate::json::{Json, Object};
use crate::limit;
use crate::link::Link;
use crate::read::{BeyondBound, Extent, Reads};
use crate::resolve::{Follow, Resolved, resolve, resolve_link};
use crate::schema::Schema;

/// A place with the schema it is read through.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub address: CellAddress,
    pub schema: Schema,
}

/// A value as a schema asked for it.
#[derive(Clone, Debug, PartialEq)]
pub enum Projected {
    /// JSON without cells in it.
    Plain(Json),
    Array(Vec<Projected>),
    Object(BTreeMap<Arc<str>, Projected>),
    Cell(Cell),
    /// A cell that takes events.
    Stream(Cell),
}

impl Cell {
    pub fn new(address: CellAddress) -> Self {
        Self {
            address,
            schema: Schema::any(),
        }
    }

    /// The value of the cell.
    pub fn get(&self, reads: &mut dyn Reads) -> Option<Projected> {
        project(reads, &self.address, &self.schema)
    }
}

impl Projected {
    /// A list, plain if all of it is.
    pub fn list(elements: Vec<Self>) -> Self {
        let plain: Option<Vec<Json>> = elements.iter().map(plain).collect();
        plain.map_or(Self::Array(elements), |plain| {
            Self::Plain(Json::array(plain))
        })
    }

    /// The value as JSON; a cell becomes a link as it would stand in a document at `base`.
    pub fn to_json(&self, base: &CellAddress) -> Json {
        match self {
            Self::Plain(json) => json.clone(),
            Self::Array(elements) => {
                Json::array(elements.iter().map(|element| element.to_json(base)))
            }
            Self::Object(entries) => {
                let entries = entries.iter();
                Json::object(entries.map(|(key, value)| (key.clone(), value.to_json(base))))
            }
            Self::Cell(cell) | Self::Stream(cell) => Link::to(&cell.address, base).to_json(),
        }
    }
}

/// Whether a value marks its cell as a stream.
pub fn is_stream(value: &Json) -> bool {
    value.child("$stream") == Some(&Json::Bool(true))
}

/// Reads what stands at `at` through `schema`.
pub fn project(reads: &mut dyn Reads, at: &CellAddress, schema: &Schema) -> Option<Projected> {
    let mut projection = Projection {
        reads,
        visiting: Vec::new(),
        parts: 0,
    };
    let found = resolve(projection.reads, at, Follow::Every).ok()?;
    projection.visiting.push(found.address.clone());
    projection.value(found, schema)
}

/// Reads `value` through `schema` as if it stood at `at`, an inline document.
pub fn project_value(
    reads: &mut dyn Reads,
    at: &CellAddress,
    value: &Json,
    schema: &Schema,
) -> Option<Projected> {
    let mut projection = Projection {
        reads,
        visiting: Vec::new(),
        parts: 0,
    };
    let found = match Link::from_json(value) {
        Some(link) => resolve(projection.reads, &link.target(at), Follow::Every).ok()?,
        None => Resolved {
            address: at.clone(),
            value: Some(value.clone()),
        },
    };
    projection.visiting.push(found.address.clone());
    projection.value(found, schema)
}

/// An entry of an argument.
#[derive(Clone, Debug, PartialEq)]
pub enum ArgumentPart {
    /// JSON without links in it.
    Plain(Json),
    /// What stands in a cell.
    Cell(CellAddress),
}

/// An object of which everything is wanted, its entries known beforehand: the same as reading an
/// inline document with links to the cells.
pub fn project_parts(reads: &mut dyn Reads, parts: &[(Arc<str>, ArgumentPart)]) -> Projected {
    let entries = parts.iter().filter_map(|(key, part)| {
        let value = match part {
            ArgumentPart::Plain(value) => Some(Projected::Plain(value.clone())),
            ArgumentPart::Cell(at) => project_whole(reads, at),
        };
        Some((Arc::clone(key), value?))
    });
    let entries: Vec<_> = entries.collect();
    let is_plain = |(_, value): &(_, Projected)| matches!(value, Projected::Plain(_));
    if !entries.iter().all(is_plain) {
        return Projected::Object(entries.into_iter().collect());
    }
    let plain = entries.into_iter().filter_map(|(key, value)| match value {
        Projected::Plain(value) => Some((key, value)),
        _ => None,
    });
    Projected::Plain(Json::object(plain))
}

/// Everything that stands at `at`.
fn project_whole(reads: &mut dyn Reads, at: &CellAddress) -> Option<Projected> {
    let found = resolve(reads, at, Follow::Every).ok()?;
    match found.value {
        // What has no parts needs no looking through.
        Some(value) if !matches!(value, Json::Array(_) | Json::Object(_)) => {
            reads.record(&found.address, Extent::Whole);
            Some(Projected::Plain(value))
        }
        value => {
            let mut projection = Projection {
                reads,
                visiting: vec![found.address.clone()],
                parts: 0,
            };
            let found = Resolved { value, ..found };
            projection.value(found, &Schema::any())
        }
    }
}

/// Looks at where the links in everything that `at` stands for lead, and at nothing else: for one who
/// wants all of it kept up to date and does nothing with it.
pub fn observe(reads: &mut dyn Reads, at: &CellAddress) {
    let mut seen = BTreeSet::new();
    let mut open = vec![at.clone()];
    while let Some(next) = open.pop() {
        let Ok(found) = resolve(reads, &next, Follow::Every) else {
            continue;
        };
        if !seen.insert(found.address.clone()) {
            continue;
        }
        if seen.len() > limit::PROJECTED_MAX {
            return reads.cut_short(BeyondBound::Parts { from: at.clone() });
        }
        reads.record(&found.address, Extent::Links);
        if let Some(value) = &found.value {
            collect_targets(value, &found.address, &mut open);
        }
    }
}

fn collect_targets(value: &Json, base: &CellAddress, found: &mut Vec<CellAddress>) {
    match value {
        Json::Array(array) => array
            .iter()
            .for_each(|element| collect_targets(element, base, found)),
        Json::Object(object) => match Link::from_json(value) {
            Some(link) => found.push(link.target(base)),
            None => object
                .iter()
                .for_each(|(_, value)| collect_targets(value, base, found)),
        },
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) => {}
    }
}

struct Projection<'a> {
    reads: &'a mut dyn Reads,
    /// The targets of the links that led here.
    visiting: Vec<CellAddress>,
    parts: usize,
}

impl Projection<'_> {
    fn value(&mut self, found: Resolved, schema: &Schema) -> Option<Projected> {
        self.parts += 1;
        if self.parts > limit::PROJECTED_MAX || self.visiting.len() > limit::DEPTH_MAX {
            self.cut_short();
            return None;
        }
        let schema = &schema.dereferenced()?;
        if schema.flag("asStream") {
            return self.stream(found, schema);
        }
        if schema.flag("asCell") {
            self.reads.record(&found.address, Extent::Link);
            return Some(Projected::Cell(Cell {
                address: found.address,
                schema: schema.without("asCell"),
            }));
        }
        let address = found.address;
        let value = found.value.or_else(|| {
            self.reads.record(&address, Extent::Shape);
            schema.default_value()
        })?;
        let found = Resolved {
            address,
            value: Some(value.clone()),
        };
        match schema.options() {
            Some(options) => options
                .iter()
                .find_map(|option| self.value(found.clone(), option)),
            None => self.fitting(&found, &value, schema),
        }
    }

    fn cut_short(&mut self) {
        let from = self.visiting.first().cloned();
        let from = from.expect("whoever projects stands in what it began with");
        self.reads.cut_short(if self.parts > limit::PROJECTED_MAX {
            BeyondBound::Parts { from }
        } else {
            BeyondBound::Depth { from }
        });
    }

    fn stream(&mut self, found: Resolved, schema: &Schema) -> Option<Projected> {
        self.reads.record(&found.address, Extent::Whole);
        let is_unknown = found.value.is_none() && self.reads.leads_out(&found.address);
        if !is_unknown {
            found.value.filter(is_stream)?;
        }
        Some(Projected::Stream(Cell {
            address: found.address,
            schema: schema.without("asStream"),
        }))
    }

    fn fitting(&mut self, found: &Resolved, value: &Json, schema: &Schema) -> Option<Projected> {
        if schema.is_any() {
            self.reads.record(&found.address, Extent::Whole);
            let followed = self.followed(&found.address, value);
            return Some(followed.unwrap_or_else(|| Projected::Plain(value.clone())));
        }
        let is_scalar = !matches!(value, Json::Array(_) | Json::Object(_));
        let compared = schema.get("const").or_else(|| schema.get("enum")).is_some();
        self.reads.record(
            &found.address,
            match value {
                _ if is_scalar || compared => Extent::Whole,
                Json::Object(_) if schema.unnamed().is_some() => Extent::Keys,
                _ => Extent::Shape,
            },
        );
        if !schema.accepts(value) {
            return None;
        }
        let projected = self.children(found, value, schema);
        has_required(&projected, schema).then_some(projected)
    }

    /// A value of which everything is wanted, with what its links lead to; none if it has none. All
    /// of it is recorded already.
    fn followed(&mut self, at: &CellAddress, value: &Json) -> Option<Projected> {
        match value {
            Json::Array(array) => {
                self.parts += array.len();
                let mut changed = BTreeMap::new();
                for (index, element) in array.iter().enumerate() {
                    if let Some(other) = self.entry(at, element, || index.to_string().into()) {
                        changed.insert(index, other);
                    }
                }
                (!changed.is_empty()).then(|| {
                    let elements = array.iter().enumerate().map(|(index, element)| {
                        let other = changed.remove(&index);
                        let other =
                            other.unwrap_or_else(|| Some(Projected::Plain(element.clone())));
                        other.unwrap_or(Projected::Plain(Json::Null))
                    });
                    Projected::list(elements.collect())
                })
            }
            Json::Object(object) => {
                self.parts += object.len();
                let mut changed = BTreeMap::new();
                for (key, value) in object.iter() {
                    if let Some(other) = self.entry(at, value, || Arc::clone(key)) {
                        changed.insert(Arc::clone(key), other);
                    }
                }
                (!changed.is_empty()).then(|| {
                    let entries = object.iter().filter_map(|(key, value)| {
                        let other = changed.remove(key);
                        let other = other.unwrap_or_else(|| Some(Projected::Plain(value.clone())));
                        Some((Arc::clone(key), other?))
                    });
                    record(entries.collect())
                })
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) => None,
        }
    }

    /// What stands for an entry of a value of which everything is wanted, undefined perhaps; none if
    /// it stands for itself.
    #[allow(clippy::option_option, reason = "undefined is not the same as itself")]
    fn entry(
        &mut self,
        at: &CellAddress,
        value: &Json,
        key: impl FnOnce() -> Arc<str>,
    ) -> Option<Option<Projected>> {
        match value {
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) => None,
            Json::Array(_) | Json::Object(_) => {
                let at = at.key(key());
                match Link::from_json(value) {
                    Some(link) => Some(self.linked(&link, &at, &Schema::any())),
                    None => self.followed(&at, value).map(Some),
                }
            }
        }
    }

    fn children(&mut self, found: &Resolved, value: &Json, schema: &Schema) -> Projected {
        match value {
            Json::Array(array) => {
                let items = schema.items();
                let elements = array.iter().enumerate().map(|(index, _)| {
                    let element = self.child(found, &index.to_string().into(), &items);
                    element.unwrap_or(Projected::Plain(Json::Null))
                });
                Projected::list(elements.collect())
            }
            Json::Object(object) => {
                let mut entries = BTreeMap::new();
                let named = schema.properties().into_iter().flat_map(Object::keys);
                let mut keys: Vec<Arc<str>> = named.cloned().collect();
                if schema.unnamed().is_some() {
                    let is_unnamed = |key: &&Arc<str>| schema.property(key).is_none();
                    keys.extend(object.keys().filter(is_unnamed).cloned());
                }
                for key in keys {
                    let part = schema.property(&key).or_else(|| schema.unnamed());
                    let part = part.unwrap_or_else(Schema::any);
                    if let Some(child) = self.child(found, &key, &part) {
                        entries.insert(key, child);
                    }
                }
                record(entries)
            }
            scalar => Projected::Plain(scalar.clone()),
        }
    }

    fn child(&mut self, parent: &Resolved, key: &Arc<str>, schema: &Schema) -> Option<Projected> {
        let value = parent.value.as_ref().and_then(|value| value.child(key));
        let at = parent.address.key(Arc::clone(key));
        let Some(link) = value.and_then(Link::from_json) else {
            let value = value.cloned();
            return self.value(Resolved { address: at, value }, schema);
        };
        self.reads.record(&at, Extent::Whole);
        self.linked(&link, &at, schema)
    }

    /// What a link at `at` leads to.
    fn linked(&mut self, link: &Link, at: &CellAddress, schema: &Schema) -> Option<Projected> {
        let found = resolve_link(self.reads, link, at).ok()?;
        if self.visiting.contains(&found.address) && !schema.flag("asCell") {
            return Some(Projected::Plain(link.absolute(at).to_json()));
        }
        self.visiting.push(found.address.clone());
        let projected = self.value(found, schema);
        self.visiting.pop();
        projected
    }
}

fn has_required(projected: &Projected, schema: &Schema) -> bool {
    let Some(required) = schema.get("required").and_then(Json::as_array) else {
        return true;
    };
    let has = |key: &str| match projected {
        Projected::Object(entries) => entries.contains_key(key),
        Projected::Plain(Json::Object(object)) => object.contains_key(key),
        _ => true,
    };
    required.iter().filter_map(Json::as_str).all(has)
}

fn record(entries: BTreeMap<Arc<str>, Projected>) -> Projected {
    let plain_entry = |(key, value): (&Arc<str>, &Projected)| Some((key.clone(), plain(value)?));
    let plain: Option<Vec<_>> = entries.iter().map(plain_entry).collect();
    plain.map_or(Projected::Object(entries), |plain| {
        Projected::Plain(Json::object(plain))
    })
}

fn plain(projected: &Projected) -> Option<Json> {
    match projected {
        Projected::Plain(json) => Some(json.clone()),
        _ => None,
    }
}
