//! Values: equality, digests, sharing, text, changes at a path.

use lope_cells::json::{Array, Object, put};
use lope_cells::{CellPath, EntityId, Json, SpaceName};
use proptest::prelude::*;

use crate::fixture::json;

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let scalar = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        any::<i32>().prop_map(|value| json!(value)),
        any::<f32>().prop_filter_map("finite", |value| value.is_finite().then(|| json!(value))),
        "[a-z/~%\" é]{0,6}".prop_map(|value| json!(value)),
    ];
    scalar.prop_recursive(4, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|value| json!(value)),
            prop::collection::hash_map("[a-z/~0-9]{0,3}", inner, 0..6)
                .prop_map(|value| json!(value)),
        ]
    })
}

proptest! {
    #[test]
    fn text_round_trips_and_equal_values_have_equal_digests(one in any_json(), other in any_json()) {
        let (one, other) = (Json::from(one), Json::from(other));
        prop_assert_eq!(&Json::parse(&one.to_string()).unwrap(), &one);
        prop_assert_eq!(one == other, one.digest() == other.digest());
        prop_assert_eq!(Json::parse(&one.to_string()).unwrap().digest(), one.digest());
    }

    #[test]
    fn an_inline_id_holds_any_value(value in any_json()) {
        let value = Json::from(value);
        let id = EntityId::inline(&value);
        prop_assert!(id.as_str().is_ascii() && !id.as_str().contains('"'));
        prop_assert_eq!(id.inline_value(), Some(value));
        prop_assert_eq!(id.as_str().parse::<EntityId>().unwrap(), id);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// The chunked containers behave like the ones of the standard library, and a clone made before
    /// a change never sees it.
    #[test]
    fn containers_match_a_model(steps in prop::collection::vec((0..400_usize, any::<bool>()), 0..600)) {
        let mut object = Object::default();
        let mut array = Array::default();
        let mut entries = std::collections::BTreeMap::new();
        let mut elements = Vec::new();
        for (number, keep) in steps {
            let key = match number % 4 {
                // Keys that begin alike, and such with the least of all characters at their end.
                0 => format!("a long way to {number}"),
                1 => format!("z{}", "\0".repeat(number % 12)),
                _ => format!("k{number}"),
            };
            let (object_before, array_before) = (object.clone(), array.clone());
            let (entries_before, elements_before) = (entries.clone(), elements.clone());
            if keep {
                object.insert(key.as_str().into(), Json::from(number as i64));
                entries.insert(key, Json::from(number as i64));
                array.push(Json::from(number as i64));
                elements.push(Json::from(number as i64));
            } else {
                prop_assert_eq!(object.remove(&key), entries.remove(&key));
                prop_assert_eq!(array.pop(), elements.pop());
            }
            prop_assert_eq!(object_before.len(), entries_before.len());
            prop_assert_eq!(array_before, elements_before.into_iter().collect::<Array>());
            prop_assert!(object_before.iter().map(|(key, value)| (&**key, value))
                .eq(entries_before.iter().map(|(key, value)| (key.as_str(), value))));
        }
        prop_assert_eq!(object.len(), entries.len());
        prop_assert_eq!(array.len(), elements.len());
        prop_assert!(array.iter().eq(elements.iter()));
        for (key, value) in &entries {
            prop_assert_eq!(object.get(key), Some(value));
        }
    }
}

#[test]
fn a_number_has_one_form() {
    assert_eq!(Json::parse("1").unwrap(), Json::parse("1.0").unwrap());
    assert_eq!(Json::parse("1e2").unwrap().to_string(), "100");
    assert_eq!(Json::from(-0.0), Json::from(0));
    assert_eq!(Json::from(f64::NAN), Json::Null);
    assert_eq!(
        Json::parse("9223372036854775807").unwrap().as_int(),
        Some(i64::MAX)
    );
    assert_ne!(Json::from(0.1), Json::from(0.2));
}

#[test]
fn a_digest_is_the_same_on_every_machine_and_forgets_no_change() {
    let value = Json::from(json!({"b": [1, 2.5, "x"], "a": null}));
    let same = Json::parse(r#"{"a":null,"b":[1.0,2.5,"x"]}"#).unwrap();
    assert_eq!(value.digest(), same.digest());
    // Written down once: a change of this text would give every stored document another id.
    assert_eq!(
        EntityId::of_cause(&value).as_str(),
        "of:ad45f5eb62d95df2fe5d6524981f4d01df9d077fb7b3f06fd359633bb1a698f0"
    );
    let mut changed = Some(value.clone());
    let path: CellPath = ["b", "0"].into_iter().collect();
    put(&mut changed, path.keys(), Some(Json::from(7))).unwrap();
    assert_ne!(changed.as_ref().unwrap().digest(), value.digest());
    put(&mut changed, path.keys(), Some(Json::from(1))).unwrap();
    assert_eq!(changed.unwrap().digest(), value.digest());
}

#[test]
fn a_change_at_a_path_makes_the_way_and_refuses_what_leads_nowhere() {
    let change = |root: serde_json::Value, path: &[&str], value: Option<i64>| {
        let mut root = Some(Json::from(root));
        let path: CellPath = path.iter().copied().collect();
        put(&mut root, path.keys(), value.map(Json::from)).map(|()| root.unwrap().to_string())
    };
    let made = |root, path: &[&str], value| change(root, path, value).unwrap();
    assert_eq!(made(json!({}), &["a", "b"], Some(1)), r#"{"a":{"b":1}}"#);
    assert_eq!(made(json!([1]), &["1"], Some(2)), "[1,2]");
    assert_eq!(made(json!([1]), &["1", "x"], Some(2)), r#"[1,{"x":2}]"#);
    assert_eq!(made(json!([1, 2]), &["1"], None), "[1]");
    assert_eq!(made(json!([1, 2]), &["0"], None), "[null,2]");
    assert_eq!(made(json!({"a": 1}), &["a"], None), "{}");
    assert_eq!(made(json!({"a": 1}), &["b", "c"], None), r#"{"a":1}"#);
    for (root, path) in [
        (json!({"a": 1}), ["a", "b"]),
        (json!({"a": null}), ["a", "b"]),
        (json!({"a": [1]}), ["a", "2"]),
        (json!({"a": [1]}), ["a", "x"]),
        (json!({"a": [1]}), ["a", "01"]),
    ] {
        let refused = change(root, &path, Some(1)).unwrap_err();
        assert_eq!((refused.depth, &*refused.key), (1, path[1]));
    }
}

#[test]
fn ids_and_names_are_checked() {
    for bad in ["", "of:", "nocolon", "Of:x", ":x", "of:a\0b", "of:a\nb"] {
        assert!(bad.parse::<EntityId>().is_err(), "{bad}");
    }
    assert!(
        format!("of:{}", "x".repeat(638))
            .parse::<EntityId>()
            .is_err()
    );
    assert!(
        format!("of:{}", "x".repeat(637))
            .parse::<EntityId>()
            .is_ok()
    );
    assert!(
        format!("data:application/json,{}", "1".repeat(5_000))
            .parse::<EntityId>()
            .is_ok()
    );
    assert!(
        "data:text/plain,x"
            .parse::<EntityId>()
            .unwrap()
            .inline_value()
            .is_none()
    );
    assert!(
        "data:application/json,%7"
            .parse::<EntityId>()
            .unwrap()
            .inline_value()
            .is_none()
    );
    assert!("".parse::<SpaceName>().is_err() && "a/b".parse::<SpaceName>().is_err());
}
