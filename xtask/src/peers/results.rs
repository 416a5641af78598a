//! All that a measurement found, kept as one file, so that its page can be written again.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::measured::Measured;

#[derive(Debug, Default)]
pub(super) struct PeerResults {
    pub(super) rounds: u64,
    pub(super) cores: u64,
    pub(super) memory_gigabytes: u64,
    pub(super) postgres: String,
    /// Each peer with the packages that it was made of.
    pub(super) packages: Vec<(String, String)>,
    /// Each that was not measured, with the reason.
    pub(super) left_out: Vec<(String, String)>,
    pub(super) turns: Vec<Measured>,
}

impl PeerResults {
    pub(super) fn versions(&self, peer: &str) -> Option<&str> {
        let found = self.packages.iter().find(|(name, _)| name == peer);
        found.map(|(_, versions)| versions.as_str())
    }

    pub(super) fn write(&self, file: &Path) -> Result<()> {
        let turns: Vec<Value> = self.turns.iter().map(Measured::json).collect();
        let value = json!({
            "rounds": self.rounds,
            "cores": self.cores,
            "memory_gigabytes": self.memory_gigabytes,
            "postgres": self.postgres,
            "packages": self.packages,
            "left_out": self.left_out,
            "turns": turns,
        });
        let text = serde_json::to_string_pretty(&value)?;
        std::fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))
    }

    pub(super) fn read(file: &Path) -> Result<Self> {
        let text =
            std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
        let value: Value = serde_json::from_slice(&text)?;
        let count = |name: &str| value[name].as_u64().unwrap_or_default();
        let turns = value["turns"].as_array().into_iter().flatten();
        Ok(Self {
            rounds: count("rounds"),
            cores: count("cores"),
            memory_gigabytes: count("memory_gigabytes"),
            postgres: value["postgres"].as_str().unwrap_or_default().to_owned(),
            packages: pairs(&value["packages"]),
            left_out: pairs(&value["left_out"]),
            turns: turns.map(Measured::read).collect::<Result<_>>()?,
        })
    }
}

fn pairs(value: &Value) -> Vec<(String, String)> {
    let pairs = value.as_array().into_iter().flatten();
    let word = |pair: &Value, index: usize| pair[index].as_str().map(ToOwned::to_owned);
    pairs
        .filter_map(|pair| Some((word(pair, 0)?, word(pair, 1)?)))
        .collect()
}
