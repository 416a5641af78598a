//! A statement as the verbs write it down: its name, its SQL text, the types of its parameters.
//! Knows no connection.

use tokio_postgres::types::{ToSql, Type};

use crate::options::SchemaName;
use crate::record::RECORD;

/// Types of the parameters of `append.sql`, which are the first twelve of every statement that
/// holds it.
const APPEND_TYPES: &str = "uuids ints ints texts bytes  uuids bytes bytes  uuids ints ints bytes";

/// Pieces that several statements have in common.
const PIECES: [(&str, &str); 6] = [
    // Rows, values and snapshots of the runs in the statement's part `written`.
    ("{append}", include_str!("append.sql")),
    ("{claim_tail}", include_str!("claim_tail.sql")),
    ("{prune_tail}", include_str!("prune_tail.sql")),
    ("{record}", RECORD),
    ("{remove_free}", include_str!("remove_free.sql")),
    // The server's clock in milliseconds.
    (
        "{now}",
        "(extract(epoch from clock_timestamp()) * 1000)::bigint",
    ),
];

/// A statement. In its text `{schema}` stands for the schema's name, and other names in braces for
/// [`PIECES`].
#[derive(Debug)]
pub(crate) struct Statement {
    /// Unique among statements.
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    /// Words of [`kind`], one for each parameter; `append` stands for those of `{append}`.
    pub(crate) types: &'static str,
}

/// Parameters of a statement.
pub(crate) type Params<'a> = Vec<&'a (dyn ToSql + Sync)>;

impl Statement {
    /// The text as the server gets it.
    pub(crate) fn within(&self, schema: &SchemaName) -> String {
        filled(self.text, schema)
    }
}

/// SQL text with its placeholders filled in.
pub(crate) fn filled(text: &str, schema: &SchemaName) -> String {
    let filled = PIECES.iter().fold(text.to_owned(), |text, (name, piece)| {
        text.replace(name, piece)
    });
    schema.within(&filled)
}

/// The types that a list of words means.
pub(crate) fn kinds(words: &str) -> Vec<Type> {
    words
        .replace("append", APPEND_TYPES)
        .split_whitespace()
        .map(kind)
        .collect()
}

fn kind(word: &str) -> Type {
    match word {
        "uuid" => Type::UUID,
        "int" => Type::INT8,
        "short" => Type::INT2,
        "text" => Type::TEXT,
        "byte" => Type::BYTEA,
        "uuids" => Type::UUID_ARRAY,
        "ints" => Type::INT8_ARRAY,
        "shorts" => Type::INT2_ARRAY,
        "texts" => Type::TEXT_ARRAY,
        "bytes" => Type::BYTEA_ARRAY,
        "bools" => Type::BOOL_ARRAY,
        other => unreachable!("no statement has a parameter of type {other}"),
    }
}
