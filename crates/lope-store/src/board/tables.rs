//! The tables of the board: their columns, their keys, and what may be there only once.

use crate::row::ColumnType::{Int, Text};
use crate::row::TransferTable;

/// A table of the board. A column `revision` stands right behind the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoardTable {
    pub rows: TransferTable,
    pub unique: &'static [BoardIndex],
}

/// Columns that no two rows have alike; a row in which one of them is null is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoardIndex {
    pub columns: &'static [&'static str],
    /// Only rows in which this column has one of these texts.
    pub when: Option<(&'static str, &'static [&'static str])>,
}

/// Every table of the board.
pub const ALL: [BoardTable; 8] = [
    PROJECTS,
    SECTIONS,
    TASKS,
    TASK_LOCKS,
    TASK_ATTEMPTS,
    TASK_EVENTS,
    TASK_HOOKS,
    RUNNERS,
];

/// A folder whose tasks are worked on.
pub const PROJECTS: BoardTable = BoardTable {
    rows: TransferTable {
        name: "projects",
        columns: &[
            ("path", Text),
            ("revision", Int),
            ("name", Text),
            ("registered_at", Text),
            ("last_seen_at", Text),
            ("enabled", Int),
            ("settings", Text),
        ],
        key: 1,
    },
    unique: &[],
};

/// A part of a projects task list that was decided about.
pub const SECTIONS: BoardTable = BoardTable {
    rows: TransferTable {
        name: "sections",
        columns: &[
            ("project_path", Text),
            ("section_id", Text),
            ("revision", Int),
            ("skipped", Int),
            ("decided_at", Text),
        ],
        key: 2,
    },
    unique: &[],
};

/// A piece of work for an agent.
pub const TASKS: BoardTable = BoardTable {
    rows: TransferTable {
        name: "tasks",
        columns: &[
            ("id", Text),
            ("revision", Int),
            ("project_path", Text),
            ("section_id", Text),
            ("title", Text),
            ("description", Text),
            ("status", Text),
            ("priority", Int),
            ("dependencies", Text),
            ("source_file", Text),
            ("epoch", Int),
            ("attempts", Int),
            ("rejections", Int),
            ("interrupted", Int),
            ("not_before", Text),
            ("reason", Text),
            ("decided_by", Text),
            ("review", Text),
            ("budget", Text),
            ("session", Text),
            ("parent_id", Text),
            ("question", Text),
            ("answer", Text),
            ("result", Text),
            ("created_at", Text),
            ("updated_at", Text),
            ("completed_at", Text),
        ],
        key: 1,
    },
    unique: &[],
};

/// A task somebody works on; gone when it is released.
pub const TASK_LOCKS: BoardTable = BoardTable {
    rows: TransferTable {
        name: "task_locks",
        columns: &[
            ("task_id", Text),
            ("revision", Int),
            ("project_path", Text),
            ("section_id", Text),
            ("runner_id", Text),
            ("epoch", Int),
            ("acquired_at", Text),
            ("expires_at", Text),
            ("expires", Int),
            ("boot_id", Text),
        ],
        key: 1,
    },
    unique: &[BoardIndex {
        columns: &["project_path", "section_id"],
        when: None,
    }],
};

/// One start of an agent for a task.
pub const TASK_ATTEMPTS: BoardTable = BoardTable {
    rows: TransferTable {
        name: "task_attempts",
        columns: &[
            ("task_id", Text),
            ("number", Int),
            ("revision", Int),
            ("project_path", Text),
            ("role", Text),
            ("agent", Text),
            ("runner_id", Text),
            ("epoch", Int),
            ("run_id", Text),
            ("execution", Text),
            ("started_at", Text),
            ("ended_at", Text),
            ("stop_reason", Text),
            ("counted", Int),
            ("exit_code", Int),
            ("wall_ms", Int),
            ("cost_micros", Int),
            ("tokens", Int),
            ("session", Text),
            ("summary", Text),
            ("log", Text),
            ("worktree", Text),
        ],
        key: 2,
    },
    unique: &[],
};

/// What people and programs said about a task.
pub const TASK_EVENTS: BoardTable = BoardTable {
    rows: TransferTable {
        name: "task_events",
        columns: &[
            ("task_id", Text),
            ("number", Int),
            ("revision", Int),
            ("at", Text),
            ("kind", Text),
            ("author", Text),
            ("message", Text),
        ],
        key: 2,
    },
    unique: &[],
};

/// What a hook is to be told of a task; gone when it was told.
pub const TASK_HOOKS: BoardTable = BoardTable {
    rows: TransferTable {
        name: "task_hooks",
        columns: &[
            ("task_id", Text),
            ("number", Int),
            ("hook", Text),
            ("revision", Int),
            ("project_path", Text),
            ("body", Text),
            ("made_at", Text),
            ("tries", Int),
            ("due_at", Text),
        ],
        key: 3,
    },
    unique: &[],
};

/// A coordinator of agents: a process that works through a projects tasks.
pub const RUNNERS: BoardTable = BoardTable {
    rows: TransferTable {
        name: "runners",
        columns: &[
            ("id", Text),
            ("revision", Int),
            ("status", Text),
            ("pid", Int),
            ("pid_started", Text),
            ("boot_id", Text),
            ("host", Text),
            ("project_path", Text),
            ("section_id", Text),
            ("place", Int),
            ("current_task_id", Text),
            ("started_at", Text),
            ("completed_at", Text),
            ("heartbeat_at", Text),
            ("beat", Int),
            ("awake", Int),
            ("stop", Text),
            ("error", Text),
        ],
        key: 1,
    },
    unique: &[
        BoardIndex {
            columns: &["project_path", "place"],
            when: Some(("status", &["idle", "running"])),
        },
        BoardIndex {
            columns: &["project_path", "section_id"],
            when: Some(("status", &["idle", "running"])),
        },
    ],
};

impl BoardTable {
    /// The place of a column. Columns are named by programs, so it is there.
    pub fn column_index(&self, column: &str) -> usize {
        self.rows
            .column_index(column)
            .unwrap_or_else(|| unreachable!("{} has no column {column}", self.rows.name))
    }

    /// Where the revision stands.
    pub const fn revision(&self) -> usize {
        self.rows.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_stands_behind_every_key_and_rules_name_columns() {
        for table in ALL {
            assert_eq!(table.rows.columns[table.revision()].0, "revision");
            for index in table.unique {
                let named = index.columns.iter().copied();
                let places = named.chain(index.when.map(|(column, _)| column));
                places.for_each(|column| assert!(table.column_index(column) > 0, "{column}"));
            }
        }
    }
}
