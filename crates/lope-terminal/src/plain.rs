//! Values as anybody's JSON: what only Lope has words for becomes what other programs expect.

use serde_json::{Map, Value};

const BYTES: &str = "$bytes";
const TAG: &str = "$tag";
const MAP: &str = "$map";
/// What is wrapped around the fields of an object and says how it is made.
const AROUND: &[&str] = &["frozen", "model"];
/// What has no form of its own: a reference to a secret stays one.
const KEPT: &[&str] = &["secret", "secret-text"];

/// The same with tuples and sets as lists, objects as their fields, enums as their values, numbers
/// and times that JSON does not have as text.
pub(crate) fn plain(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(plain).collect(),
        Value::Object(mut map) if map.len() == 1 => {
            if let Some(inside) = map.remove(BYTES) {
                return inside;
            }
            match (map.remove(TAG), map.remove(MAP)) {
                (Some(tag), _) => tagged(tag),
                (None, Some(pairs)) => entries(pairs),
                (None, None) => plain_map(map),
            }
        }
        Value::Object(map) => plain_map(map),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn plain_map(map: Map<String, Value>) -> Value {
    let entries = map.into_iter().map(|(key, value)| (key, plain(value)));
    Value::Object(entries.collect())
}

fn tagged(tag: Value) -> Value {
    let (name, inside) = match tag {
        Value::Array(mut parts) if parts.len() == 2 && parts[0].is_string() => {
            let inside = parts.remove(1);
            (parts.remove(0), inside)
        }
        other => return plain(other),
    };
    let name = name.as_str().unwrap_or_default();
    if KEPT.contains(&name) {
        return serde_json::json!({ TAG: [name, inside] });
    }
    match name {
        "dict" => entries(inside),
        "timedelta" => span(&inside),
        _ if AROUND.contains(&name) => plain(inside),
        _ if name == "enum" || name.starts_with("enum.") => inside
            .get("value")
            .map_or(Value::Null, |value| plain(value.clone())),
        _ => plain(inside),
    }
}

/// Pairs as a map, with keys that are no text as their own JSON text; as pairs, if two keys would
/// become one.
fn entries(pairs: Value) -> Value {
    let pairs = match pairs {
        Value::Array(pairs) => pairs,
        other => return plain(other),
    };
    let mut map = Map::new();
    for pair in &pairs {
        let key = plain(pair[0].clone());
        let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
        map.insert(key, plain(pair[1].clone()));
    }
    if map.len() == pairs.len() {
        return Value::Object(map);
    }
    pairs.into_iter().map(plain).collect()
}

/// Days, seconds and microseconds as seconds.
fn span(inside: &Value) -> Value {
    let part = |index: usize| inside[index].as_i64().unwrap_or_default();
    let seconds = part(0) * 86_400 + part(1);
    if part(2) == 0 {
        return seconds.into();
    }
    (seconds as f64 + part(2) as f64 / 1e6).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_becomes_what_other_programs_expect() {
        let tag = |name: &str, inside: Value| json!({ "$tag": [name, inside] });
        let rows = [
            (
                json!([1, "a", null, 1.5, true]),
                json!([1, "a", null, 1.5, true]),
            ),
            (
                tag("tuple", json!([1, tag("set", json!([2]))])),
                json!([1, [2]]),
            ),
            (tag("decimal", json!("0.10")), json!("0.10")),
            (
                tag("datetime", json!("2024-01-01T00:00:00")),
                json!("2024-01-01T00:00:00"),
            ),
            (tag("uuid", json!("u")), json!("u")),
            (
                tag("int", json!("18446744073709551616")),
                json!("18446744073709551616"),
            ),
            (tag("float", json!("inf")), json!("inf")),
            (tag("timedelta", json!([1, 5, 0])), json!(86_405)),
            (tag("timedelta", json!([0, 1, 500_000])), json!(1.5)),
            (
                tag("app:User", json!({ "name": tag("path", json!("/x")) })),
                json!({ "name": "/x" }),
            ),
            (
                tag("app:User", tag("frozen", json!({ "a": 1 }))),
                json!({ "a": 1 }),
            ),
            (
                tag("app:Model", tag("model", json!({ "a": 1 }))),
                json!({ "a": 1 }),
            ),
            (
                tag(
                    "app:Colour",
                    tag("enum.str", json!({ "name": "RED", "value": "red" })),
                ),
                json!("red"),
            ),
            (
                tag(
                    "dict",
                    json!([[1, "a"], [tag("tuple", json!([1, 2])), "b"]]),
                ),
                json!({ "1": "a", "[1,2]": "b" }),
            ),
            (
                tag("dict", json!([[1, "a"], ["1", "b"]])),
                json!([[1, "a"], ["1", "b"]]),
            ),
            (json!({ "$bytes": "YWI=" }), json!("YWI=")),
            (
                json!({ "$map": [["$tag", [1, 2]]] }),
                json!({ "$tag": [1, 2] }),
            ),
            (tag("secret", json!("key")), tag("secret", json!("key"))),
            (
                json!({ "result": tag("tuple", json!([])), "status": "completed" }),
                json!({ "result": [], "status": "completed" }),
            ),
        ];
        for (given, wanted) in rows {
            assert_eq!(plain(given.clone()), wanted, "{given}");
        }
    }
}
