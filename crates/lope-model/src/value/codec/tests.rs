//! Every value comes back from both forms as it was; bad input is refused with a reason.

use proptest::prelude::*;

use super::*;

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_map(Value::Float),
        ".{0,12}".prop_map(Value::from),
        proptest::collection::vec(any::<u8>(), 0..12).prop_map(Value::bytes),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let key = prop_oneof![
            "[a-c$]{0,3}",
            Just(BYTES.to_owned()),
            Just(TAG.to_owned()),
            Just(MAP.to_owned())
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::list),
            proptest::collection::vec((key, inner.clone()), 0..4).prop_map(Value::map),
            ("[a-z]{1,6}", inner)
                .prop_map(|(name, value)| Value::tag(&format!("py.{name}"), value)),
        ]
    })
}

proptest! {
    #[test]
    fn both_forms_give_the_value_back(value in any_value()) {
        prop_assert_eq!(&from_json(&to_json(&value)).unwrap(), &value);
        prop_assert_eq!(&from_msgpack(&to_msgpack(&value)).unwrap(), &value);
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = from_msgpack(&bytes);
    }
}

#[test]
fn bad_input_is_refused_with_a_reason() {
    assert!(
        from_json("{\"a\": }")
            .unwrap_err()
            .to_string()
            .contains("line 1 column 7")
    );
    assert!(
        from_json("18446744073709551615")
            .unwrap_err()
            .to_string()
            .contains("does not fit 64 bits")
    );
    assert!(
        from_json("{\"$bytes\": 5}")
            .unwrap_err()
            .to_string()
            .contains("reserved")
    );
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    assert!(from_json(&deep).is_err());
    let deep = format!("{}1{}", "[".repeat(127), "]".repeat(127));
    assert!(from_json(&deep).is_ok());
}

#[test]
fn maps_keep_their_order() {
    assert_eq!(
        to_json(&from_json(r#"{"b":1,"a":2}"#).unwrap()),
        r#"{"b":1,"a":2}"#
    );
}
