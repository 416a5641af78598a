//! The law of workflows: how a run of a definition proceeds.
//!
//! Pure: no clock, no I/O, no randomness, no async. [`law::Plan`] makes a definition ready,
//! [`law::advance`] folds events into a [`law::State`] and says which effects follow. Events carry
//! their time; somebody else stores them and carries the effects out. [`history`] turns a journal
//! into what people look at.
//!
//! ```
//! use lope_definition::{Definition, StepKind, Step};
//! use lope_expr::{Template, parse};
//! use lope_flow::law::{Plan, Settled, drive};
//! use lope_model::Value;
//!
//! let with = |text: &str| Template::new(parse(text).unwrap());
//! let mut orders = Definition::new("orders");
//! orders.root_mut().steps = vec![
//!     Step::action("price", "price", with("input")),
//!     Step::action("tax", "tax", with("price")),
//!     Step::new("bill", StepKind::Return { value: with("price + tax") }),
//! ];
//! let plan = Plan::new(&orders).unwrap();
//! let run = drive(&plan, vec![Value::Int(50)], |attempt| match &*attempt.action {
//!     "price" => Settled::Done(Value::Int(attempt.with.as_int().unwrap() * 2)),
//!     _ => Settled::Done(Value::Int(attempt.with.as_int().unwrap() / 5)),
//! });
//! assert_eq!(run.value(), Some(&Value::Int(120)));
//! ```

pub mod history;
pub mod law;

/// The law that this program writes. A change that would give other effects for an existing
/// definition and journal raises it; the old behaviour stays behind gates. A run keeps the law that
/// its first row names.
///
/// 1: the first. 2: a `send` that cannot be done fails its step; the step of a detached child is
/// done when the child is there. 3: only an attempt that was announced as begun counts as lost, and
/// one that is known not to have begun keeps its number.
///
/// What characters are (letters, case, white space) is part of every law so far as Unicode 17 has
/// it: `lope_values::unicode::VERSION`.
pub const LAW: u32 = 3;
