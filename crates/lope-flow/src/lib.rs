//! The law of workflows: what a definition is, and how a run of one proceeds.
//!
//! Pure: no clock, no I/O, no randomness, no async. Front ends make a [`definition::Definition`]; events that carry their
//! time flow in, effects flow out, and somebody else stores the former and carries out the latter.

pub mod definition;
pub mod expr;
pub mod graph;
pub mod history;
pub mod law;
pub mod policy;
pub mod yaml;

/// The law that this program writes. A change that would give other effects for an existing definition and journal
/// raises it; the old behaviour stays behind gates.
pub const LAW: u32 = 1;
