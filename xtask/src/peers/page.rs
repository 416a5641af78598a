//! The page of benchmarks: for each work a picture and a table, with versions, the machine, how each
//! peer keeps what it acknowledges and what cannot be compared. In: the middle of all rounds; out: the
//! files of the page. Whoever wins a column has it in bold, peers too.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::measured::{Measured, middle};
use super::plot::{self, PlotPanel};
use super::results::PeerResults;
use super::roster::{PEERS, PeerEntry, PeerWork};

const OURS: &str = "Lope";
const DOCUMENT: &str = "benchmarks.md";
const PICTURES: &str = "benchmarks";

/// Writes the page and its pictures into a folder; answers with where the page is.
pub(super) fn write(results: &PeerResults, folder: &Path) -> Result<PathBuf> {
    let pictures = folder.join(PICTURES);
    std::fs::create_dir_all(&pictures).context("no folder for the pictures")?;
    let mut text = introduction(results);
    for work in PeerWork::ALL {
        let Some(table) = WorkTable::of(work, results) else {
            continue;
        };
        let file = format!("{}.svg", work.name());
        std::fs::write(pictures.join(&file), table.picture())?;
        text.push_str(&format!("\n## {}\n\n", work.title()));
        text.push_str(&format!("![{}]({PICTURES}/{file})\n\n", work.title()));
        text.push_str(&table.markdown());
    }
    text.push_str(&who(results));
    let page = folder.join(DOCUMENT);
    std::fs::write(&page, text)?;
    Ok(page)
}

fn introduction(results: &PeerResults) -> String {
    let rounds = results.rounds;
    format!(
        "# Benchmarks beside others\n\n\
         `cargo xtask bench peers` wrote this page. It installs published packages into a scratch folder, lets every engine do the same work on\n\
         the same machine and the same Postgres server in turns, and takes the middle of {rounds} rounds. The best of each column is bold, whoever it is.\n\n\
         - Machine: {} cores, {} GB of memory; Postgres {} on it, with `fsync`, `synchronous_commit` and `full_page_writes` on.\n\
         - The steps do nothing, so that what is left is the engine and its store. Real work is mostly longer than any of these times.\n\
         - CPU is that of the program, of a server of its own and of Postgres together, for one unit. Memory is the most that the program and its own\n  \
           server ever had; Postgres is not in it. Log is what Postgres wrote into its WAL; for those that keep files, the bytes written to them.\n\
         - How many units a turn has follows how fast a peer is, so that each takes some seconds; every turn begins with an empty store and a new process.\n\
         - `cargo xtask bench peers --scale 10 --rounds 1` tries it small and leaves this page alone.\n",
        results.cores, results.memory_gigabytes, results.postgres
    )
}

fn who(results: &PeerResults) -> String {
    let mut text = String::from(
        "\n## Who is who, and what cannot be compared\n\n| engine | packages | how it keeps what it acknowledges | to know |\n|---|---|---|---|\n",
    );
    for peer in PEERS {
        if let Some(versions) = results.versions(peer.name) {
            let durability = peer.durability;
            let remark = peer.remark;
            text.push_str(&format!(
                "| {} | {versions} | {durability} | {remark} |\n",
                peer.name
            ));
        }
    }
    if !results.left_out.is_empty() {
        text.push_str("\nLeft out:\n\n");
        for (name, why) in &results.left_out {
            text.push_str(&format!("- {name}: {why}.\n"));
        }
    }
    text
}

/// A work as a table: a row for each peer that did it, a column for each quantity.
struct WorkTable {
    work: PeerWork,
    rows: Vec<&'static PeerEntry>,
    columns: Vec<PlotPanel>,
    /// How many of the columns are drawn.
    drawn: usize,
}

impl WorkTable {
    fn of(work: PeerWork, results: &PeerResults) -> Option<Self> {
        let found = |peer: &'static PeerEntry| {
            Some((peer, middle(&results.turns, peer.name, work.name())?))
        };
        let known: Vec<(&PeerEntry, Measured)> = PEERS.iter().filter_map(found).collect();
        if known.is_empty() {
            return None;
        }
        let columns = columns(work).into_iter().map(|column| column.over(&known));
        Some(Self {
            work,
            rows: known.iter().map(|(peer, _)| *peer).collect(),
            columns: columns.collect(),
            drawn: 2,
        })
    }

    fn picture(&self) -> String {
        let names: Vec<&str> = self.rows.iter().map(|peer| peer.name).collect();
        let drawn = &self.columns[..self.drawn.min(self.columns.len())];
        plot::draw(self.work.title(), OURS, &names, drawn)
    }

    fn markdown(&self) -> String {
        let headings: Vec<&str> = self.columns.iter().map(|column| &*column.heading).collect();
        let mut text = format!("| engine | {} |\n", headings.join(" | "));
        text.push_str(&format!("|---|{}\n", "---:|".repeat(headings.len())));
        let best: Vec<Option<usize>> = self.columns.iter().map(plot::best).collect();
        for (row, peer) in self.rows.iter().enumerate() {
            let cells =
                self.columns
                    .iter()
                    .zip(&best)
                    .map(|(column, best)| match &column.bars[row] {
                        Some((_, label)) if *best == Some(row) => format!("**{label}**"),
                        Some((_, label)) => label.clone(),
                        None => "–".to_owned(),
                    });
            let cells: Vec<String> = cells.collect();
            text.push_str(&format!("| {} | {} |\n", peer.name, cells.join(" | ")));
        }
        text
    }
}

/// A quantity, how it is called, and how it is written.
struct PageColumn {
    heading: String,
    is_more_better: bool,
    value: fn(&Measured) -> Option<f64>,
    label: fn(f64) -> String,
}

impl PageColumn {
    fn less(heading: &str, value: fn(&Measured) -> Option<f64>, label: fn(f64) -> String) -> Self {
        Self {
            heading: heading.to_owned(),
            is_more_better: false,
            value,
            label,
        }
    }

    fn over(self, rows: &[(&PeerEntry, Measured)]) -> PlotPanel {
        let bar = |(_, turn): &(&PeerEntry, Measured)| {
            let value = (self.value)(turn)?;
            Some((value, (self.label)(value)))
        };
        PlotPanel {
            heading: self.heading.clone(),
            is_more_better: self.is_more_better,
            bars: rows.iter().map(bar).collect(),
        }
    }
}

fn columns(work: PeerWork) -> Vec<PageColumn> {
    let unit = work.unit();
    let memory = || PageColumn::less("memory", |turn| Some(turn.memory as f64), megabytes);
    let cpu = || {
        PageColumn::less(
            &format!("CPU for a {unit}"),
            |turn| Some(turn.cpu_micros()),
            micros,
        )
    };
    let log = || {
        PageColumn::less(
            &format!("log for a {unit}"),
            |turn| Some(turn.log_bytes()),
            bytes,
        )
    };
    match work {
        PeerWork::Runs | PeerWork::Sequence | PeerWork::Sequences | PeerWork::Fan => {
            let rate = PageColumn {
                heading: format!("{unit}s a second"),
                is_more_better: true,
                value: |turn| Some(turn.per_second()),
                label: count,
            };
            vec![rate, cpu(), memory(), log()]
        }
        PeerWork::Latency => vec![
            PageColumn::less("half within", |turn| turn.time_at(0.5), millis),
            PageColumn::less("99 of 100 within", |turn| turn.time_at(0.99), millis),
            cpu(),
            log(),
        ],
        PeerWork::Idle => vec![
            PageColumn::less("of one core", |turn| Some(turn.of_a_core()), percent),
            memory(),
            log(),
        ],
        PeerWork::Resume => vec![
            PageColumn::less("goes on after", |turn| Some(turn.wall), seconds),
            PageColumn::less(
                "steps done again",
                |turn| turn.repeated.map(|steps| steps as f64),
                count,
            ),
        ],
    }
}

fn count(value: f64) -> String {
    grouped(value.round() as u64)
}

/// A number with commas between its thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn micros(value: f64) -> String {
    format!("{} µs", count(value))
}

fn millis(value: f64) -> String {
    format!("{value:.2} ms")
}

fn seconds(value: f64) -> String {
    format!("{value:.2} s")
}

fn percent(value: f64) -> String {
    format!("{value:.2} %")
}

fn megabytes(value: f64) -> String {
    format!("{:.0} MB", value / 1e6)
}

fn bytes(value: f64) -> String {
    format!("{} B", count(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> PeerResults {
        let turn = |peer: &str, wall: f64| Measured {
            peer: peer.into(),
            work: "runs".into(),
            units: 10_000,
            wall,
            ..Measured::default()
        };
        PeerResults {
            rounds: 3,
            cores: 2,
            turns: vec![turn("Lope", 2.0), turn("DBOS for Rust", 1.0)],
            packages: vec![("Lope".into(), "this project".into())],
            left_out: vec![("Temporal".into(), "not to be had".into())],
            ..PeerResults::default()
        }
    }

    #[test]
    fn a_peer_that_wins_is_shown_winning() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let page = write(&results(), folder.path()).expect("it is written");
        let text = std::fs::read_to_string(page).expect("it is there");
        assert!(text.contains("| DBOS for Rust | **10,000** |"), "{text}");
        assert!(text.contains("| Lope | 5,000 |"), "{text}");
        assert!(text.contains("- Temporal: not to be had."), "{text}");
        assert!(folder.path().join("benchmarks/runs.svg").exists());
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([grouped(7), grouped(1_234_567)], ["7", "1,234,567"]);
    }
}
