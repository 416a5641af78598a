//! Links: values that stand for another value.
//!
//! In a document a link is `{"/": {"link@1": {"id"?, "space"?, "path"?, "schema"?, "overwrite"?:
//! "redirect"}}}` with nothing beside the `"/"`. Without an id it means the document it stands in,
//! without a space the space of that document. A redirect is a link that writing follows too.

use std::sync::Arc;

use crate::address::CellAddress;
use crate::id::{EntityId, SpaceName};
use crate::json::Json;
use crate::path::CellPath;
use crate::snapshot::SpaceSnapshot;

const SIGIL: &str = "/";
const LINK: &str = "link@1";

/// A link as it stands in a document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    pub id: Option<EntityId>,
    pub space: Option<SpaceName>,
    pub path: CellPath,
    pub schema: Option<Json>,
    /// Whether a write goes where the link leads instead of replacing it.
    pub redirect: bool,
}

impl Link {
    /// A plain link to `target`, as short as it can be in a document at `base`.
    pub fn to(target: &CellAddress, base: &CellAddress) -> Self {
        let same_space = target.space == base.space;
        let same_document = same_space && target.id == base.id;
        Self {
            id: (!same_document).then(|| target.id.clone()),
            space: (!same_space).then(|| target.space.clone()),
            path: target.path.clone(),
            ..Self::default()
        }
    }

    /// The same link, which writing follows too.
    pub fn redirecting(self) -> Self {
        Self {
            redirect: true,
            ..self
        }
    }

    /// The same link, which writing replaces.
    pub fn plain(self) -> Self {
        Self {
            redirect: false,
            ..self
        }
    }

    /// The link that `json` is, if it is one. What only looks similar is an ordinary value.
    pub fn from_json(json: &Json) -> Option<Self> {
        let fields = sigil(json, LINK)?.as_object()?;
        let mut link = Self::default();
        for (key, value) in fields.iter() {
            match &**key {
                "id" => link.id = Some(value.as_text()?.try_into().ok()?),
                "space" => link.space = Some(value.as_text()?.try_into().ok()?),
                "path" => link.path = CellPath::from_json(value)?,
                "schema" => link.schema = Some(value.clone()),
                "overwrite" => link.redirect = value.as_str()? == "redirect",
                _ => return None,
            }
        }
        Some(link)
    }

    pub fn to_json(&self) -> Json {
        let mut fields: Vec<(&str, Json)> = Vec::new();
        if let Some(id) = &self.id {
            fields.push(("id", id.text().clone().into()));
        }
        if let Some(space) = &self.space {
            fields.push(("space", space.text().clone().into()));
        }
        if !self.path.is_root() {
            fields.push(("path", self.path.to_json()));
        }
        if let Some(schema) = &self.schema {
            fields.push(("schema", schema.clone()));
        }
        if self.redirect {
            fields.push(("overwrite", "redirect".into()));
        }
        let link = Json::object([(LINK, Json::object(fields))]);
        Json::object([(SIGIL, link)])
    }

    /// Where the link leads when it stands in the document of `base`.
    pub fn target(&self, base: &CellAddress) -> CellAddress {
        CellAddress {
            space: self.space.clone().unwrap_or_else(|| base.space.clone()),
            id: self.id.clone().unwrap_or_else(|| base.id.clone()),
            path: self.path.clone(),
        }
    }

    /// The link with everything said that depends on where it stands.
    pub fn absolute(&self, base: &CellAddress) -> Self {
        let target = self.target(base);
        Self {
            id: Some(target.id),
            space: Some(target.space),
            ..self.clone()
        }
    }
}

/// What is wrong with the first value in `json` that is meant as a link and is none as it stands.
pub fn mistaken_link(json: &Json) -> Option<String> {
    let mut found = None;
    match sigil(json, LINK) {
        Some(Json::Object(fields)) => {
            let mut wrong = fields.iter().filter_map(|(key, value)| mistake(key, value));
            found = wrong.next();
        }
        Some(other) => found = Some(format!("a link is an object, and {other} is none")),
        None => {
            rewrite(json, &mut |child, _| {
                found = found.take().or_else(|| mistaken_link(child));
                None
            });
        }
    }
    found
}

/// What is wrong with a field of a link.
fn mistake(key: &str, value: &Json) -> Option<String> {
    let field = Json::object([(LINK, Json::object([(key, value.clone())]))]);
    let expected = match key {
        "overwrite" if value.as_str() == Some("redirect") => return None,
        "overwrite" => "\"redirect\" or nothing",
        _ if Link::from_json(&Json::object([(SIGIL, field)])).is_some() => return None,
        "id" => "the id of a document, as 'of:…'",
        "space" => "the name of a space",
        "path" => "a list of keys",
        _ => {
            return Some(format!(
                "a link has no '{key}': it has id, space, path, schema, overwrite"
            ));
        }
    };
    Some(format!("'{key}' of a link is {expected}, not {value}"))
}

/// Every link in a value that stands at `at`: where it stands, itself, where it leads.
pub fn links_of(value: &Json, at: &CellAddress) -> Vec<(CellAddress, Link, CellAddress)> {
    fn collect(value: &Json, at: &CellAddress, found: &mut Vec<(CellAddress, Link, CellAddress)>) {
        if let Some(link) = Link::from_json(value) {
            let to = link.target(at);
            found.push((at.clone(), link, to));
            return;
        }
        rewrite(value, &mut |child, key| {
            collect(child, &at.key(Arc::clone(key)), found);
            None
        });
    }
    let mut found = Vec::new();
    collect(value, at, &mut found);
    found
}

/// Every link in the value at `at`, and in what the redirects among them lead to: the way to it from
/// the root of the document of `at`, and where it leads.
pub fn links_seen(cells: &SpaceSnapshot, at: &CellAddress) -> Vec<(CellPath, CellAddress)> {
    let links = |at: &CellAddress| {
        let value = cells.at(at);
        value.map_or_else(Vec::new, |value| links_of(value, at))
    };
    let mut seen = Vec::new();
    for (from, link, to) in links(at) {
        if link.redirect {
            let behind = links(&to).into_iter().map(|(below, _, target)| {
                let rest = &below.path.keys()[to.path.len()..];
                (from.path.extend(rest), target)
            });
            seen.extend(behind);
        }
        seen.push((from.path, to));
    }
    seen
}

/// Whether both values are links to the same address, in documents at `base`; their schemas do not
/// count.
pub fn same_target(one: &Json, other: &Json, base: &CellAddress) -> bool {
    match (Link::from_json(one), Link::from_json(other)) {
        (Some(one), Some(other)) => one.target(base) == other.target(base),
        _ => false,
    }
}

/// The inside of a value `{"/": {name: inside}}` that has nothing else in it.
pub fn sigil<'a>(json: &'a Json, name: &str) -> Option<&'a Json> {
    let only = |json: &'a Json, key: &str| {
        let object = json.as_object().filter(|object| object.len() == 1)?;
        object.get(key)
    };
    only(only(json, SIGIL)?, name)
}

/// Where a part that contains itself leads back to, from the top of the value it is in, as scripts
/// write it.
pub fn cycle_in(json: &Json) -> Option<CellPath> {
    CellPath::from_json(sigil(json, "cycle@1")?)
}

/// `json`, which will stand at `at`, with a link for each part that leads back.
pub fn close_cycles(json: &Json, at: &CellAddress) -> Option<Json> {
    match cycle_in(json) {
        Some(path) => {
            let target = at.with_path(at.path.extend(path.keys()));
            Some(Link::to(&target, at).absolute(at).to_json())
        }
        None => rewrite(json, &mut |child, _| close_cycles(child, at)),
    }
}

/// `json` with every relative link in it made absolute, as it stands in the document of `base`;
/// none if there is nothing to do.
pub fn rebase(json: &Json, base: &CellAddress) -> Option<Json> {
    if let Some(link) = Link::from_json(json) {
        let is_relative = link.id.is_none() || link.space.is_none();
        return is_relative.then(|| link.absolute(base).to_json());
    }
    rewrite(json, &mut |child, _| rebase(child, base))
}

/// `json` with its children replaced by what `change` makes of them; none if it changes none.
pub fn rewrite(
    json: &Json,
    change: &mut dyn FnMut(&Json, &Arc<str>) -> Option<Json>,
) -> Option<Json> {
    match json {
        Json::Array(array) => {
            let mut changed = None;
            for (index, element) in array.iter().enumerate() {
                if let Some(other) = change(element, &index.to_string().into()) {
                    changed
                        .get_or_insert_with(|| array.clone())
                        .set(index, other);
                }
            }
            changed.map(Json::Array)
        }
        Json::Object(object) => {
            let mut changed = None;
            for (key, value) in object.iter() {
                if let Some(other) = change(value, key) {
                    changed
                        .get_or_insert_with(|| object.clone())
                        .insert(Arc::clone(key), other);
                }
            }
            changed.map(Json::Object)
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) => None,
    }
}
