//! A block that is open: which of its steps are where, and the values it holds.

use lope_definition::BlockId;
use lope_model::Value;
use serde::{Deserialize, Serialize};

use super::Exit;
use crate::law::arena::Key;
use crate::law::plan::PlanBlock;

/// One opening of a block.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Act {
    #[serde(rename = "b")]
    pub(crate) block: BlockId,
    /// The execution that holds it; absent for the root of an input.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<Key>,
    #[serde(rename = "i")]
    pub(crate) input: u64,
    /// Which element, iteration or branch of its holder.
    #[serde(rename = "l")]
    pub(crate) lane: u64,
    #[serde(rename = "d")]
    pub(crate) depth: u32,
    #[serde(rename = "c")]
    pub(crate) steps: Vec<BlockStep>,
    /// Outputs of steps, then locals, then variables.
    #[serde(rename = "s", with = "slots")]
    pub(crate) slots: Vec<Option<Value>>,
    /// Steps not settled.
    #[serde(rename = "o")]
    pub(crate) unsettled: u32,
    /// Steps that take time right now.
    #[serde(rename = "n")]
    pub(crate) live: u32,
    /// Why it is being left.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub(crate) exit: Option<Exit>,
}

/// One step in an open block.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(from = "BlockStepForm", into = "BlockStepForm")]
pub(crate) struct BlockStep {
    /// Steps it still waits for.
    pub(crate) waits: u32,
    /// How often its output is still wanted.
    pub(crate) uses: u32,
    pub(crate) state: BlockStepState,
}

type BlockStepForm = (u32, u32, BlockStepState);

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum BlockStepState {
    #[serde(rename = "w")]
    Waiting,
    /// Something it needs was skipped.
    #[serde(rename = "x")]
    Doomed,
    #[serde(rename = "o")]
    Open(Key),
    #[serde(rename = "d")]
    Done,
    #[serde(rename = "s")]
    Skipped,
}

impl Act {
    pub(crate) fn new(id: BlockId, block: &PlanBlock, parent: Option<Key>, input: u64) -> Self {
        let steps = block.steps.iter().map(|step| BlockStep {
            waits: step.waits,
            uses: step.uses,
            state: BlockStepState::Waiting,
        });
        Self {
            block: id,
            parent,
            input,
            lane: 0,
            depth: 0,
            steps: steps.collect(),
            slots: vec![None; block.slots as usize],
            unsettled: block.steps.len() as u32,
            live: 0,
            exit: None,
        }
    }
}

impl From<BlockStepForm> for BlockStep {
    fn from((waits, uses, state): BlockStepForm) -> Self {
        Self { waits, uses, state }
    }
}

impl From<BlockStep> for BlockStepForm {
    fn from(step: BlockStep) -> Self {
        (step.waits, step.uses, step.state)
    }
}

/// Slots as their number and those that hold something: a slot that holds null is not an empty one.
mod slots {
    use lope_model::Value;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    pub(super) fn serialize<S: Serializer>(
        slots: &[Option<Value>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let held = slots
            .iter()
            .enumerate()
            .filter_map(|(slot, value)| Some((slot as u32, value.as_ref()?)));
        (slots.len() as u32, held.collect::<Vec<_>>()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Option<Value>>, D::Error> {
        let (len, held): (u32, Vec<(u32, Value)>) = Deserialize::deserialize(deserializer)?;
        let mut slots = vec![None; len as usize];
        for (slot, value) in held {
            *slots
                .get_mut(slot as usize)
                .ok_or_else(|| de::Error::custom("a slot that is not there"))? = Some(value);
        }
        Ok(slots)
    }
}
