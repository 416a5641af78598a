//! In which order tasks that wait for one another are added.

use std::collections::{BTreeMap, BTreeSet};

use lope_model::id::TaskId;

use crate::records::TaskRecord;

/// The places of tasks, those that others wait for first and else as they stand; or one that waits for
/// itself, through others or at once. Dependencies that are not among them are no concern here.
pub fn dependencies_first(tasks: &[TaskRecord]) -> Result<Vec<usize>, TaskId> {
    let ids = tasks.iter().enumerate();
    let places: BTreeMap<TaskId, usize> = ids.map(|(place, task)| (task.id, place)).collect();
    let mut open = vec![0_usize; tasks.len()];
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    for (place, task) in tasks.iter().enumerate() {
        for needed in task.dependencies.iter().filter_map(|id| places.get(id)) {
            open[place] += 1;
            waiting[*needed].push(place);
        }
    }
    let mut free: BTreeSet<usize> = (0..tasks.len()).filter(|place| open[*place] == 0).collect();
    let mut order = Vec::with_capacity(tasks.len());
    while let Some(place) = free.pop_first() {
        order.push(place);
        for next in &waiting[place] {
            open[*next] -= 1;
            if open[*next] == 0 {
                free.insert(*next);
            }
        }
    }
    match open.iter().position(|left| *left > 0) {
        None => Ok(order),
        Some(place) => Err(tasks[place].id),
    }
}
