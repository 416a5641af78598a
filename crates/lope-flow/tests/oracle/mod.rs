//! A second opinion: a simple recursive interpreter of definitions that shares no code with the
//! law, a generator of workflows whose result does not depend on order, and a world that answers in
//! any order.

#![allow(dead_code, unreachable_pub, reason = "every test file uses some of it")]
#![allow(
    clippy::struct_excessive_bools,
    reason = "tastes and places are sets of yes and no"
)]

pub mod generate;
pub mod interpret;
pub mod world;

use lope_flow::law::Settled;
use lope_model::{Failure, Value};

/// Numbers that look random and are the same every time.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// In so many of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

/// What a worker answers: `ok` computes, `flaky2` fails twice first, `bad_E` always fails as `E`,
/// `fragile` fails as `Broken` until somebody mends it.
pub fn answer(action: &str, with: &Value, failures_so_far: u32, mended: bool) -> Settled {
    if let Some(kind) = action.strip_prefix("bad_") {
        return Settled::failed(Failure::new(kind, "always"));
    }
    if action == "fragile" && !mended {
        return Settled::failed(Failure::new("Broken", "not yet"));
    }
    let flaky = action
        .strip_prefix("flaky")
        .and_then(|count| count.parse::<u32>().ok());
    if flaky.is_some_and(|count| failures_so_far < count) {
        return Settled::failed(Failure::new("Flaky", "try again"));
    }
    Settled::Done(Value::Int(
        (with.as_int().unwrap_or(-1) * 7 + 3).rem_euclid(1_000),
    ))
}
