//! JSON Schema as far as reading goes: types, properties, items, additionalProperties, anyOf,
//! required, enum, const, default, `$ref`; and `asCell` and `asStream`, which ask for the place
//! instead of the value. Other keywords say nothing here.

use crate::json::{Json, Object};
use crate::limit;
use crate::path::CellPath;

/// A schema, or a part of one with the whole it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// Where references are looked up.
    root: Json,
    here: Json,
}

impl Schema {
    pub fn new(schema: Json) -> Self {
        Self {
            root: schema.clone(),
            here: schema,
        }
    }

    /// The schema that everything fits.
    pub fn any() -> Self {
        Self::new(Json::Bool(true))
    }

    /// The schema as JSON, with the definitions that its references need.
    pub fn to_json(&self) -> Json {
        match (&self.here, self.root.child("$defs")) {
            (Json::Object(here), Some(definitions)) if !here.contains_key("$defs") => {
                let mut whole = here.clone();
                whole.insert("$defs".into(), definitions.clone());
                Json::Object(whole)
            }
            _ => self.here.clone(),
        }
    }

    /// Whether the entry `key` is asked for as a place, not as a value.
    pub fn asks_for_cell(&self, key: &str) -> bool {
        let properties = self.get("properties");
        let entry = properties.and_then(|properties| properties.child(key));
        let flag =
            |name: &str| entry.and_then(|entry| entry.child(name)) == Some(&Json::Bool(true));
        flag("asCell") || flag("asStream")
    }

    pub fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(Json::as_bool) == Some(true)
    }

    pub(crate) fn get(&self, keyword: &str) -> Option<&Json> {
        self.here.child(keyword)
    }

    /// Whether it says nothing about a value.
    pub(crate) fn is_any(&self) -> bool {
        match &self.here {
            Json::Bool(accepts) => *accepts,
            Json::Object(here) => here.keys().all(|key| !CONSTRAINTS.contains(&&**key)),
            _ => true,
        }
    }

    pub(crate) fn is_never(&self) -> bool {
        self.here == Json::Bool(false)
    }

    /// The part below a keyword, as a schema.
    pub(crate) fn part(&self, part: &Json) -> Self {
        Self {
            root: self.root.clone(),
            here: part.clone(),
        }
    }

    pub(crate) fn properties(&self) -> Option<&Object> {
        self.get("properties").and_then(Json::as_object)
    }

    pub(crate) fn property(&self, key: &str) -> Option<Self> {
        self.properties()?.get(key).map(|part| self.part(part))
    }

    /// What entries that are not named must fit; none if they are left out. An object whose
    /// properties are named is read for these alone, unless it says otherwise.
    pub(crate) fn unnamed(&self) -> Option<Self> {
        match self.get("additionalProperties") {
            Some(Json::Bool(false)) => None,
            Some(part) => Some(self.part(part)),
            None => self.properties().is_none().then(Self::any),
        }
    }

    pub(crate) fn items(&self) -> Self {
        self.get("items")
            .map_or_else(Self::any, |part| self.part(part))
    }

    pub(crate) fn options(&self) -> Option<Vec<Self>> {
        let options = self.get("anyOf")?.as_array()?;
        Some(options.iter().map(|part| self.part(part)).collect())
    }

    /// The schema without the keyword that asked for a place.
    pub(crate) fn without(&self, keyword: &str) -> Self {
        let mut other = self.clone();
        if let Json::Object(here) = &mut other.here {
            here.remove(keyword);
        }
        other
    }

    /// The schema that references lead to; keywords beside a reference count too. None if they
    /// lead nowhere.
    pub(crate) fn dereferenced(&self) -> Option<Self> {
        let mut schema = self.clone();
        for _ in 0..limit::HOPS_MAX {
            let Some(reference) = schema.get("$ref").cloned() else {
                return Some(schema);
            };
            let target = schema.lookup(reference.as_str()?)?;
            let beside = schema.without("$ref").here;
            schema.here = merge(&target, &beside);
        }
        None
    }

    fn lookup(&self, reference: &str) -> Option<Json> {
        let pointer = reference.strip_prefix('#')?;
        let unescape = |key: &str| key.replace("~1", "/").replace("~0", "~");
        let keys: CellPath = pointer.split('/').skip(1).map(unescape).collect();
        self.root.at(keys.keys()).cloned()
    }

    /// Whether `value` is of a type that is asked for, and one of the values that are.
    pub(crate) fn accepts(&self, value: &Json) -> bool {
        let listed = |list: &Json| {
            let list = list.as_array();
            list.is_none_or(|list| list.iter().any(|option| option == value))
        };
        !self.is_never()
            && self
                .get("type")
                .is_none_or(|wanted| is_of_type(value, wanted))
            && self.get("const").is_none_or(|only| only == value)
            && self.get("enum").is_none_or(listed)
    }

    /// The value of something that is absent: the schema's default, or an object of its
    /// properties' defaults.
    pub fn default_value(&self) -> Option<Json> {
        self.default_within(limit::DEPTH_MAX)
    }

    fn default_within(&self, depth: usize) -> Option<Json> {
        let schema = self.dereferenced()?;
        let given = schema.get("default").cloned();
        let properties = schema.properties().filter(|_| depth > 0);
        let (Some(properties), true) = (
            properties,
            given
                .as_ref()
                .is_none_or(|given| given.as_object().is_some()),
        ) else {
            return given;
        };
        let mut filled = given.as_ref().and_then(Json::as_object).cloned();
        for (key, part) in properties.iter() {
            let known = filled
                .as_ref()
                .is_some_and(|filled| filled.contains_key(key));
            if let Some(value) = (!known)
                .then(|| schema.part(part).default_within(depth - 1))
                .flatten()
            {
                filled.get_or_insert_default().insert(key.clone(), value);
            }
        }
        filled.map(Json::Object)
    }
}

/// Keywords that say something about a value.
const CONSTRAINTS: [&str; 11] = [
    "$ref",
    "additionalProperties",
    "anyOf",
    "asCell",
    "asStream",
    "const",
    "default",
    "enum",
    "items",
    "properties",
    "type",
];

fn is_of_type(value: &Json, wanted: &Json) -> bool {
    match wanted {
        Json::Text(name) => match (&**name, value) {
            ("integer", Json::Number(number)) => number.is_integer(),
            (name, value) => name == value.kind(),
        },
        Json::Array(names) => names.iter().any(|name| is_of_type(value, name)),
        _ => true,
    }
}

/// `target` with the keywords of `beside` over it.
fn merge(target: &Json, beside: &Json) -> Json {
    match (target, beside) {
        (Json::Object(target), Json::Object(beside)) => {
            let entries = target.iter().chain(beside.iter());
            Json::object(entries.map(|(key, value)| (key.clone(), value.clone())))
        }
        _ => target.clone(),
    }
}
