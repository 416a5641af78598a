//! Where the last prune stopped in the order of creation, and which workflow's runs it walked over.
//! Knows no SQL.

use uuid::Uuid;

/// A place in the order of creation.
pub(crate) type Position = (i64, Uuid);

pub(crate) const START: Position = (i64::MIN, Uuid::nil());

#[derive(Debug)]
pub(crate) struct PruneCursor {
    workflow: Option<String>,
    at: Position,
}

impl Default for PruneCursor {
    fn default() -> Self {
        Self {
            workflow: None,
            at: START,
        }
    }
}

impl PruneCursor {
    /// Where a walk over the runs of a workflow (or of all) goes on.
    pub(crate) fn position(&self, workflow: Option<&str>) -> Position {
        if self.workflow.as_deref() == workflow {
            self.at
        } else {
            START
        }
    }

    pub(crate) fn go_on(&mut self, workflow: Option<&str>, at: Position) {
        *self = Self {
            workflow: workflow.map(str::to_owned),
            at,
        };
    }
}
