//! What a space is asked to do from outside, besides events to streams: cells changed, recipes run
//! and stopped, outcomes of effects recorded.

use std::sync::Arc;

use lope_cells::address::CellAddress;
use lope_cells::id::SpaceName;
use lope_cells::json::Json;
use lope_model::Failure;
use serde::{Deserialize, Serialize};

/// The kind of failure of an effect that cannot be begun yet: it stays pending, its cell says why, and it
/// is asked for again when it can be begun.
pub const NOT_DEPLOYED: &str = "UnknownWorkflow";

/// Something that a space is asked to do, once.
#[derive(Clone, Debug, PartialEq)]
pub struct SpaceCommand {
    /// Given by the sender; a command with the same id is the same command.
    pub id: Arc<str>,
    pub action: SpaceAction,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SpaceAction {
    /// A cell gets a value, or loses it.
    Set {
        at: CellAddress,
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "present"
        )]
        value: Option<Json>,
    },
    /// A cell loses its value; an element of a list goes, and those behind it move up.
    Remove { at: CellAddress },
    /// The list in a cell gets elements at its end.
    Append {
        at: CellAddress,
        elements: Vec<Json>,
    },
    /// The list in a cell gets those elements at its end that it does not have.
    AddUnique {
        at: CellAddress,
        elements: Vec<Json>,
    },
    /// The list in a cell loses every element that equals this.
    RemoveValue { at: CellAddress, element: Json },
    /// The number in a cell grows.
    Increment { at: CellAddress, by: Json },
    /// A recipe runs into a cell; without a recipe the recorded one.
    Run {
        result: CellAddress,
        recipe: Option<Json>,
        argument: Option<Json>,
        strict: bool,
    },
    /// What runs into a cell stops.
    Stop { result: CellAddress },
    /// An effect that was asked for under this key is done.
    EffectDone {
        key: Arc<str>,
        outcome: Result<Json, Failure>,
    },
    /// An effect that could not be begun when it was asked for can be now.
    EffectAgain { key: Arc<str>, request: Json },
    /// What became of something that a node asked another space for.
    Answered(PostAnswer),
    /// A document gets a name that people know it by.
    Name { at: CellAddress, name: String },
    /// Several of these, together or not at all.
    All(Vec<SpaceAction>),
}

impl SpaceAction {
    /// What is done instead when the outcome of an effect cannot be kept: its node is told so.
    pub(super) fn failing_instead(&self) -> Option<impl FnOnce(Failure) -> Self> {
        let Self::EffectDone {
            key,
            outcome: Ok(_),
        } = self
        else {
            return None;
        };
        let key = Arc::clone(key);
        Some(|failure| Self::EffectDone {
            key,
            outcome: Err(failure),
        })
    }
}

/// Who asked a space for something, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PostOrigin {
    pub space: SpaceName,
    /// The node, by name.
    pub node: Arc<str>,
    /// The stream, or the first cell that was to be changed.
    pub at: CellAddress,
}

/// What became of a message to another space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PostAnswer {
    pub from: PostOrigin,
    /// The id of the message, and what its receipt says.
    pub event: Arc<str>,
    pub outcome: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// What is written is a value, null too; none is not written.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}
