//! The law of workflows: what a definition is, and how a run of one proceeds.
//!
//! Pure: no clock, no I/O, no randomness, no async. Front ends make a [`definition::Definition`] ([`yaml`] is one of them);
//! [`law::Plan`] makes it ready, [`law::advance`] folds events into a [`law::State`] and says which effects follow. Events
//! carry their time; somebody else stores them and carries the effects out. [`policy`] holds the decisions about retries
//! and limits, [`expr`] the one expression language, [`history`] turns a journal into what people look at, and [`graph`]
//! draws.
//!
//! ```
//! use lope_flow::definition::{Definition, Kind, Step};
//! use lope_flow::expr::{Template, parse};
//! use lope_flow::law::{Plan, Settled, drive};
//! use lope_model::Value;
//!
//! let with = |text: &str| Template::new(parse(text).unwrap());
//! let mut orders = Definition::new("orders");
//! orders.root_mut().steps = vec![
//!     Step::action("price", "price", with("input")),
//!     Step::action("tax", "tax", with("price")),
//!     Step::new("bill", Kind::Return { value: with("price + tax") }),
//! ];
//! let plan = Plan::new(&orders).unwrap();
//! let run = drive(&plan, vec![Value::Int(50)], |attempt| match &*attempt.action {
//!     "price" => Settled::Done(Value::Int(attempt.with.as_int().unwrap() * 2)),
//!     _ => Settled::Done(Value::Int(attempt.with.as_int().unwrap() / 5)),
//! });
//! assert_eq!(run.value(), Some(&Value::Int(120)));
//! ```

pub mod definition;
pub mod expr;
pub mod fits;
pub mod graph;
pub mod history;
pub mod law;
pub mod policy;
pub mod yaml;

/// The law that this program writes. A change that would give other effects for an existing definition and journal
/// raises it; the old behaviour stays behind gates. A run keeps the law that its first row names.
///
/// 1: the first. 2: a `send` that cannot be done fails its step; the step of a detached child is done when the child is there.
pub const LAW: u32 = 2;
