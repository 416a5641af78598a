//! What values mean: operators, comparison, text forms and patterns, as text expressions (CEL) have
//! them.
//!
//! Values and [`Fuel`] flow in, a value or an [`EvalError`] flows out. Pure and the same on every
//! machine: no clock, no locale, no mathematics library; whatever grows with its input draws on the
//! fuel. Nothing here knows of trees, names or functions.

pub mod arithmetic;
pub mod compare;
pub mod number;
pub mod pattern;
pub mod select;
pub mod sort;
pub mod text;
pub mod unicode;

mod error;
mod fuel;
mod location;
mod nearest;
mod operator;

pub use error::{ErrorKind, EvalError};
pub use fuel::{ELEMENT_BYTES, Fuel};
pub use location::TextLocation;
pub use nearest::nearest;
pub use operator::{Binary, EachKind, Logic, Unary};
