//! What `cargo xtask bench peers` can be asked for.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::roster::{PEERS, PeerWork};

const USAGE: &str = "usage: cargo xtask bench peers [--rounds N] [--scale PERCENT] [--peer NAME]... \
                     [--work NAME]... [--debug] [--drawn-from FILE]";
const ROUNDS: u64 = 3;
const SCALE: u64 = 100;

#[derive(Debug)]
pub(super) struct PeerOptions {
    pub(super) rounds: u64,
    /// Percent of the usual work.
    pub(super) scale: u64,
    /// Empty: all.
    peers: Vec<String>,
    works: Vec<String>,
    /// Programs are built quickly, to try them; their figures mean nothing.
    pub(super) is_debug: bool,
    /// Nothing is measured; the page is written from what was.
    pub(super) drawn_from: Option<PathBuf>,
}

impl PeerOptions {
    pub(super) fn read(arguments: &[String]) -> Result<Self> {
        let mut options = Self {
            rounds: ROUNDS,
            scale: SCALE,
            peers: Vec::new(),
            works: Vec::new(),
            is_debug: false,
            drawn_from: None,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            if word == "--debug" {
                options.is_debug = true;
                continue;
            }
            let value = words
                .next()
                .with_context(|| format!("{word} needs a value; {USAGE}"))?;
            let number = || {
                let number = value.parse::<u64>().ok().filter(|number| *number > 0);
                number.with_context(|| format!("{word} takes a number, not '{value}'"))
            };
            match word.as_str() {
                "--rounds" => options.rounds = number()?,
                "--scale" => options.scale = number()?,
                "--peer" => options.peers.push(known_peer(value)?),
                "--work" => options.works.push(known_work(value)?),
                "--drawn-from" => options.drawn_from = Some(value.into()),
                other => bail!("no option {other}; {USAGE}"),
            }
        }
        Ok(options)
    }

    /// Is this the measurement that the documents show?
    pub(super) fn is_whole(&self) -> bool {
        let is_all = self.peers.is_empty() && self.works.is_empty();
        is_all && !self.is_debug && self.rounds >= ROUNDS && self.scale >= SCALE
    }

    pub(super) fn wants_peer(&self, name: &str) -> bool {
        self.peers.is_empty() || self.peers.iter().any(|wanted| wanted == name)
    }

    pub(super) fn wants_work(&self, name: &str) -> bool {
        self.works.is_empty() || self.works.iter().any(|wanted| wanted == name)
    }
}

fn known_peer(name: &str) -> Result<String> {
    let names: Vec<&str> = PEERS.iter().map(|peer| peer.name).collect();
    let found = names.iter().find(|known| known.eq_ignore_ascii_case(name));
    let found =
        found.with_context(|| format!("no peer '{name}'; there are: {}", names.join(", ")))?;
    Ok((*found).to_owned())
}

fn known_work(name: &str) -> Result<String> {
    let names = PeerWork::ALL.map(PeerWork::name);
    if !names.contains(&name) {
        bail!("no work '{name}'; there are: {}", names.join(", "));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<PeerOptions> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        PeerOptions::read(&words)
    }

    #[test]
    fn only_a_whole_measurement_is_for_the_documents() {
        assert!(read(&[]).expect("no options").is_whole());
        for words in [
            &["--scale", "10"],
            &["--rounds", "1"],
            &["--peer", "dbos for rust"],
        ] {
            assert!(!read(words).expect("options").is_whole(), "{words:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let error = |words: &[&str]| read(words).expect_err("it is refused").to_string();
        assert!(error(&["--peer", "nobody"]).contains("DBOS for Rust"));
        assert!(error(&["--work", "x"]).contains("sequence"));
        assert!(error(&["--scale", "0"]).contains("takes a number"));
        assert!(error(&["--rounds"]).contains("needs a value"));
    }
}
