//! The digest of a value: the same for equal values on every machine, kept by lists and objects
//! once it was asked for.
//!
//! A list's digest is made of its elements' digests, an object's of its keys and its entries'
//! digests in the order of the keys, so that a shared part is hashed once.

use lope_model::Digest;

use super::{Array, Json, Object};

impl Json {
    /// The digest of the value.
    pub fn digest(&self) -> Digest {
        match self {
            Self::Null => Digest::of(b"n"),
            Self::Bool(false) => Digest::of(b"f"),
            Self::Bool(true) => Digest::of(b"t"),
            Self::Number(number) => match number.as_int() {
                Some(whole) => tagged(b'i', &whole.to_be_bytes()),
                None => tagged(b'd', &number.as_f64().to_bits().to_be_bytes()),
            },
            Self::Text(text) => tagged(b's', text.as_bytes()),
            Self::Array(array) => *array.digest_cache().get_or_init(|| of_array(array)),
            Self::Object(object) => *object.digest_cache().get_or_init(|| of_object(object)),
        }
    }
}

fn tagged(tag: u8, bytes: &[u8]) -> Digest {
    let mut text = Vec::with_capacity(bytes.len() + 1);
    text.push(tag);
    text.extend_from_slice(bytes);
    Digest::of(&text)
}

fn of_array(array: &Array) -> Digest {
    let mut text = vec![b'a'];
    for element in array.iter() {
        text.extend_from_slice(element.digest().as_bytes());
    }
    Digest::of(&text)
}

fn of_object(object: &Object) -> Digest {
    let mut text = vec![b'o'];
    for (key, value) in object.iter() {
        text.extend_from_slice(&(key.len() as u64).to_be_bytes());
        text.extend_from_slice(key.as_bytes());
        text.extend_from_slice(value.digest().as_bytes());
    }
    Digest::of(&text)
}
