//! Elements with an id keep their identity through insert, remove and reorder.

use lope_cells::element::element_id;
use lope_cells::{CellAddress, Json, Link, Spaces};

use crate::fixture::{cell, get, json, raw, set, writes};

fn item(id: &str, text: &str) -> serde_json::Value {
    json!({"id": id, "text": text})
}

/// The address of the element `id` of the list `doc/list`.
fn element(id: &str) -> CellAddress {
    CellAddress::document(cell("doc").space, element_id(&cell("doc/list"), &id.into()))
}

fn shown(spaces: &Spaces) -> Vec<String> {
    let list = get(spaces, "doc/list").unwrap();
    (0..list.as_array().unwrap().len())
        .map(|index| {
            get(spaces, &format!("doc/list/{index}/text"))
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
}

#[test]
fn whoever_points_at_an_element_goes_on_pointing_at_it() {
    let mut spaces = Spaces::default();
    set(
        &mut spaces,
        "doc",
        json!({"list": [item("a", "A"), item("b", "B")]}),
    );
    set(
        &mut spaces,
        "watch",
        Link::to(&element("b"), &cell("watch")).to_json(),
    );
    assert_eq!(get(&spaces, "watch/text"), Some("B".into()));
    set(
        &mut spaces,
        "doc/list",
        json!([item("b", "B"), item("a", "A")]),
    );
    assert_eq!(
        (shown(&spaces), get(&spaces, "watch/text")),
        (vec!["B".into(), "A".into()], Some("B".into()))
    );
    set(
        &mut spaces,
        "doc/list",
        json!([item("new", "N"), item("a", "A"), item("b", "B2")]),
    );
    assert_eq!(get(&spaces, "watch/text"), Some("B2".into()));
    set(&mut spaces, "doc/list", json!([item("b", "B3")]));
    assert_eq!(
        (shown(&spaces), get(&spaces, "watch/text")),
        (vec!["B3".into()], Some("B3".into()))
    );
    set(&mut spaces, "doc/list/0/text", Json::from("B4"));
    assert_eq!(
        get(&spaces, "watch/text"),
        Some("B4".into()),
        "written through its place in the list"
    );
}

#[test]
fn a_move_writes_links_only_and_the_same_list_nothing() {
    let mut spaces = Spaces::default();
    set(
        &mut spaces,
        "doc",
        json!({"list": [item("a", "A"), item("b", "B"), item("c", "C")]}),
    );
    assert_eq!(
        writes(
            &mut spaces,
            "doc/list",
            json!([item("a", "A"), item("b", "B"), item("c", "C")])
        ),
        0
    );
    assert_eq!(
        writes(
            &mut spaces,
            "doc/list",
            json!([item("b", "B"), item("a", "A"), item("c", "C")])
        ),
        2
    );
    assert_eq!(
        writes(
            &mut spaces,
            "doc/list",
            json!([item("b", "B"), item("a", "A2"), item("c", "C")])
        ),
        1
    );
}

#[test]
fn of_elements_with_one_id_none_is_lost_and_lists_in_elements_have_identities_too() {
    let mut spaces = Spaces::default();
    set(
        &mut spaces,
        "doc",
        json!({"list": [item("a", "first"), item("a", "second"), {"text": "no id"}]}),
    );
    assert_eq!(shown(&spaces), ["first", "second", "no id"]);
    let nested = |outer: [&str; 2]| {
        json!(
            outer
                .map(|id| json!({"id": id, "text": id, "sub": [item("x", &format!("x of {id}"))]}))
        )
    };
    set(&mut spaces, "doc/list", nested(["p", "q"]));
    let sub = |id: &str| element_id(&element(id).key("sub"), &"x".into());
    let inner = CellAddress::document(cell("doc").space, sub("q"));
    assert_eq!(
        spaces.snapshot().at(&inner.key("text")),
        Some(&"x of q".into())
    );
    assert_eq!(
        writes(&mut spaces, "doc/list", nested(["q", "p"])),
        2,
        "two links, nothing inside"
    );
    assert_eq!(get(&spaces, "doc/list/0/sub/0/text"), Some("x of q".into()));
}

#[test]
fn a_relative_link_in_an_element_means_the_document_it_was_written_to() {
    let mut spaces = Spaces::default();
    let up = json!({"/": {"link@1": {"path": ["title"]}}});
    set(
        &mut spaces,
        "doc",
        json!({"title": "T", "list": [{"id": 1, "title": up}]}),
    );
    assert_eq!(get(&spaces, "doc/list/0/title"), Some("T".into()));
    assert!(Link::from_json(&raw(&spaces, "doc/list/0").unwrap()).is_some());
}
