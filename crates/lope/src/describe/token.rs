//! Tokens as JSON: never the token itself.

use serde_json::{Value, json};

use crate::tokens::TokenRecord;

/// A token as the store knows it.
pub fn token(token: &TokenRecord) -> Value {
    json!({
        "id": token.id,
        "name": token.name,
        "right": token.right.as_str(),
        "added_at": token.added_at.to_string(),
    })
}
