//! A statement as the verbs write it down: its name, its SQL text, the types of its parameters. Knows no connection.

use tokio_postgres::types::{ToSql, Type};

use crate::options::SchemaName;
use crate::record::RECORD;

/// Rows, values and snapshots that a statement appends for the runs in its part `written`. Its parameters are the first
/// twelve of every statement that holds `{append}`.
const APPEND: &str = include_str!("append.sql");
const APPEND_TYPES: &str = "uuids ints ints texts bytes  uuids bytes bytes  uuids ints ints bytes";
/// What the two kinds of claims have in common.
const CLAIM_TAIL: &str = include_str!("claim_tail.sql");
/// The server's clock in milliseconds.
const NOW: &str = "(extract(epoch from clock_timestamp()) * 1000)::bigint";

/// A statement. In its text `{schema}`, `{now}`, `{record}`, `{append}` and `{claim_tail}` stand for what their names say.
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
    let text = text.replace("{append}", APPEND).replace("{claim_tail}", CLAIM_TAIL).replace("{record}", RECORD);
    schema.within(&text.replace("{now}", NOW))
}

/// The types that a list of words means.
pub(crate) fn kinds(words: &str) -> Vec<Type> {
    words.replace("append", APPEND_TYPES).split_whitespace().map(kind).collect()
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
