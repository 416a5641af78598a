//! As much of a value as the beginning of its MessagePack form tells, for whoever shows a large one.
//!
//! In: the first bytes of a form; out: the value, in which what was not there is left out: a list or a
//! map ends early, a text is cut. Never needs more memory than a value of so many bytes.

use super::codec::restored;
use super::{Map, Value};
use crate::limit;

/// The value that these bytes are the beginning of; `Null` if they tell nothing.
pub fn from_msgpack_head(bytes: &[u8]) -> Value {
    let mut head = MsgpackHead { rest: bytes };
    head.value(limit::DEPTH_MAX * 4).unwrap_or_default()
}

/// What is still to be read.
struct MsgpackHead<'a> {
    rest: &'a [u8],
}

impl MsgpackHead<'_> {
    /// The next value; nothing if none begins here, and then nothing follows either.
    fn value(&mut self, levels: usize) -> Option<Value> {
        let marker = self.marker(levels)?;
        match marker {
            0x00..=0x7f => Some(Value::Int(i64::from(marker))),
            0xe0..=0xff => Some(Value::Int(i64::from(marker.cast_signed()))),
            0xc0 => Some(Value::Null),
            0xc2 | 0xc3 => Some(Value::Bool(marker == 0xc3)),
            0xca..=0xd3 => self.number(marker),
            0xa0..=0xbf => Some(self.text(usize::from(marker & 0x1f))),
            0xd9..=0xdb => self.length(marker - 0xd9).map(|length| self.text(length)),
            0xc4..=0xc6 => self.length(marker - 0xc4).map(|length| self.bytes(length)),
            0x90..=0x9f => Some(self.list(usize::from(marker & 0x0f), levels)),
            0xdc | 0xdd => {
                let length = self.length(marker - 0xdc + 1)?;
                Some(self.list(length, levels))
            }
            0x80..=0x8f => Some(self.map(usize::from(marker & 0x0f), levels)),
            0xde | 0xdf => {
                let length = self.length(marker - 0xde + 1)?;
                Some(self.map(length, levels))
            }
            0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => self.end(),
        }
    }

    fn marker(&mut self, levels: usize) -> Option<u8> {
        if levels == 0 {
            return self.end();
        }
        self.taken::<1>().map(|[marker]| marker)
    }

    /// Nothing more can be read.
    fn end<T>(&mut self) -> Option<T> {
        self.rest = &[];
        None
    }

    fn taken<const N: usize>(&mut self) -> Option<[u8; N]> {
        match self.rest.split_first_chunk() {
            Some((taken, rest)) => {
                self.rest = rest;
                Some(*taken)
            }
            None => self.end(),
        }
    }

    /// A length of one, two or four bytes: kinds 0, 1, 2.
    fn length(&mut self, kind: u8) -> Option<usize> {
        match kind {
            0 => self.taken().map(u8::from_be_bytes).map(usize::from),
            1 => self.taken().map(u16::from_be_bytes).map(usize::from),
            _ => self.taken().map(u32::from_be_bytes).map(|it| it as usize),
        }
    }

    fn number(&mut self, marker: u8) -> Option<Value> {
        let float = match marker {
            0xca => self.taken().map(f32::from_be_bytes).map(f64::from),
            0xcb => self.taken().map(f64::from_be_bytes),
            _ => return self.integer(marker).map(Value::Int),
        };
        float.map(Value::Float)
    }

    fn integer(&mut self, marker: u8) -> Option<i64> {
        match marker {
            0xcc => self.taken().map(u8::from_be_bytes).map(i64::from),
            0xcd => self.taken().map(u16::from_be_bytes).map(i64::from),
            0xce => self.taken().map(u32::from_be_bytes).map(i64::from),
            0xcf => self.taken().map(u64::from_be_bytes)?.try_into().ok(),
            0xd0 => self.taken().map(i8::from_be_bytes).map(i64::from),
            0xd1 => self.taken().map(i16::from_be_bytes).map(i64::from),
            0xd2 => self.taken().map(i32::from_be_bytes).map(i64::from),
            _ => self.taken().map(i64::from_be_bytes),
        }
    }

    /// At most so many of the bytes that follow.
    fn run(&mut self, length: usize) -> &[u8] {
        let (taken, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    fn bytes(&mut self, length: usize) -> Value {
        Value::bytes(self.run(length))
    }

    /// A text that is cut ends with a whole letter.
    fn text(&mut self, length: usize) -> Value {
        let bytes = self.run(length);
        let whole = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        };
        Value::str(whole)
    }

    fn list(&mut self, length: usize, levels: usize) -> Value {
        let items = (0..length).map_while(|_| self.value(levels - 1));
        Value::list(items.collect())
    }

    fn map(&mut self, length: usize, levels: usize) -> Value {
        let mut map = Map::new();
        for _ in 0..length {
            let Some(Value::Str(key)) = self.value(levels - 1) else {
                break;
            };
            let Some(value) = self.value(levels - 1) else {
                break;
            };
            map.insert(key, value);
        }
        restored(map)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{to_json, to_msgpack};
    use super::*;

    fn every_kind() -> Value {
        let numbers = [0, 127, 128, 255, 256, 65_535, 65_536, -1, -32, -33, -129];
        let numbers = numbers.into_iter().chain([-32_769, i64::MIN, i64::MAX]);
        let entries = [
            ("null", Value::Null),
            ("yes", Value::Bool(true)),
            ("no", Value::Bool(false)),
            ("numbers", Value::list(numbers.map(Value::Int).collect())),
            ("float", Value::Float(1.5)),
            ("text", Value::str("grün")),
            ("long", Value::str("ü".repeat(300))),
            ("bytes", Value::bytes([1, 2, 255])),
            ("many", Value::list(vec![Value::Int(7); 70])),
            (
                "last",
                Value::map([("a", Value::map([("b", Value::Null)]))]),
            ),
        ];
        Value::map(entries)
    }

    #[test]
    fn all_of_a_form_is_all_of_the_value() {
        let value = every_kind();
        assert_eq!(from_msgpack_head(&to_msgpack(&value)), value);
        for value in [
            Value::Null,
            Value::Int(-5),
            Value::str(""),
            Value::list(vec![]),
        ] {
            assert_eq!(from_msgpack_head(&to_msgpack(&value)), value);
        }
        let date = Value::tag("date", Value::str("2026-01-02"));
        assert_eq!(from_msgpack_head(&to_msgpack(&date)), date);
        assert_eq!(from_msgpack_head(&[]), Value::Null);
    }

    /// However much of it is there, what is told stands in the value, and more of it tells more.
    #[test]
    fn the_beginning_of_a_form_is_the_beginning_of_the_value() {
        let value = every_kind();
        let form = to_msgpack(&value);
        let mut before = 0;
        for end in 1..=form.len() {
            let head = from_msgpack_head(&form[..end]);
            let entries = head.as_map().expect("it is a map");
            let whole = value.as_map().expect("it is a map");
            let mut entries = entries.iter();
            let mut whole = whole.iter();
            let last = entries.next_back();
            assert!(entries.all(|entry| whole.next() == Some(entry)), "{end}");
            let told = last.map_or(0, |(_, value)| to_json(value).len());
            assert!(last.is_none_or(|(key, _)| Some(key) == whole.next().map(|(key, _)| key)));
            let all = to_json(&head).len();
            assert!(all >= before, "{end}: {told}");
            before = all;
        }
        assert_eq!(before, to_json(&value).len());
    }

    #[test]
    fn a_text_is_cut_at_a_letter() {
        let form = to_msgpack(&Value::str("äöü".repeat(100_000)));
        let head = from_msgpack_head(&form[..16]);
        assert_eq!(head, Value::str("äöüäö"));
    }

    /// What says that it is long or deep is not believed.
    #[test]
    fn a_form_that_lies_costs_nothing() {
        assert_eq!(
            from_msgpack_head(&[0xdd, 255, 255, 255, 255]),
            Value::list(vec![])
        );
        let deep = from_msgpack_head(&vec![0x91; 100_000]);
        assert!(deep.as_list().is_some());
        assert_eq!(from_msgpack_head(&[0xc1, 1]), Value::Null);
    }
}
