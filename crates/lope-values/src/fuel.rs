//! What an evaluation may use: steps, bytes made on the way, size and depth of the result. Running
//! out is a `Limit`.
//!
//! Fuel is counted in work, never in time, so that a replay on another machine stops at the same
//! place.

use lope_model::{Value, limit};

use super::error::EvalError;

/// Steps of one evaluation unless the law gives it another budget.
const STEPS: u64 = 10_000_000;
/// Bytes that one evaluation may make, intermediate values included.
const BYTES: u64 = 8 * limit::PAYLOAD_MAX as u64;
/// What an element costs beside its text: about what a scalar takes in memory.
pub const ELEMENT_BYTES: u64 = 16;

/// A budget that evaluations draw on. One budget may serve several evaluations.
#[derive(Debug, Clone)]
pub struct Fuel {
    steps: u64,
    bytes: u64,
    given: u64,
    /// Did the evaluation make a container? Only then can its result be larger or deeper than what
    /// came in.
    built: bool,
}

impl Default for Fuel {
    fn default() -> Self {
        Self::new(STEPS)
    }
}

impl Fuel {
    pub fn new(steps: u64) -> Self {
        Self {
            steps,
            bytes: BYTES,
            given: steps,
            built: false,
        }
    }

    /// Begins an evaluation: nothing is built yet.
    pub fn begin(&mut self) {
        self.built = false;
    }

    /// Notes that a container was made whose elements are accounted for elsewhere.
    pub fn note_built(&mut self) {
        self.built = true;
    }

    /// Steps left.
    pub const fn left(&self) -> u64 {
        self.steps
    }

    /// Steps used so far.
    pub const fn spent(&self) -> u64 {
        self.given - self.steps
    }

    #[inline]
    pub fn spend(&mut self, steps: u64) -> Result<(), EvalError> {
        match self.steps.checked_sub(steps) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => Err(out_of_steps(self)),
        }
    }

    /// Accounts for `bytes` about to be made.
    pub fn grow(&mut self, bytes: u64) -> Result<(), EvalError> {
        match self.bytes.checked_sub(bytes) {
            Some(left) => {
                self.bytes = left;
                self.spend(bytes / 64)
            }
            None => Err(EvalError::limit(format!(
                "the expression makes more than {BYTES} bytes"
            ))),
        }
    }

    /// Accounts for a list or map of `len` elements about to be made.
    pub fn build(&mut self, len: usize) -> Result<(), EvalError> {
        self.built = true;
        self.grow(ELEMENT_BYTES.saturating_mul((len as u64).saturating_add(1)))
    }

    /// Refuses a result that is too large or too deep to be stored.
    pub fn check_result(&mut self, value: &Value) -> Result<(), EvalError> {
        if !std::mem::take(&mut self.built) {
            return Ok(());
        }
        let mut room = limit::PAYLOAD_MAX as u64;
        measure(value, limit::DEPTH_MAX, &mut room)
    }
}

#[cold]
fn out_of_steps(fuel: &mut Fuel) -> EvalError {
    fuel.steps = 0;
    EvalError::limit(format!(
        "the expression takes more than {} steps",
        fuel.given
    ))
}

fn measure(value: &Value, levels: usize, room: &mut u64) -> Result<(), EvalError> {
    if levels == 0 {
        return Err(EvalError::limit(format!(
            "the result is nested deeper than {} levels",
            limit::DEPTH_MAX
        )));
    }
    let own = match value {
        Value::Str(text) => text.len() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        _ => 1,
    };
    *room = room.checked_sub(own).ok_or_else(|| {
        EvalError::limit(format!(
            "the result is larger than {} bytes",
            limit::PAYLOAD_MAX
        ))
    })?;
    match value {
        Value::List(items) => items
            .iter()
            .try_for_each(|item| measure(item, levels - 1, room)),
        Value::Map(map) => map.iter().try_for_each(|(key, item)| {
            *room = room.saturating_sub(key.len() as u64);
            measure(item, levels - 1, room)
        }),
        Value::Tag(tag) => measure(&tag.value, levels - 1, room),
        _ => Ok(()),
    }
}
