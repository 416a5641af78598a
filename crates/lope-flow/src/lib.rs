//! The law of workflows: definitions, expressions, and what happens when an event arrives. Pure: no clock, no I/O, no
//! randomness, no async.

pub mod expr;
