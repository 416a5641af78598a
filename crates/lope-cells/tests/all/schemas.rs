//! Reads through a schema.

use lope_cells::{Extent, Json, Projected, Schema, Spaces};

use crate::fixture::{cell, json, link, set};

fn read(spaces: &Spaces, at: &str, schema: serde_json::Value) -> Option<Projected> {
    spaces
        .begin()
        .project(&cell(at), &Schema::new(schema.into()))
}

/// The projection as JSON; cells as links.
fn plain(spaces: &Spaces, at: &str, schema: serde_json::Value) -> Option<Json> {
    read(spaces, at, schema).map(|projected| projected.to_json(&cell(at)))
}

fn filled() -> Spaces {
    let mut spaces = Spaces::default();
    set(&mut spaces, "other", json!({"n": 5, "deep": {"x": [1, 2]}}));
    set(
        &mut spaces,
        "doc",
        json!({
            "s": "text", "n": 1.5, "i": 3, "b": true, "z": null, "a": [1, "two", 3],
            "o": {"x": 1, "y": "why", "extra": 0}, "l": link("other"), "stream": {"$stream": true}
        }),
    );
    spaces
}

#[test]
fn types_fit_or_give_nothing() {
    let spaces = filled();
    for (at, kind, fits) in [
        ("doc/s", json!("string"), true),
        ("doc/s", json!("number"), false),
        ("doc/n", json!("number"), true),
        ("doc/n", json!("integer"), false),
        ("doc/i", json!("integer"), true),
        ("doc/i", json!("number"), true),
        ("doc/b", json!("boolean"), true),
        ("doc/z", json!("null"), true),
        ("doc/a", json!("array"), true),
        ("doc/o", json!("object"), true),
        ("doc/o", json!(["string", "object"]), true),
        ("doc/o", json!(["string"]), false),
        ("doc/l", json!("object"), true),
        ("doc/none", json!("string"), false),
    ] {
        assert_eq!(
            read(&spaces, at, json!({"type": kind})).is_some(),
            fits,
            "{at} {kind}"
        );
    }
    assert_eq!(read(&spaces, "doc/s", json!(false)), None);
    assert_eq!(
        plain(&spaces, "doc/s", json!({"enum": ["text", 1]})),
        Some("text".into())
    );
    assert_eq!(plain(&spaces, "doc/s", json!({"const": "other"})), None);
}

#[test]
fn properties_items_and_additional_properties_choose_what_is_read() {
    let spaces = filled();
    let x = json!({"x": {"type": "number"}});
    assert_eq!(
        plain(&spaces, "doc/o", json!({"properties": x})),
        Some(json!({"x": 1}).into())
    );
    assert_eq!(
        plain(
            &spaces,
            "doc/o",
            json!({"properties": x, "additionalProperties": {"type": "number"}})
        ),
        Some(json!({"x": 1, "extra": 0}).into())
    );
    assert_eq!(
        plain(
            &spaces,
            "doc/o",
            json!({"properties": x, "additionalProperties": true})
        ),
        Some(json!({"x": 1, "y": "why", "extra": 0}).into())
    );
    assert_eq!(
        plain(
            &spaces,
            "doc/o",
            json!({"properties": {"y": {"type": "number"}}})
        ),
        Some(json!({}).into())
    );
    let required = json!({"properties": {"y": {"type": "number"}}, "required": ["y"]});
    assert_eq!(plain(&spaces, "doc/o", required), None);
    assert_eq!(
        plain(&spaces, "doc/a", json!({"items": {"type": "number"}})),
        Some(json!([1, null, 3]).into())
    );
    assert_eq!(
        plain(
            &spaces,
            "doc",
            json!({"properties": {"l": {"properties": {"n": true}}}})
        ),
        Some(json!({"l": {"n": 5}}).into()),
        "through a link"
    );
    assert_eq!(
        plain(&spaces, "doc/l/deep", json!(true)),
        Some(json!({"x": [1, 2]}).into())
    );
}

#[test]
fn any_of_takes_the_first_that_fits_and_references_are_followed() {
    let spaces = filled();
    let schema = json!({"anyOf": [{"type": "number"}, {"$ref": "#/$defs/word"}], "$defs": {"word": {"type": "string"}}});
    assert_eq!(plain(&spaces, "doc/s", schema.clone()), Some("text".into()));
    assert_eq!(plain(&spaces, "doc/b", schema), None);
    let tree = json!({"$ref": "#/$defs/node", "$defs": {"node": {
        "type": "object", "properties": {"v": {"type": "number"}, "next": {"$ref": "#/$defs/node"}}}}});
    let mut spaces = spaces;
    set(
        &mut spaces,
        "tree",
        json!({"v": 1, "x": 0, "next": {"v": 2, "x": 0, "next": {"v": "no"}}}),
    );
    assert_eq!(
        plain(&spaces, "tree", tree),
        Some(json!({"v": 1, "next": {"v": 2, "next": {}}}).into())
    );
    let endless = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
    assert_eq!(plain(&spaces, "tree", endless), None);
    assert_eq!(plain(&spaces, "tree", json!({"$ref": "#/nowhere"})), None);
}

#[test]
fn defaults_fill_in_nested() {
    let spaces = filled();
    let schema = json!({"type": "object", "properties": {
        "s": {"default": "unused"}, "none": {"default": 7},
        "conf": {"type": "object", "properties": {
            "depth": {"type": "number", "default": 2}, "name": {"type": "string"},
            "inner": {"type": "object", "default": {"a": 1}, "properties": {"b": {"default": 2}}}}}}});
    let expected = json!({"s": "text", "none": 7, "conf": {"depth": 2, "inner": {"a": 1, "b": 2}}});
    let inner_only_named = json!({"s": "text", "none": 7, "conf": {"depth": 2, "inner": {"b": 2}}});
    assert_eq!(
        Schema::new(schema.clone().into())
            .default_value()
            .unwrap()
            .child("conf"),
        Json::from(&expected).child("conf")
    );
    assert_eq!(plain(&spaces, "doc", schema), Some(inner_only_named.into()));
    assert_eq!(
        plain(
            &spaces,
            "doc/none",
            json!({"type": "string", "default": "d"})
        ),
        Some("d".into())
    );
    assert_eq!(plain(&spaces, "doc/none", json!({"type": "string"})), None);
    assert_eq!(
        plain(&spaces, "doc/s", json!({"type": "number", "default": 1})),
        None,
        "a mismatch is no absence"
    );
}

#[test]
fn as_cell_and_as_stream_give_the_place() {
    let spaces = filled();
    let schema =
        json!({"properties": {"l": {"asCell": true, "properties": {"n": {"type": "number"}}}}});
    let Some(Projected::Object(entries)) = read(&spaces, "doc", schema) else {
        panic!()
    };
    let Projected::Cell(inner) = &entries["l"] else {
        panic!()
    };
    assert_eq!(
        inner.address,
        cell("other"),
        "the cell at the end of the link"
    );
    let value = inner.get(&mut spaces.begin()).unwrap();
    assert_eq!(
        value,
        Projected::Plain(json!({"n": 5}).into()),
        "read through the schema that was asked for"
    );
    let none = read(&spaces, "doc/none", json!({"asCell": true, "default": 3}));
    let Some(Projected::Cell(none)) = none else {
        panic!()
    };
    assert_eq!(
        none.get(&mut spaces.begin()),
        Some(Projected::Plain(3.into()))
    );
    let stream = read(&spaces, "doc/stream", json!({"asStream": true}));
    assert!(
        matches!(stream, Some(Projected::Stream(stream)) if stream.address == cell("doc/stream"))
    );
    assert_eq!(read(&spaces, "doc/s", json!({"asStream": true})), None);
}

#[test]
fn a_link_that_leads_back_stays_a_link() {
    let mut spaces = Spaces::default();
    set(&mut spaces, "a", json!({"n": 1, "b": link("b")}));
    set(&mut spaces, "b", json!({"a": link("a"), "self": link("b")}));
    let shown = plain(&spaces, "a", json!(true)).unwrap();
    assert_eq!(
        shown,
        json!({"n": 1, "b": {"a": link("a"), "self": link("b")}}).into()
    );
}

#[test]
fn what_fans_out_beyond_the_bound_is_given_up() {
    let mut spaces = Spaces::default();
    set(&mut spaces, "d0", Json::from(1));
    for level in 1..=7 {
        let below = link(&format!("d{}", level - 1));
        set(&mut spaces, &format!("d{level}"), json!(vec![below; 10]));
    }
    assert!(plain(&spaces, "d4", json!(true)).is_some());
    let given_up = plain(&spaces, "d7", json!(true)).unwrap();
    assert_eq!(
        given_up.as_array().unwrap().iter().last(),
        Some(&Json::Null)
    );
}

#[test]
fn only_what_the_schema_names_is_a_dependency() {
    let spaces = filled();
    let mut transaction = spaces.begin();
    let schema = Schema::new(
        json!({"type": "object", "properties": {"o": {"properties": {"x": true, "q": true}}}})
            .into(),
    );
    transaction.project(&cell("doc"), &schema);
    let reads: Vec<_> = transaction
        .reads()
        .iter()
        .map(|(at, extent)| (at.path.to_string(), *extent))
        .collect();
    assert_eq!(
        reads,
        [
            (String::new(), Extent::Shape),
            ("/o".into(), Extent::Shape),
            ("/o/q".into(), Extent::Shape),
            ("/o/x".into(), Extent::Whole),
        ]
    );
}
