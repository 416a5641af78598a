//! Any MessagePack as JSON for people to look at: keys that are no text become their own JSON text,
//! bytes become base64.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// What the bytes hold; `None` if they are no MessagePack.
pub fn loose(bytes: &[u8]) -> Option<Value> {
    rmp_serde::from_slice::<Loose>(bytes)
        .ok()
        .map(|loose| loose.0)
}

struct Loose(Value);

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Looser).map(Self)
    }
}

struct Looser;

impl<'de> Visitor<'de> for Looser {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Value, E> {
        Ok(BASE64.encode(bytes).into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Loose(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((Loose(key), Loose(value))) = entries.next_entry()? {
            map.insert(
                key.as_str().map_or_else(|| key.to_string(), str::to_owned),
                value,
            );
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn keys_that_are_no_text_are_shown_as_what_they_are() {
        let odd = BTreeMap::from([((1_i64, 2_u8), Some("a")), ((3, 4), None)]);
        let bytes = rmp_serde::to_vec_named(&odd).unwrap();
        assert_eq!(
            loose(&bytes).unwrap(),
            serde_json::json!({ "[1,2]": "a", "[3,4]": null })
        );
        assert_eq!(loose(&[0xc1]), None);
    }
}
