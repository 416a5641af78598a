//! `cargo xtask bench counts`: instructions of the law, of a shard and of commits on stores, which do not
//! depend on how busy the machine is. In: the bench target `counts` of the library, run under valgrind;
//! out: what each costs beside the file of the last commit, and failure if one grew.

mod tally;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use self::tally::CountTally;
use crate::needs::{self, Setting};
use crate::{tree, workspace};

/// What is counted, and for how many units.
const COUNTED: &[(&str, u64)] = &[
    ("law", 5_000),
    ("shard", 5_000),
    // The same, with a slot for each step: what limits cost where none is used is within that.
    (SLOTS, 5_000),
    ("memory", 2_000),
    ("sqlite", 1_000),
    // Our side of it; the server is another process.
    ("postgres", 500),
];
const FILE: &str = "benches/counts.json";
const SLOTS: &str = "slots";
/// Most that slots may take of a step that uses no limits.
const SLOTS_PERCENT: f64 = 5.0;

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let is_written = match arguments {
        [] => false,
        [word] if word == "--write" => true,
        _ => bail!("usage: cargo xtask bench counts [--write]"),
    };
    let root = tree::root()?;
    needs::valgrind()?;
    let program = build(&root)?;
    let mut setting = Setting::bare()?;
    setting.add_postgres()?;
    let scratch = needs::target(&root).join("counts");
    std::fs::create_dir_all(&scratch)?;
    let mut now = CountTally::default();
    for (name, units) in COUNTED {
        let count = |units| count(&mut counted(&program, &setting, &scratch), name, units);
        let (once, twice) = (count(*units)?, count(units * 2)?);
        // What is done once, at the start and at the end, goes away.
        now.add(name, twice.saturating_sub(once) / units);
    }
    let file = root.join(FILE);
    let before = CountTally::read(&file)?;
    let grown = now.grown_from(&before);
    print!("{}", now.beside(&before));
    let share = now.share_beyond(SLOTS, "shard");
    println!("slots take {share:.1} % of a step that uses no limits");
    if is_written {
        now.write(&file)?;
        println!("written: {FILE}");
        return Ok(ExitCode::SUCCESS);
    }
    for name in &grown {
        eprintln!("{name} grew by more than {} %", tally::GROWTH_PERCENT);
    }
    if share > SLOTS_PERCENT {
        eprintln!("slots take more than {SLOTS_PERCENT} % of a step");
        return Ok(ExitCode::FAILURE);
    }
    if grown.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("if that is meant, `cargo xtask bench counts --write` keeps the new counts");
    Ok(ExitCode::FAILURE)
}

fn build(root: &Path) -> Result<PathBuf> {
    let mut command = workspace::cargo();
    command
        .args(["build", "--release", "-p", "lope"])
        .args(["--bench", "counts", "--features", "measure"])
        .current_dir(root);
    workspace::built(&mut command)
}

/// The program where its instructions are counted.
fn counted(program: &Path, setting: &Setting, scratch: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .current_dir(scratch);
    setting.dress(&mut command);
    command
}

/// Instructions of the program from its beginning to its end.
fn count(program: &mut Command, name: &str, units: u64) -> Result<u64> {
    let output = program
        .args([name, &units.to_string()])
        .output()
        .context("cannot run valgrind")?;
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{name} cannot be counted:\n{told}");
    }
    collected(&told).with_context(|| format!("valgrind says no count for {name}:\n{told}"))
}

/// The sum that callgrind says at its end.
fn collected(told: &str) -> Option<u64> {
    let line = told.lines().find_map(|line| line.split_once("Collected :"));
    line?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_read() {
        let told = "==1== Events    : Ir\n==1== Collected : 123456\n==1== \n";
        assert_eq!(collected(told), Some(123_456));
        assert_eq!(collected("==1== nothing"), None);
    }
}
