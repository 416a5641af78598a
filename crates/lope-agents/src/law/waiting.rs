//! In which order tasks that wait for one another are added.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use lope_model::id::TaskId;

/// Tasks of which each waits for the next one, and the last for the first; one that waits for itself at
/// once is alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitingCircle(pub Vec<TaskId>);

impl fmt::Display for WaitingCircle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, others)) = self.0.split_first() else {
            return f.write_str("a task waits for itself");
        };
        write!(f, "task {first} waits for itself")?;
        for (place, other) in others.iter().enumerate() {
            let before = if place == 0 { ", through" } else { "," };
            write!(f, "{before} {other}")?;
        }
        Ok(())
    }
}

/// The places of tasks, each with what it waits for: those that others wait for first, and else as they
/// stand; or some that wait for themselves. Dependencies that are not among them are no concern here.
pub fn dependencies_first(tasks: &[(TaskId, &[TaskId])]) -> Result<Vec<usize>, WaitingCircle> {
    let ids = tasks.iter().enumerate();
    let places: BTreeMap<TaskId, usize> = ids.map(|(place, (id, _))| (*id, place)).collect();
    let mut open = vec![0_usize; tasks.len()];
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    for (place, (_, needs)) in tasks.iter().enumerate() {
        for needed in needs.iter().filter_map(|id| places.get(id)) {
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
        Some(place) => {
            let next = |place: usize| {
                let mut needs = tasks[place].1.iter().filter_map(|id| places.get(id));
                needs.find(|needed| open[**needed] > 0).copied()
            };
            Err(WaitingCircle(circle_from(place, next, tasks)))
        }
    }
}

/// Where the way from one task to the next comes back to where it was.
fn circle_from(
    from: usize,
    next: impl Fn(usize) -> Option<usize>,
    tasks: &[(TaskId, &[TaskId])],
) -> Vec<TaskId> {
    let mut way: Vec<usize> = Vec::new();
    let mut at = Some(from);
    while let Some(place) = at {
        if let Some(begun) = way.iter().position(|seen| *seen == place) {
            way.drain(..begun);
            break;
        }
        way.push(place);
        at = next(place);
    }
    way.into_iter().map(|place| tasks[place].0).collect()
}
