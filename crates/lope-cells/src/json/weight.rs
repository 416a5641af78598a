//! How much room a value takes at most when it is stored.

use super::Json;

/// What a list, an object or a text takes besides what is in it.
const HEAD: usize = 5;
/// What any other value takes at most.
const SCALAR: usize = 9;

impl Json {
    /// The most bytes that the value takes in a row; it takes hardly less.
    pub fn weight(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) | Self::Number(_) => SCALAR,
            Self::Text(text) => HEAD + text.len(),
            Self::Array(array) => HEAD + array.iter().map(Self::weight).sum::<usize>(),
            Self::Object(object) => {
                let entries = object.iter();
                let entries = entries.map(|(key, value)| HEAD + key.len() + value.weight());
                HEAD + entries.sum::<usize>()
            }
        }
    }
}
