//! `cargo xtask bench peers`: Lope and other engines for durable work, side by side. In: options; out:
//! a page with tables and pictures, and what was measured as JSON. A whole measurement writes
//! `docs/benchmarks.md`; a part of one, or a small one, a page under the target folder.

mod conversation;
mod database;
mod install;
mod measured;
mod meter;
mod options;
mod page;
mod plot;
mod results;
mod roster;
mod turn;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

use self::database::PeerServer;
use self::install::{PeerProgram, Workshop};
use self::measured::Measured;
use self::options::PeerOptions;
use self::results::PeerResults;
use self::roster::{PEERS, PeerEntry, PeerWork};
use self::turn::Turn;
use crate::needs::{self, Setting};
use crate::tree;

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = PeerOptions::read(arguments)?;
    let root = tree::root()?;
    let scratch = needs::target(&root).join("peers");
    let results = match &options.drawn_from {
        Some(file) => PeerResults::read(file)?,
        None => measure(&options, &root, &scratch)?,
    };
    let folder = if options.is_whole() {
        root.join("docs")
    } else {
        scratch.join("page")
    };
    let page = page::write(&results, &folder)?;
    println!("\n{}", std::fs::read_to_string(&page)?);
    println!("written: {}", page.display());
    Ok(ExitCode::SUCCESS)
}

fn measure(options: &PeerOptions, root: &Path, scratch: &Path) -> Result<PeerResults> {
    let workshop = Workshop {
        root,
        scratch: scratch.to_path_buf(),
        profile: if options.is_debug {
            &[]
        } else {
            &["--release"]
        },
    };
    let mut results = PeerResults {
        rounds: options.rounds,
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
        memory_gigabytes: memory_gigabytes(),
        ..PeerResults::default()
    };
    let programs = programs(options, &workshop, &mut results);
    let mut setting = Setting::bare()?;
    setting.add_postgres()?;
    let server = PeerServer::of(&setting)?;
    results.postgres = server.version()?;
    let bench = PeerBench {
        options,
        setting: &setting,
        server: &server,
        folder: scratch.join("turn"),
    };
    for round in 0..options.rounds {
        bench.round(round, &programs, &mut results);
        // After every round: a measurement that is broken off has not been in vain.
        results.write(&scratch.join("results.json"))?;
    }
    Ok(results)
}

type PeerPrograms = Vec<(&'static PeerEntry, PeerProgram)>;

fn programs(
    options: &PeerOptions,
    workshop: &Workshop<'_>,
    results: &mut PeerResults,
) -> PeerPrograms {
    let mut programs = PeerPrograms::new();
    for peer in PEERS.iter().filter(|peer| options.wants_peer(peer.name)) {
        println!("{}: making its program", peer.name);
        match workshop.make(peer) {
            Ok(program) => {
                let versions = program.versions.clone();
                results.packages.push((peer.name.to_owned(), versions));
                programs.push((peer, program));
            }
            Err(error) => leave_out(results, peer.name, &format!("{error:#}")),
        }
    }
    programs
}

fn leave_out(results: &mut PeerResults, name: &str, why: &str) {
    println!("{name} is left out: {why}");
    results.left_out.push((name.to_owned(), why.to_owned()));
}

struct PeerBench<'all> {
    options: &'all PeerOptions,
    setting: &'all Setting,
    server: &'all PeerServer,
    folder: PathBuf,
}

impl PeerBench<'_> {
    /// Every work by every peer; who begins changes from round to round.
    fn round(&self, round: u64, programs: &PeerPrograms, results: &mut PeerResults) {
        let wanted = |work: &PeerWork| self.options.wants_work(work.name());
        for work in PeerWork::ALL.into_iter().filter(wanted) {
            for index in 0..programs.len() {
                let (peer, program) = &programs[(index + round as usize) % programs.len()];
                if !peer.does(work) {
                    continue;
                }
                match self
                    .turn(peer, program)
                    .take(work, peer.units(work, self.options.scale))
                {
                    Ok(measured) => {
                        println!("{}", told(round, work, &measured));
                        results.turns.push(measured);
                    }
                    Err(error) => {
                        let name = format!("{}, {}", peer.name, work.name());
                        leave_out(results, &name, &format!("{error:#}"));
                    }
                }
            }
        }
    }

    fn turn<'turn>(
        &'turn self,
        peer: &'turn PeerEntry,
        program: &'turn PeerProgram,
    ) -> Turn<'turn> {
        Turn {
            peer,
            program,
            server: self.server,
            sweeper: &self.setting.sweeper,
            folder: self.folder.clone(),
        }
    }
}

fn told(round: u64, work: PeerWork, turn: &Measured) -> String {
    let number = round + 1;
    let name = format!("{number}. {:<10} {:<20}", work.name(), turn.peer);
    if let Some(repeated) = turn.repeated {
        let wall = turn.wall;
        return format!("{name} goes on after {wall:.2} s, {repeated} steps done again");
    }
    let times = turn.time_at(0.5).zip(turn.time_at(0.99));
    let times = times.map_or(String::new(), |(half, most)| {
        format!("  p50 {half:.2} ms  p99 {most:.2} ms")
    });
    format!(
        "{name} {:>9.0} {}s/s in {:.1} s  {:>8.1} µs CPU  {:>6.0} B log  {:>5.0} MB{times}",
        turn.per_second(),
        work.unit(),
        turn.wall,
        turn.cpu_micros(),
        turn.log_bytes(),
        turn.memory as f64 / 1e6,
    )
}

fn memory_gigabytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or_default().div_ceil(1_024 * 1_024)
}
