//! The short digest that goes with every row: of the events so far, their effects, and the shape of
//! the state.
//!
//! It is there to notice that a replay went another way, so it must be cheap and the same on every
//! machine; it proves nothing to an adversary.

use super::effect::Effect;
use super::event::{Event, Settled};
use super::state::State;

/// Mixes a number into a digest.
const fn mix(digest: u64, number: u64) -> u64 {
    let mut mixed = (digest ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^= mixed >> 29;
    mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 32)
}

fn mix_text(digest: u64, text: &str) -> u64 {
    let mut chunks = text.as_bytes().chunks_exact(8);
    let mut mixed = mix(digest, text.len() as u64);
    for chunk in &mut chunks {
        mixed = mix(
            mixed,
            chunk
                .iter()
                .fold(0, |word, byte| (word << 8) | u64::from(*byte)),
        );
    }
    mix(
        mixed,
        chunks
            .remainder()
            .iter()
            .fold(0, |word, byte| (word << 8) | u64::from(*byte)),
    )
}

impl State {
    pub(crate) fn mix_event(&mut self, event: &Event) {
        let mut digest = mix(self.digest, self.at.millis().cast_unsigned());
        digest = mix_text(digest, event.kind.word());
        if let Some((execution, attempt)) = event.kind.execution() {
            digest = mix(mix_text(digest, execution), attempt.unwrap_or(0).into());
        }
        self.digest = digest;
    }

    pub(crate) fn mix_shape(&mut self) {
        let live = (self.acts.len() as u64) << 32 | self.execs.len() as u64;
        let flow =
            u64::from(self.in_flight) << 32 | (self.ready.len() + self.outgoing.len()) as u64;
        let still =
            (self.timers.len() as u64) << 32 | (self.waiters.len() + self.turns.len()) as u64;
        self.digest = [live, flow, still, self.inputs.len() as u64]
            .into_iter()
            .fold(self.digest, mix);
    }
}

impl Effect {
    pub(crate) fn mixed_into(&self, digest: u64) -> u64 {
        match self {
            Self::Dispatch(it) => mix(mix_text(mix(digest, 1), &it.execution), it.attempt.into()),
            Self::CancelAttempt {
                execution, attempt, ..
            } => mix(mix_text(mix(digest, 2), execution), (*attempt).into()),
            Self::StartChild(it) => mix_text(mix(digest, 3), &it.execution),
            Self::CancelChild { execution, .. } => mix_text(mix(digest, 4), execution),
            Self::Send(it) => mix_text(mix(digest, 5), &it.execution),
            Self::InputSettled { input, result } => {
                mix_text(mix(digest, 6 + settled(result)), input)
            }
            Self::Complete { .. } => mix(digest, 10),
            Self::Fail { failure } => mix_text(mix(digest, 11), &failure.kind),
            Self::Cancelled => mix(digest, 12),
            Self::Telemetry(_) => digest,
        }
    }
}

const fn settled(result: &Settled) -> u64 {
    match result {
        Settled::Done(_) => 0,
        Settled::Failed(_) => 1,
        Settled::Cancelled => 2,
    }
}
