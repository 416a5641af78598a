//! What is recorded of a read: enough to know that it would see something else, and no more.

use lope_cells::error::CommitError;
use lope_cells::{Extent, Json, Spaces};
use proptest::prelude::*;

use crate::fixture::{cell, json, link, set};

const EXTENTS: [Extent; 5] = [
    Extent::Link,
    Extent::Shape,
    Extent::Keys,
    Extent::Links,
    Extent::Whole,
];

/// A small value; with `links`, some of its parts lead to `doc/a`, `doc/b/a` and `other/a`.
fn any_value(links: bool) -> impl Strategy<Value = Json> {
    let number = (0..3_i64).prop_map(Json::from);
    let targets = prop::sample::select(vec!["doc/a", "doc/b/a", "other/a"]);
    let leaf =
        (number, targets, prop::bool::weighted(0.3)).prop_map(move |(number, target, is_link)| {
            if is_link && links {
                link(target)
            } else {
                number
            }
        });
    leaf.prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            3 => prop::collection::btree_map("[ab]", inner.clone(), 0..3).prop_map(Json::object),
            1 => prop::collection::vec(inner, 0..3).prop_map(Json::array),
        ]
    })
}

fn any_spaces(links: bool) -> impl Strategy<Value = Spaces> {
    let document = || prop::option::of(any_value(links));
    (document(), document()).prop_map(|(doc, other)| {
        let mut spaces = Spaces::default();
        for (name, value) in [("doc", doc), ("other", other)] {
            if let Some(value) = value {
                let at = cell(name);
                spaces.load(&at.space, at.id, value);
            }
        }
        spaces
    })
}

/// Whether everything that a read of `at` looked at in one state looks the same in another.
fn sees_the_same(at: &str, before: &Spaces, after: &Spaces) -> bool {
    let mut transaction = before.begin();
    transaction.get(&cell(at));
    let mut reads = transaction.reads().iter();
    reads.all(|(at, extent)| extent.is_same(before.snapshot().at(at), after.snapshot().at(at)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_looks_the_same_has_the_same_digest(
        one in prop::option::of(any_value(true)),
        other in prop::option::of(any_value(true)),
    ) {
        for extent in EXTENTS {
            let is_same = extent.is_same(one.as_ref(), other.as_ref());
            let digests = [&one, &other].map(|value| extent.digest(value.as_ref()));
            prop_assert_eq!(is_same, digests[0] == digests[1], "{:?}", extent);
        }
    }

    /// Nothing is missed, links or not.
    #[test]
    fn a_read_that_gives_something_else_looked_at_something_that_changed(
        before in any_spaces(true),
        after in any_spaces(true),
        path in "(/[ab]){0,4}",
    ) {
        let at = format!("doc{path}");
        let values = [&before, &after].map(|spaces| spaces.begin().get(&cell(&at)));
        if values[0] != values[1] {
            prop_assert!(!sees_the_same(&at, &before, &after));
        }
    }

    /// Nothing is noted in vain: without links only the value itself counts, also where nothing
    /// stood on the way to it.
    #[test]
    fn a_read_that_gives_the_same_looked_at_nothing_that_changed(
        before in any_spaces(false),
        after in any_spaces(false),
        path in "(/[ab]){0,4}",
    ) {
        let at = format!("doc{path}");
        let values = [&before, &after].map(|spaces| spaces.begin().get(&cell(&at)));
        prop_assert_eq!(values[0] == values[1], sees_the_same(&at, &before, &after));
    }
}

#[test]
fn siblings_under_a_parent_that_did_not_exist_do_not_conflict() {
    let mut spaces = Spaces::default();
    let mut first = spaces.begin();
    let mut second = spaces.begin();
    let mut third = spaces.begin();
    first.set(&cell("doc/a/b/x"), &1.into()).unwrap();
    second.set(&cell("doc/a/b/y"), &2.into()).unwrap();
    third.increment(&cell("doc/a/c"), 3.into()).unwrap();
    for transaction in [first, second, third] {
        spaces.commit(transaction).unwrap();
    }
    let mut late = spaces.begin();
    late.increment(&cell("doc/a/c"), 4.into()).unwrap();
    set(&mut spaces, "doc/a/c", 10);
    spaces.commit(late).unwrap();
    let expected = json!({"a": {"b": {"x": 1, "y": 2}, "c": 14}});
    assert_eq!(spaces.begin().get(&cell("doc")), Some(expected.into()));
}

#[test]
fn a_link_that_appears_on_the_way_is_a_conflict_and_a_scalar_a_refusal() {
    let outcome = |at: &str, value: Json| {
        let mut spaces = Spaces::default();
        let mut transaction = spaces.begin();
        transaction.set(&cell("doc/a/b/x"), &1.into()).unwrap();
        set(&mut spaces, at, value);
        spaces.commit(transaction).unwrap_err()
    };
    for at in ["doc", "doc/a", "doc/a/b"] {
        let error = outcome(at, link("other"));
        assert!(matches!(error, CommitError::Conflict { .. }), "{error}");
        let error = outcome(at, 5.into());
        assert!(matches!(error, CommitError::Refused(_)), "{error}");
    }
}
