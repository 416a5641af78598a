//! Links: their one form, where they lead, how reading and writing treat them.

use lope_cells::error::WriteError;
use lope_cells::link::{links_seen, mistaken_link, same_target};
use lope_cells::project::project;
use lope_cells::resolve::{Follow, resolve};
use lope_cells::{EntityId, Json, Link, Schema, Spaces};

use crate::fixture::{cell, get, json, link, raw, redirect, set};

#[test]
fn a_link_has_one_form_and_what_only_looks_like_it_is_a_value() {
    let full = json!({"/": {"link@1": {
        "id": "of:x", "space": "s", "path": ["a", 0], "schema": {"type": "string"}, "overwrite": "redirect"
    }}});
    let link = Link::from_json(&Json::from(&full)).unwrap();
    assert!(link.redirect && link.schema.is_some());
    assert_eq!(link.path.to_string(), "/a/0");
    assert_eq!(Link::from_json(&link.to_json()), Some(link));
    assert!(Link::from_json(&json!({"/": {"link@1": {}}}).into()).is_some());
    for value in [
        json!({"/": {"link@1": {}}, "beside": 1}),
        json!({"/": {"link@1": {}, "other": 1}}),
        json!({"/": {"link@2": {}}}),
        json!({"/": {"link@1": {"id": "no uri"}}}),
        json!({"/": {"link@1": {"path": "a"}}}),
        json!({"/": {"link@1": {"unknown": 1}}}),
        json!({"$alias": {"path": ["a"]}}),
    ] {
        assert!(Link::from_json(&value.into()).is_none());
    }
}

#[test]
fn a_link_with_a_mistake_in_it_is_told() {
    let mistake = |fields: serde_json::Value| {
        let value = json!({"deep": [1, {"/": {"link@1": fields}}]});
        mistaken_link(&value.into())
    };
    let full = json!({"id": "of:x", "space": "s", "path": ["a", 0], "schema": true, "overwrite": "redirect"});
    assert_eq!(mistake(full), None);
    assert_eq!(mistake(json!({})), None);
    for (fields, told) in [
        (
            json!({"id": "a"}),
            "'id' of a link is the id of a document, as 'of:…', not \"a\"",
        ),
        (
            json!({"space": 5}),
            "'space' of a link is the name of a space, not 5",
        ),
        (
            json!({"path": "x"}),
            "'path' of a link is a list of keys, not \"x\"",
        ),
        (
            json!({"path": ["x"], "overwrite": "maybe"}),
            "'overwrite' of a link is \"redirect\" or nothing, not \"maybe\"",
        ),
        (
            json!({"foo": 1}),
            "a link has no 'foo': it has id, space, path, schema, overwrite",
        ),
        (json!("of:x"), "a link is an object, and \"of:x\" is none"),
    ] {
        assert_eq!(mistake(fields).as_deref(), Some(told));
    }
    for value in [
        json!({"/": {"link@1": {"foo": 1}}, "beside": 1}),
        json!({"/": {"link@2": {"foo": 1}}}),
    ] {
        assert_eq!(mistaken_link(&value.into()), None);
    }
}

#[test]
fn a_link_without_id_means_its_own_document_and_without_space_its_own_space() {
    let mut spaces = Spaces::default();
    set(
        &mut spaces,
        "doc",
        json!({"a": {"b": 7}, "here": {"/": {"link@1": {"path": ["a", "b"]}}}}),
    );
    let id = cell("doc").id;
    set(
        &mut spaces,
        "two",
        json!({"there": {"/": {"link@1": {"id": id.as_str(), "path": ["a"]}}}}),
    );
    assert_eq!(get(&spaces, "doc/here"), Some(Json::from(7)));
    assert_eq!(get(&spaces, "two/there/b"), Some(Json::from(7)));
    set(
        &mut spaces,
        "other:far",
        json!({"x": link("doc/a"), "near": {"/": {"link@1": {"id": id.as_str()}}}}),
    );
    assert_eq!(get(&spaces, "other:far/x/b"), Some(Json::from(7)));
    assert_eq!(
        get(&spaces, "other:far/near"),
        None,
        "no such document in the space `other`"
    );
}

#[test]
fn a_plain_link_is_read_through_and_replaced_by_a_write() {
    let mut spaces = Spaces::default();
    set(&mut spaces, "target", json!({"n": 1}));
    set(&mut spaces, "doc", json!({"l": link("target")}));
    assert_eq!(get(&spaces, "doc/l"), Some(json!({"n": 1}).into()));
    set(&mut spaces, "doc/l/n", Json::from(2));
    assert_eq!(
        get(&spaces, "target/n"),
        Some(Json::from(2)),
        "a path goes through the link"
    );
    set(&mut spaces, "doc/l", Json::from(3));
    assert_eq!(raw(&spaces, "doc/l"), Some(Json::from(3)));
    assert_eq!(get(&spaces, "target/n"), Some(Json::from(2)));
}

#[test]
fn a_redirect_is_read_through_and_written_through_and_stays() {
    let mut spaces = Spaces::default();
    set(&mut spaces, "target", json!({"n": 1}));
    set(
        &mut spaces,
        "doc",
        json!({"r": redirect("target/n"), "keep": 0}),
    );
    assert_eq!(get(&spaces, "doc/r"), Some(Json::from(1)));
    set(&mut spaces, "doc/r", Json::from(2));
    set(&mut spaces, "doc", json!({"r": 3, "keep": 0}));
    assert_eq!(
        raw(&spaces, "target/n"),
        Some(Json::from(3)),
        "also inside a larger value"
    );
    assert_eq!(raw(&spaces, "doc/r"), Some(redirect("target/n")));
    set(&mut spaces, "doc/r", link("elsewhere"));
    assert_eq!(
        raw(&spaces, "target/n"),
        Some(link("elsewhere")),
        "a plain link is a value"
    );
    set(&mut spaces, "doc/r", redirect("target/m"));
    assert_eq!(
        raw(&spaces, "doc/r"),
        Some(redirect("target/m")),
        "a redirect replaces a redirect"
    );
    let mut transaction = spaces.begin();
    transaction.remove(&cell("doc/r")).unwrap();
    spaces.commit(transaction).unwrap();
    assert_eq!(raw(&spaces, "doc/r"), Some(redirect("target/m")));
}

#[test]
fn a_relative_link_written_through_a_redirect_still_means_the_document_it_was_written_to() {
    let mut spaces = Spaces::default();
    set(&mut spaces, "target", json!({"n": 1}));
    set(
        &mut spaces,
        "doc",
        json!({"r": redirect("target/n"), "a": 5}),
    );
    set(
        &mut spaces,
        "doc/r",
        json!({"/": {"link@1": {"path": ["a"]}}}),
    );
    assert_eq!(get(&spaces, "target/n"), Some(Json::from(5)));
}

#[test]
fn resolution_stops_at_a_hundred_hops_with_an_error_and_reads_give_nothing() {
    let mut spaces = Spaces::default();
    set(&mut spaces, "chain100", Json::from(1));
    for number in (0..100).rev() {
        set(
            &mut spaces,
            &format!("chain{number}"),
            link(&format!("chain{}", number + 1)),
        );
    }
    assert_eq!(get(&spaces, "chain0"), Some(Json::from(1)), "100 hops");
    set(&mut spaces, "longer", link("chain0"));
    assert_eq!(get(&spaces, "longer"), None, "101 hops");
    set(&mut spaces, "a", redirect("b"));
    set(&mut spaces, "b", redirect("a"));
    assert_eq!(get(&spaces, "a"), None);
    let mut transaction = spaces.begin();
    let stopped = resolve(&mut transaction, &cell("a"), Follow::Every).unwrap_err();
    assert_eq!(stopped.from, cell("a"));
    let refused = transaction.set(&cell("a"), &Json::from(1)).unwrap_err();
    assert!(matches!(refused, WriteError::TooManyHops(_)));
}

#[test]
fn a_link_is_as_far_from_its_end_in_a_read_of_all_as_in_one_of_its_own() {
    let mut spaces = Spaces::default();
    set(&mut spaces, "chain", json!({"h0": 1}));
    for number in 1..=101 {
        let before = format!("chain/h{}", number - 1);
        set(&mut spaces, &format!("chain/h{number}"), link(&before));
    }
    let seen = |at: &str| {
        let seen = project(&mut spaces.begin(), &cell(at), &Schema::any());
        seen.map(|seen| seen.to_json(&cell(at)))
    };
    let all = seen("chain").unwrap();
    for hops in ["h1", "h99", "h100", "h101"] {
        let own = seen(&format!("chain/{hops}"));
        assert_eq!(all.child(hops), own.as_ref(), "{hops}");
    }
    assert_eq!(all.child("h100"), Some(&Json::from(1)));
    assert_eq!(all.child("h101"), None);
}

#[test]
fn equal_links_compare_by_address_only() {
    let base = cell("doc");
    let with_schema =
        json!({"/": {"link@1": {"id": base.id.as_str(), "path": ["a"], "schema": true}}});
    let relative = json!({"/": {"link@1": {"path": ["a"], "overwrite": "redirect"}}});
    assert!(same_target(
        &with_schema.into(),
        &Json::from(&relative),
        &base
    ));
    assert!(!same_target(&link("doc/b"), &relative.into(), &base));
    assert!(!same_target(&link("doc/a"), &Json::from(1), &base));
}

#[test]
fn an_inline_document_is_read_and_never_written() {
    let mut spaces = Spaces::default();
    let id = EntityId::inline(
        &json!({"a": [1, 2], "l": {"/": {"link@1": {"path": ["a", "1"]}}}}).into(),
    );
    let at = |path: &[&str]| {
        let document = lope_cells::CellAddress::document(cell("x").space, id.clone());
        document.with_path(path.iter().copied().collect())
    };
    let mut transaction = spaces.begin();
    assert_eq!(transaction.get(&at(&["a", "0"])), Some(Json::from(1)));
    assert_eq!(transaction.get(&at(&["l"])), Some(Json::from(2)));
    assert!(
        transaction.reads().is_empty(),
        "what never changes is no dependency"
    );
    let refused = transaction.set(&at(&["a"]), &Json::Null).unwrap_err();
    assert_eq!(refused, WriteError::Inline { at: at(&["a"]) });
    spaces.commit(transaction).unwrap();
}

#[test]
fn the_same_cause_gives_the_same_id_whatever_the_order_of_its_keys() {
    let one = Json::parse(r#"{"a": 1, "b": {"c": [true]}}"#).unwrap();
    let other = Json::parse(r#"{"b": {"c": [true]}, "a": 1.0}"#).unwrap();
    assert_eq!(EntityId::of_cause(&one), EntityId::of_cause(&other));
    assert!(EntityId::of_cause(&one).as_str().starts_with("of:"));
    assert_ne!(EntityId::of_cause(&one), EntityId::of_cause(&Json::Null));
}

#[test]
fn links_are_seen_through_redirects_and_through_nothing_else() {
    let mut spaces = Spaces::default();
    let state = json!({"all": [link("one"), {"deep": link("two/a")}], "own": 1});
    set(&mut spaces, "state", state);
    let result = json!({"list": redirect("state/all"), "plain": link("state/all"), "gone": redirect("no/where")});
    set(&mut spaces, "result", result);
    let seen = |at: &str| {
        let seen = links_seen(spaces.snapshot(), &cell(at)).into_iter();
        let mut seen: Vec<_> = seen.map(|(way, to)| (way.to_string(), to)).collect();
        seen.sort();
        seen
    };
    let way = |way: &str, to: &str| (way.to_owned(), cell(to));
    assert_eq!(
        seen("result"),
        [
            way("/gone", "no/where"),
            way("/list", "state/all"),
            way("/list/0", "one"),
            way("/list/1/deep", "two/a"),
            way("/plain", "state/all"),
        ]
    );
    assert_eq!(seen("state/all/1"), [way("/all/1/deep", "two/a")]);
    assert_eq!(seen("nobody"), []);
}
