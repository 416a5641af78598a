//! What a process and all below it have used so far: time on processors, memory at most, bytes written
//! to storage. In: the number of a process; out: sums over its tree, read from `/proc`.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

/// The unit of the times in `/proc/PID/stat`, which is the same on every Linux that people use.
const TICK: Duration = Duration::from_millis(10);

/// Sums over a tree of processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TreeUse {
    pub(super) cpu: Duration,
    /// The most that each process ever had in memory.
    pub(super) memory: u64,
    pub(super) written: u64,
}

impl AddAssign for TreeUse {
    fn add_assign(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.memory += other.memory;
        self.written += other.written;
    }
}

pub(super) fn read_tree(root: u32) -> TreeUse {
    let parents = parents();
    let mut sum = TreeUse::default();
    for process in parents
        .keys()
        .filter(|process| is_below(**process, root, &parents))
    {
        sum += read_process(*process);
    }
    sum
}

fn parents() -> BTreeMap<u32, u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers
        .filter_map(|process| Some((process, stat(process)?.parent)))
        .collect()
}

fn is_below(process: u32, root: u32, parents: &BTreeMap<u32, u32>) -> bool {
    let mut process = Some(process);
    while let Some(number) = process {
        if number == root {
            return true;
        }
        process = parents.get(&number).copied();
    }
    false
}

struct ProcessStat {
    parent: u32,
    /// Of all its threads, and of its children that have ended.
    own: Duration,
    children: Duration,
}

fn stat(process: u32) -> Option<ProcessStat> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    parse_stat(&text)
}

fn parse_stat(text: &str) -> Option<ProcessStat> {
    // The name in parentheses may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| Some(TICK * fields.get(index)?.parse::<u32>().ok()?);
    Some(ProcessStat {
        parent: fields.get(1)?.parse().ok()?,
        own: ticks(11)? + ticks(12)?,
        children: ticks(13)? + ticks(14)?,
    })
}

fn read_process(process: u32) -> TreeUse {
    let Some(stat) = stat(process) else {
        return TreeUse::default();
    };
    TreeUse {
        // The scheduler counts finer, but only threads that are alive.
        cpu: stat.own.max(scheduled(process)) + stat.children,
        memory: field(process, "status", "VmHWM:").unwrap_or(0) * 1_024,
        written: field(process, "io", "write_bytes:").unwrap_or(0),
    }
}

fn scheduled(process: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    let times = tasks.into_iter().flatten().flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(times.sum())
}

/// The number behind a name in one of the files of a process.
fn field(process: u32, file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/{file}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_a_process_and_all_below_it() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 3), (5, 1)]);
        let below: Vec<u32> = [2, 3, 4, 5]
            .into_iter()
            .filter(|process| is_below(*process, 2, &parents))
            .collect();
        assert_eq!(below, [2, 3, 4]);
    }

    #[test]
    fn times_are_read_behind_any_name() {
        let text = "7 (a ) b) S 3 7 7 0 -1 0 1 2 3 4 150 50 10 5 20 0 1";
        let stat = parse_stat(text).expect("it is a line of stat");
        assert_eq!(stat.parent, 3);
        assert_eq!(stat.own, Duration::from_secs(2));
        assert_eq!(stat.children, Duration::from_millis(150));
    }

    #[test]
    fn our_own_process_is_found() {
        let own = read_tree(std::process::id());
        assert!(own.memory > 0, "{own:?}");
    }
}
