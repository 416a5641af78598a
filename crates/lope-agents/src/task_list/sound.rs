//! Whether the tasks of a list go together: each id stands once, and none waits for itself.

use std::collections::BTreeMap;

use lope_model::id::TaskId;

use super::{BadTaskList, ListedTask};
use crate::law::waiting::dependencies_first;

/// The tasks of a list, if they go together.
pub(super) fn sound(listed: Vec<ListedTask>) -> Result<Vec<ListedTask>, BadTaskList> {
    let mut lines: BTreeMap<TaskId, usize> = BTreeMap::new();
    for task in &listed {
        let Some(id) = task.id else { continue };
        if let Some(first) = lines.insert(id, task.line) {
            let message = format!("task {id} stands in line {first} already");
            return Err(bad(task.line, message));
        }
    }
    let waits = listed.iter();
    let waits = waits.filter_map(|task| Some((task.id?, &task.dependencies[..])));
    match dependencies_first(&waits.collect::<Vec<_>>()) {
        Ok(_) => Ok(listed),
        Err(circle) => {
            let first = circle.0.first().and_then(|id| lines.get(id));
            Err(bad(first.copied().unwrap_or(1), circle.to_string()))
        }
    }
}

fn bad(line: usize, message: String) -> BadTaskList {
    BadTaskList { line, message }
}
