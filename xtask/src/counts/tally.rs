//! Counts of instructions by name: read, written, and held against earlier ones.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

/// What counts as growth.
pub(super) const GROWTH_PERCENT: u64 = 3;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CountTally(Vec<(String, u64)>);

impl CountTally {
    pub(super) fn add(&mut self, name: &str, instructions: u64) {
        self.0.push((name.to_owned(), instructions));
    }

    /// What was counted before; nothing, if nobody has.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let Ok(text) = std::fs::read(file) else {
            return Ok(Self::default());
        };
        let counts: Map<String, Value> = serde_json::from_slice(&text)
            .with_context(|| format!("{} is no file of counts", file.display()))?;
        let counts = counts.into_iter();
        Ok(Self(
            counts
                .filter_map(|(name, count)| Some((name, count.as_u64()?)))
                .collect(),
        ))
    }

    pub(super) fn write(&self, file: &Path) -> Result<()> {
        let counts: Map<String, Value> = self
            .0
            .iter()
            .map(|(name, count)| (name.clone(), Value::from(*count)))
            .collect();
        let text = serde_json::to_string_pretty(&counts)? + "\n";
        std::fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))
    }

    /// The names whose count grew too much.
    pub(super) fn grown_from(&self, before: &Self) -> Vec<String> {
        let grew = |(name, count): &&(String, u64)| {
            let limit = |before: u64| before + before * GROWTH_PERCENT / 100;
            before.of(name).is_some_and(|before| *count > limit(before))
        };
        let grown = self.0.iter().filter(grew);
        grown.map(|(name, _)| name.clone()).collect()
    }

    /// A line for each, with how it changed.
    pub(super) fn beside(&self, before: &Self) -> String {
        let lines = self.0.iter().map(|(name, count)| {
            let change = before
                .of(name)
                .map_or("not counted before".to_owned(), |before| {
                    let percent = (*count as f64 / before.max(1) as f64 - 1.0) * 100.0;
                    format!("{percent:+.1} % from {before}")
                });
            format!("{name:<10} {count:>9} instructions a unit   {change}\n")
        });
        lines.collect()
    }

    /// How much of the first is not in the second, in percent; all of it if one was not counted.
    pub(super) fn share_beyond(&self, whole: &str, part: &str) -> f64 {
        let counts = self.of(whole).zip(self.of(part));
        counts.map_or(100.0, |(whole, part)| {
            whole.saturating_sub(part) as f64 * 100.0 / whole.max(1) as f64
        })
    }

    fn of(&self, name: &str) -> Option<u64> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, count)| *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(law: u64, shard: u64) -> CountTally {
        CountTally(vec![("law".into(), law), ("shard".into(), shard)])
    }

    #[test]
    fn what_grew_by_more_than_three_percent_is_named() {
        let before = tally(1_000, 1_000);
        assert_eq!(tally(1_030, 1_031).grown_from(&before), ["shard"]);
        assert!(tally(1_000, 500).grown_from(&before).is_empty());
        assert!(tally(9, 9).grown_from(&CountTally::default()).is_empty());
    }

    #[test]
    fn what_one_has_beyond_another_is_a_share_of_it() {
        assert!((tally(900, 1_000).share_beyond("shard", "law") - 10.0).abs() < 1e-9);
        assert!((tally(1, 1).share_beyond("shard", "nothing") - 100.0).abs() < 1e-9);
    }

    #[test]
    fn counts_are_kept() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("counts.json");
        assert_eq!(
            CountTally::read(&file).expect("no file"),
            CountTally::default()
        );
        tally(1, 2).write(&file).expect("it is written");
        assert_eq!(CountTally::read(&file).expect("it is read"), tally(1, 2));
    }
}
