//! Between Rust types and values, by serde. What a value cannot hold (a map with keys that are no
//! text) is an error with words, never a panic.

use lope_model::{Value, value};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A Rust value as a value of the workflow language.
pub fn to_value<T: Serialize + ?Sized>(from: &T) -> Result<Value, String> {
    let mut bytes = Vec::with_capacity(64);
    let mut writer = rmp_serde::Serializer::new(&mut bytes)
        .with_struct_map()
        .with_human_readable();
    from.serialize(&mut writer)
        .map_err(|error| error.to_string())?;
    value::from_msgpack(&bytes).map_err(|error| error.to_string())
}

/// A value of the workflow language as a Rust value.
pub fn from_value<T: DeserializeOwned>(from: &Value) -> Result<T, String> {
    let bytes = value::to_msgpack(from);
    let mut reader = rmp_serde::Deserializer::from_read_ref(&bytes).with_human_readable();
    T::deserialize(&mut reader).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    enum Shape {
        Point,
        Circle { radius: f64 },
        Line(i64, i64),
    }

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Order {
        id: u64,
        name: Option<String>,
        shapes: Vec<Shape>,
        marks: BTreeMap<String, bool>,
        pair: (i8, char),
    }

    #[test]
    fn rust_values_come_back_as_they_were() {
        let order = Order {
            id: 7,
            name: None,
            shapes: vec![
                Shape::Point,
                Shape::Circle { radius: 0.5 },
                Shape::Line(1, -1),
            ],
            marks: [("a".to_owned(), true)].into(),
            pair: (-3, 'ü'),
        };
        let value = to_value(&order).unwrap();
        assert_eq!(value.get("id"), Some(&Value::Int(7)));
        assert_eq!(from_value::<Order>(&value).unwrap(), order);
        assert_eq!(
            from_value::<Value>(&Value::bytes([1, 2])).unwrap(),
            Value::bytes([1, 2])
        );
        assert_eq!(from_value::<Option<u8>>(&Value::Null).unwrap(), None);
    }

    #[test]
    fn what_does_not_fit_is_an_error_with_words() {
        assert!(to_value(&u64::MAX).is_err());
        assert!(to_value(&BTreeMap::from([(1, 2)])).is_err());
        assert!(
            from_value::<u8>(&Value::Int(300))
                .unwrap_err()
                .contains("u8")
        );
        assert!(from_value::<Order>(&Value::Int(3)).is_err());
    }
}
