//! Tests of cells, one module a subject.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod fixture;
mod history;
mod identity;
mod labels;
mod links;
mod reads;
mod schemas;
mod transactions;
mod values;
mod wording;
mod writes;
