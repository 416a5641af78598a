//! Writes: only what changed is written; cycles, cells and inline documents in a value.

use lope_cells::error::WriteError;
use lope_cells::value_graph::ValueGraph;
use lope_cells::{EntityId, Json, Link, Spaces};
use proptest::prelude::*;

use crate::fixture::{cell, get, json, link, raw, redirect, set, writes};

#[test]
fn only_what_changed_is_written() {
    let mut spaces = Spaces::default();
    set(
        &mut spaces,
        "doc",
        json!({"a": 1, "b": {"c": 2, "d": 3}, "l": [1, 2, 3]}),
    );
    let mut transaction = spaces.begin();
    let value = json!({"a": 1, "b": {"c": 2, "d": 4}, "l": [1, 5]});
    transaction
        .set(&cell("doc"), &value.clone().into())
        .unwrap();
    let places: Vec<_> = transaction
        .operations()
        .iter()
        .map(|write| write.at.path.to_string())
        .collect();
    assert_eq!(places, ["/b/d", "/l/2", "/l/1"]);
    let committed = spaces.commit(transaction).unwrap();
    assert_eq!(committed.changes.len(), 1);
    assert_eq!(get(&spaces, "doc"), Some(value.into()));
}

#[test]
fn writing_the_same_value_link_or_redirect_is_no_change() {
    let mut spaces = Spaces::default();
    let value = json!({"v": [1, {"x": null}], "l": link("t/a"), "r": redirect("t/b")});
    set(&mut spaces, "t", json!({"a": 1, "b": 2}));
    set(&mut spaces, "doc", value.clone());
    assert_eq!(writes(&mut spaces, "doc", value), 0);
    assert_eq!(writes(&mut spaces, "doc/l", link("t/a")), 0);
    assert_eq!(writes(&mut spaces, "doc/r", redirect("t/b")), 0);
    assert_eq!(
        writes(&mut spaces, "doc/r", Json::from(2)),
        0,
        "the same through the redirect"
    );
    let relative = Link::to(&cell("t/a"), &cell("doc")).to_json();
    assert_eq!(
        writes(&mut spaces, "doc/l", relative),
        0,
        "the same address said otherwise"
    );
    assert_eq!(
        writes(&mut spaces, "doc/l", redirect("t/a")),
        1,
        "a redirect is another thing"
    );
    let before = spaces.snapshot().revision(&cell("doc").space);
    set(&mut spaces, "t/a", Json::from(1));
    assert_eq!(spaces.snapshot().revision(&cell("doc").space), before);
}

#[test]
fn cyclic_input_becomes_links_and_a_cell_in_a_value_becomes_a_link() {
    let mut graph = ValueGraph::default();
    let (root, list) = (graph.object(), graph.array());
    let seven = graph.plain(Json::from(7));
    let other = graph.cell(cell("other/x"));
    graph.insert(root, "n", seven);
    graph.insert(root, "list", list);
    graph.insert(root, "cell", other);
    graph.push(list, seven);
    graph.push(list, root);
    graph.push(list, list);
    let mut spaces = Spaces::default();
    set(&mut spaces, "other", json!({"x": "there"}));
    set(&mut spaces, "doc", json!({}));
    set(&mut spaces, "doc/in", graph.to_json(root, &cell("doc/in")));
    assert_eq!(
        get(&spaces, "doc/in/list/0"),
        Some(Json::from(7)),
        "shared, not cyclic: a copy"
    );
    assert_eq!(get(&spaces, "doc/in/list/1/list/1/n"), Some(Json::from(7)));
    assert_eq!(get(&spaces, "doc/in/list/2/2/0"), Some(Json::from(7)));
    assert_eq!(get(&spaces, "doc/in/cell"), Some(Json::from("there")));
    assert_eq!(
        raw(&spaces, "doc/in/list/1"),
        Some(json!({"/": {"link@1": {"path": ["in"]}}}).into())
    );
}

#[test]
fn an_inline_link_written_is_its_content() {
    let mut spaces = Spaces::default();
    let inner = EntityId::inline(&json!([1, 2]).into());
    let outer =
        EntityId::inline(&json!({"in": {"/": {"link@1": {"id": inner.as_str()}}}, "x": 0}).into());
    set(
        &mut spaces,
        "doc",
        json!({"v": {"/": {"link@1": {"id": outer.as_str()}}}}),
    );
    assert_eq!(
        raw(&spaces, "doc"),
        Some(json!({"v": {"in": [1, 2], "x": 0}}).into())
    );
    set(
        &mut spaces,
        "doc/w",
        json!({"/": {"link@1": {"id": outer.as_str(), "path": ["in", "1"]}}}),
    );
    assert_eq!(raw(&spaces, "doc/w"), Some(Json::from(2)));
    let own = EntityId::inline(&json!({"a": 5, "b": {"/": {"link@1": {"path": ["a"]}}}}).into());
    set(
        &mut spaces,
        "doc/own",
        json!({"/": {"link@1": {"id": own.as_str()}}}),
    );
    assert_eq!(
        raw(&spaces, "doc/own"),
        Some(json!({"a": 5, "b": 5}).into())
    );
    let endless = EntityId::inline(&json!({"a": {"/": {"link@1": {"path": []}}}}).into());
    let link = Json::from(json!({"/": {"link@1": {"id": endless.as_str()}}}));
    let refused = spaces.begin().set(&cell("doc/e"), &link).unwrap_err();
    assert!(matches!(refused, WriteError::TooDeep { .. }));
}

#[test]
fn a_path_that_leads_through_a_scalar_is_refused_and_nothing_is_written() {
    let mut spaces = Spaces::default();
    set(&mut spaces, "doc", json!({"a": 1}));
    let mut transaction = spaces.begin();
    let refused = transaction.set(&cell("doc/a/b"), &Json::Null).unwrap_err();
    assert!(matches!(refused, WriteError::NotAContainer { .. }));
    assert!(transaction.operations().is_empty());
}

#[test]
fn a_value_that_is_too_deep_is_refused() {
    let deep = (0..200).fold(Json::Null, |inner, _| Json::array([inner]));
    let refused = Spaces::default()
        .begin()
        .set(&cell("doc"), &deep)
        .unwrap_err();
    assert!(matches!(refused, WriteError::TooDeep { .. }));
}

fn any_value() -> impl Strategy<Value = serde_json::Value> {
    let scalar = prop_oneof![
        Just(json!(null)),
        (0..4).prop_map(|value| json!(value)),
        "[ab]".prop_map(|value| json!(value))
    ];
    scalar.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|value| json!(value)),
            prop::collection::hash_map("[abc]", inner, 0..4).prop_map(|value| json!(value)),
        ]
    })
}

proptest! {
    /// Whatever was there, a write makes it the value; writing it again changes nothing; and each
    /// path that is written did differ.
    #[test]
    fn a_write_ends_with_the_value_and_touches_only_differences(one in any_value(), other in any_value()) {
        let mut spaces = Spaces::default();
        set(&mut spaces, "doc", Json::from(&one));
        let before = raw(&spaces, "doc");
        let mut transaction = spaces.begin();
        transaction.set(&cell("doc"), &Json::from(&other)).unwrap();
        for write in transaction.operations() {
            let keys = write.at.path.keys();
            let (old, new) = (before.as_ref().unwrap().at(keys).cloned(), Json::from(&other).at(keys).cloned());
            prop_assert_ne!(old, new);
        }
        spaces.commit(transaction).unwrap();
        prop_assert_eq!(raw(&spaces, "doc"), Some(Json::from(&other)));
        prop_assert_eq!(writes(&mut spaces, "doc", Json::from(&other)), 0);
    }
}

#[test]
fn an_element_that_is_taken_out_of_a_list_is_gone_and_those_behind_it_move_up() {
    let list = json!([1, {"id": "x", "n": 2}, redirect("t/a"), link("t/b"), 5]);
    let filled = || {
        let mut spaces = Spaces::default();
        set(&mut spaces, "t", json!({"a": "A", "b": "B", "c": 7}));
        set(
            &mut spaces,
            "doc",
            json!({"list": list.clone(), "via": link("doc/list"), "o": {"0": "zero"}}),
        );
        spaces
    };
    let element = raw(&filled(), "doc/list/1").unwrap();
    let (to_a, to_b) = (redirect("t/a"), link("t/b"));
    let all = [1.into(), element, to_a, to_b, 5.into()];
    let without = |place: usize| {
        let kept = all.iter().enumerate();
        let kept = kept.filter(|(index, _)| *index != place);
        Json::array(kept.map(|(_, element)| element.clone()))
    };
    for (at, expected) in [
        ("doc/list/0", without(0)),
        ("doc/list/1", without(1)),
        ("doc/list/3", without(3)),
        ("doc/list/4", without(4)),
        ("doc/via/0", without(0)),
        ("doc/list/5", Json::array(all.clone())),
        ("doc/list/x", Json::array(all.clone())),
        // What a redirect stands for is taken away, and the redirect stays.
        ("doc/list/2", Json::array(all.clone())),
    ] {
        let mut spaces = filled();
        let mut transaction = spaces.begin();
        transaction.take_out(&cell(at)).unwrap();
        spaces.commit(transaction).unwrap();
        assert_eq!(raw(&spaces, "doc/list"), Some(expected), "{at}");
        assert_eq!(raw(&spaces, "doc/via"), Some(link("doc/list")), "{at}");
        let is_redirect = at == "doc/list/2";
        assert_eq!(get(&spaces, "t/a").is_none(), is_redirect, "{at}");
    }
    let mut spaces = filled();
    let mut transaction = spaces.begin();
    for at in ["doc/o/0", "t/c", "doc/list"] {
        transaction.take_out(&cell(at)).unwrap();
    }
    spaces.commit(transaction).unwrap();
    assert_eq!(raw(&spaces, "doc/o"), Some(json!({}).into()));
    assert_eq!(
        (get(&spaces, "t/c"), raw(&spaces, "doc/list")),
        (None, None)
    );
}

#[test]
fn a_link_to_an_inline_document_that_is_no_json_is_refused_by_its_place() {
    let inline = |id: &str, overwrite: bool| {
        let mut link = json!({ "id": id });
        if overwrite {
            link["overwrite"] = json!("redirect");
        }
        json!({ "/": { "link@1": link } })
    };
    let nested = inline("data:application/json,%7Bbad", false);
    let nested = EntityId::inline(&json!({ "in": nested }).into());
    let nested = json!({ "/": { "link@1": { "id": nested.as_str(), "path": ["in"] } } });
    for bad in [
        inline("data:application/json,{bad", false),
        inline("data:application/json,%7", false),
        inline("data:application/json;base64,eyJhIjoxfQ==", false),
        inline("data:text/plain,x", false),
        inline("data:text/plain,x", true),
        nested,
    ] {
        let spaces = Spaces::default();
        let mut transaction = spaces.begin();
        let written = transaction.set(&cell("doc"), &json!({"a": [1, bad]}).into());
        let at = cell("doc/a/1");
        assert_eq!(written, Err(WriteError::NoJson { at }), "{bad}");
    }
    let mut spaces = Spaces::default();
    let good = inline("data:application/json,[1,2]", false);
    set(&mut spaces, "doc", json!({"a": good}));
    assert_eq!(raw(&spaces, "doc/a"), Some(json!([1, 2]).into()));
}
