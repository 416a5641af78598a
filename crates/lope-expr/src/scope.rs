//! Where names get their values. Values are lent, never copied.

use lope_model::{Map, Value};

/// Names with values, as an evaluation sees them.
pub trait Scope {
    fn lookup(&self, name: &str) -> Option<&Value>;

    /// The value of a name that `Expr::resolve` gave a slot. A scope that hands out slots answers
    /// here.
    fn slot(&self, slot: u32) -> Option<&Value> {
        let _ = slot;
        None
    }
}

/// The scope without names.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNames;

impl Scope for NoNames {
    fn lookup(&self, _: &str) -> Option<&Value> {
        None
    }
}

impl Scope for Map {
    fn lookup(&self, name: &str) -> Option<&Value> {
        self.get(name)
    }
}
