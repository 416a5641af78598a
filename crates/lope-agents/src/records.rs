//! The rows of the board with their types. A record's fields are its table's columns, in order.

mod column;
mod words;

use std::collections::BTreeMap;

use lope_model::id::TaskId;
use lope_model::{Moment, RunId, RunnerId, Span, Timestamp};
use lope_store::board::{
    BoardChange, BoardTable, PROJECTS, RUNNERS, SECTIONS, TASK_ATTEMPTS, TASK_EVENTS, TASK_HOOKS,
    TASK_LOCKS, TASKS,
};
use lope_store::transfer::{TransferRow, TransferValue};
use lope_store::{StoreError, StoreResult};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use self::column::Column;
pub use self::column::JsonText;
pub use self::words::{
    AttemptRole, Author, ReviewBy, RunnerStatus, StopLevel, StopReason, TaskEventKind, TaskStatus,
};

/// A row of a table of the board.
pub trait BoardRecord: Sized {
    const TABLE: BoardTable;
    fn from_row(row: &TransferRow) -> StoreResult<Self>;
    fn to_row(&self) -> TransferRow;
    fn revision(&self) -> i64;
    fn set_revision(&mut self, revision: i64);

    /// A row that is not there yet.
    fn inserted(mut self) -> BoardChange {
        self.set_revision(1);
        BoardChange::Insert {
            table: Self::TABLE,
            row: self.to_row(),
        }
    }

    /// This row over the one that it was read as.
    fn updated(self) -> BoardChange {
        self.written(true)
    }

    /// The same, and nobody is woken: it is a sign of life.
    fn renewed(self) -> BoardChange {
        self.written(false)
    }

    fn written(mut self, wakes: bool) -> BoardChange {
        let over = self.revision();
        self.set_revision(over + 1);
        BoardChange::Update {
            table: Self::TABLE,
            row: self.to_row(),
            over,
            wakes,
        }
    }

    /// No such row any more.
    fn deleted(&self) -> BoardChange {
        let row = self.to_row();
        BoardChange::Delete {
            table: Self::TABLE,
            key: Self::TABLE.rows.key_of(&row).to_vec(),
            over: self.revision(),
        }
    }

    /// It is there as it was read.
    fn unchanged(&self) -> BoardChange {
        let row = self.to_row();
        BoardChange::Require {
            table: Self::TABLE,
            key: Self::TABLE.rows.key_of(&row).to_vec(),
            values: vec![("revision", TransferValue::Int(self.revision()))],
        }
    }
}

macro_rules! record {
    ($(#[$doc:meta])* $name:ident in $table:ident { $($field:ident: $kind:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug)]
        pub struct $name { $(pub $field: $kind,)* }

        impl BoardRecord for $name {
            const TABLE: BoardTable = $table;

            fn from_row(row: &TransferRow) -> StoreResult<Self> {
                let mut cells = row.iter().zip($table.rows.columns);
                $(let $field = {
                    let (cell, (column, _)) = cells.next().ok_or_else(|| StoreError::corrupt(
                        concat!("a row of the board has no ", stringify!($field))))?;
                    <$kind as Column>::read(cell).ok_or_else(|| {
                        StoreError::corrupt(format!("{}.{column} holds {cell:?}", $table.rows.name))
                    })?
                };)*
                Ok(Self { $($field,)* })
            }

            fn to_row(&self) -> TransferRow {
                vec![$(Column::write(&self.$field),)*]
            }

            fn revision(&self) -> i64 {
                self.revision
            }

            fn set_revision(&mut self, revision: i64) {
                self.revision = revision;
            }
        }

        #[cfg(test)]
        impl $name {
            const FIELDS: &'static [&'static str] = &[$(stringify!($field),)*];
        }
    };
}

record! {
    /// A folder whose tasks are worked on.
    ProjectRecord in PROJECTS {
        path: String,
        revision: i64,
        name: String,
        registered_at: Timestamp,
        last_seen_at: Timestamp,
        enabled: bool,
        settings: JsonText<BTreeMap<String, Json>>,
    }
}

record! {
    /// A part of a project's task list that was decided about.
    SectionRecord in SECTIONS {
        project_path: String,
        section_id: String,
        revision: i64,
        skipped: bool,
        decided_at: Timestamp,
    }
}

record! {
    /// A piece of work for an agent.
    TaskRecord in TASKS {
        id: TaskId,
        revision: i64,
        project_path: String,
        section_id: Option<String>,
        title: String,
        description: String,
        status: TaskStatus,
        priority: i64,
        dependencies: JsonText<Vec<TaskId>>,
        source_file: Option<String>,
        epoch: i64,
        attempts: i64,
        rejections: i64,
        interrupted: bool,
        not_before: Option<Timestamp>,
        reason: Option<String>,
        decided_by: Option<Author>,
        review: ReviewBy,
        budget: JsonText<Budget>,
        session: Option<String>,
        parent_id: Option<TaskId>,
        question: Option<String>,
        answer: Option<String>,
        result: Option<String>,
        created_at: Timestamp,
        updated_at: Timestamp,
        completed_at: Option<Timestamp>,
    }
}

record! {
    /// Who works on a task, and until when unless he renews it.
    TaskLockRecord in TASK_LOCKS {
        task_id: TaskId,
        revision: i64,
        project_path: String,
        section_id: Option<String>,
        runner_id: RunnerId,
        epoch: i64,
        acquired_at: Timestamp,
        expires_at: Timestamp,
        expires: Moment,
        boot_id: String,
    }
}

record! {
    /// One start of an agent for a task.
    TaskAttemptRecord in TASK_ATTEMPTS {
        task_id: TaskId,
        number: i64,
        revision: i64,
        project_path: String,
        role: AttemptRole,
        agent: String,
        runner_id: RunnerId,
        epoch: i64,
        run_id: Option<RunId>,
        execution: Option<String>,
        started_at: Timestamp,
        ended_at: Option<Timestamp>,
        stop_reason: Option<StopReason>,
        counted: bool,
        exit_code: Option<i64>,
        wall_ms: i64,
        cost_micros: i64,
        tokens: i64,
        session: Option<String>,
        summary: Option<String>,
        log: Option<String>,
        worktree: Option<String>,
    }
}

record! {
    /// What somebody said about a task.
    TaskEventRecord in TASK_EVENTS {
        task_id: TaskId,
        number: i64,
        revision: i64,
        at: Timestamp,
        kind: TaskEventKind,
        author: Author,
        message: String,
    }
}

record! {
    /// What a hook is to be told of a task.
    TaskHookRecord in TASK_HOOKS {
        task_id: TaskId,
        number: i64,
        hook: String,
        revision: i64,
        project_path: String,
        body: String,
        made_at: Timestamp,
        tries: i64,
        due_at: Timestamp,
    }
}

record! {
    /// A coordinator of agents: a process that works through a project's tasks.
    AgentRunnerRecord in RUNNERS {
        id: RunnerId,
        revision: i64,
        status: RunnerStatus,
        pid: Option<i64>,
        pid_started: String,
        boot_id: String,
        host: String,
        project_path: Option<String>,
        section_id: Option<String>,
        place: i64,
        current_task_id: Option<TaskId>,
        started_at: Timestamp,
        completed_at: Option<Timestamp>,
        heartbeat_at: Timestamp,
        beat: Moment,
        awake: i64,
        stop: Option<StopLevel>,
        error: Option<String>,
    }
}

/// Limits on what agents may use up; what is absent is not limited here.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
    /// Attempts that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    #[serde(alias = "wall_time", skip_serializing_if = "Option::is_none")]
    pub wall_time: Option<Span>,
    /// In dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl Budget {
    /// Can it be kept? A cost that is no amount, and no attempt at all, cannot.
    pub fn is_sound(&self) -> bool {
        let has_cost = self.cost.is_none_or(|cost| cost.is_finite() && cost >= 0.0);
        has_cost && self.attempts != Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(table: BoardTable) -> Vec<&'static str> {
        table.rows.columns.iter().map(|(name, _)| *name).collect()
    }

    #[test]
    fn fields_are_the_columns_of_their_tables() {
        assert_eq!(ProjectRecord::FIELDS, columns(PROJECTS));
        assert_eq!(SectionRecord::FIELDS, columns(SECTIONS));
        assert_eq!(TaskRecord::FIELDS, columns(TASKS));
        assert_eq!(TaskLockRecord::FIELDS, columns(TASK_LOCKS));
        assert_eq!(TaskAttemptRecord::FIELDS, columns(TASK_ATTEMPTS));
        assert_eq!(TaskEventRecord::FIELDS, columns(TASK_EVENTS));
        assert_eq!(TaskHookRecord::FIELDS, columns(TASK_HOOKS));
        assert_eq!(AgentRunnerRecord::FIELDS, columns(RUNNERS));
    }
}
