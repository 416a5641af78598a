//! What can go wrong with writes and commits; each variant is something a caller decides on.

use thiserror::Error;

use crate::address::CellAddress;
use crate::id::SpaceName;
use crate::json::{Json, NotAContainer};
use crate::resolve::TooManyHops;

/// Why a write cannot be done. None of them goes away by trying again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    #[error("{at} is an inline document, which never changes")]
    Inline { at: CellAddress },
    #[error(
        "a transaction that writes the space '{first}' cannot write '{second}': send a stream of '{second}' an event instead"
    )]
    OtherSpace { first: SpaceName, second: SpaceName },
    #[error("{} is {}, which has no entry '{}'", .at.prefix(.source.depth), in_words(.source.kind), .source.key)]
    NotAContainer {
        at: CellAddress,
        source: NotAContainer,
    },
    #[error(
        "the link at {at} is to an inline document that is no JSON: 'data:application/json,' and JSON, percent-encoded, expected"
    )]
    NoJson { at: CellAddress },
    #[error("the value is too deep at {at}")]
    TooDeep { at: CellAddress },
    #[error(transparent)]
    TooManyHops(#[from] TooManyHops),
}

/// Why a commit was not done.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CommitError {
    /// Something that was read has changed since: run the transaction again.
    #[error("{at} was changed by somebody else")]
    Conflict { at: CellAddress },
    /// Trying again would not help.
    #[error(transparent)]
    Refused(#[from] CommitRefusal),
}

/// Why a commit cannot be done as it is.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CommitRefusal {
    #[error("{at} was to be {} and is {}", shown(.expected.as_ref()), shown(.found.as_ref()))]
    Precondition {
        at: CellAddress,
        expected: Option<Json>,
        found: Option<Json>,
    },
    #[error("{at} is {}, not a list", in_words(.kind))]
    NotAList { at: CellAddress, kind: &'static str },
    #[error("{at} is {}, not a number", in_words(.kind))]
    NotANumber { at: CellAddress, kind: &'static str },
    #[error("the sum at {at} is too large: whole numbers have 64 bits")]
    Overflow { at: CellAddress },
    /// More than can be saved.
    #[error("{0}")]
    Beyond(String),
    #[error(transparent)]
    Write(#[from] WriteError),
}

fn shown(value: Option<&Json>) -> String {
    value.map_or_else(|| "undefined".to_owned(), Json::to_string)
}

/// A type of JSON, as it stands in a sentence.
fn in_words(kind: &str) -> &str {
    match kind {
        "boolean" => "a boolean",
        "number" => "a number",
        "string" => "a text",
        "array" => "a list",
        "object" => "an object",
        other => other,
    }
}
