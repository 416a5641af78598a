//! `cargo xtask bench`: benchmarks in release. In: names from the table below, or none for all;
//! out: an exit code. What a benchmark measures and prints is its own affair; here is only which
//! targets a name means and what they need.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::needs::Setting;
use crate::steps::Steps;
use crate::tree;
use crate::workspace::{self, Package};
use crate::{counts, peers};

#[derive(Debug)]
struct Benchmark {
    /// The name on the command line, which is also the name of the bench target in each package,
    /// and for those that need Python what `lope bench` calls it.
    name: &'static str,
    packages: &'static [&'static str],
    postgres: bool,
    python: bool,
}

const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "store",
        packages: &["lope-store", "lope-sqlite", "lope-postgres"],
        postgres: true,
        python: false,
    },
    Benchmark {
        name: "expr",
        packages: &["lope-expr"],
        postgres: false,
        python: false,
    },
    Benchmark {
        name: "flow",
        packages: &["lope-flow"],
        postgres: false,
        python: false,
    },
    Benchmark {
        name: "mailbox",
        packages: &["lope-mailbox"],
        postgres: false,
        python: false,
    },
    Benchmark {
        name: "python",
        packages: &[],
        postgres: false,
        python: true,
    },
    Benchmark {
        name: "embed",
        packages: &["lope"],
        postgres: false,
        python: false,
    },
];

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    if let Some((name, rest)) = arguments.split_first() {
        match name.as_str() {
            "peers" => return peers::run(rest),
            "counts" => return counts::run(rest),
            _ => {}
        }
    }
    let end = arguments
        .iter()
        .position(|word| word == "--")
        .unwrap_or(arguments.len());
    let passed_on = arguments.get(end + 1..).unwrap_or_default();
    let chosen = chosen(&arguments[..end])?;
    let root = tree::root()?;
    let members = workspace::members(&root)?;
    let mut setting = Setting::bare()?;
    if chosen
        .iter()
        .any(|benchmark| benchmark.postgres && !present(benchmark, &members).is_empty())
    {
        setting.add_postgres()?;
    }
    let needs_python = chosen.iter().any(|benchmark| benchmark.python);
    let interpreter = if needs_python {
        Some(setting.add_python(&root)?)
    } else {
        None
    };

    let mut steps = Steps::default();
    for benchmark in chosen {
        let mut measure = |title: &str, mut command: Command| {
            let command = setting.dress(command.current_dir(&root));
            steps.command(title, &setting.sweeper, command);
        };
        if let Some(interpreter) = interpreter.as_ref().filter(|_| benchmark.python) {
            let command = with_python(benchmark, passed_on, &root, interpreter);
            measure(benchmark.name, command);
        }
        for package in present(benchmark, &members) {
            let title = format!("{} of {package}", benchmark.name);
            measure(&title, of_package(benchmark, passed_on, package));
        }
        for package in missing(benchmark, &members) {
            let title = format!("{} of {package}", benchmark.name);
            steps.leave_out(&title, "it has no such bench target yet");
        }
    }
    drop(setting);
    Ok(steps.finish())
}

/// What `lope bench` measures, with the interpreter of the tests.
fn with_python(
    benchmark: &Benchmark,
    passed_on: &[String],
    root: &Path,
    interpreter: &Path,
) -> Command {
    let mut command = workspace::cargo();
    command
        .args(["run", "--release", "-p", "lope-cli", "--", "bench"])
        .args([benchmark.name, "--on", "sqlite"])
        .args(passed_on)
        .env("LOPE_PYTHON", interpreter)
        .env("PYTHONPATH", root.join("python"));
    command
}

/// The bench target of a package.
fn of_package(benchmark: &Benchmark, passed_on: &[String], package: &str) -> Command {
    let mut command = workspace::cargo();
    command.args(["bench", "-p", package, "--bench", benchmark.name]);
    if !passed_on.is_empty() {
        command.arg("--").args(passed_on);
    }
    command
}

fn chosen(names: &[String]) -> Result<Vec<&'static Benchmark>> {
    if let Some(unknown) = names
        .iter()
        .find(|name| BENCHMARKS.iter().all(|benchmark| benchmark.name != **name))
    {
        let known: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
        bail!("no benchmark `{unknown}`; there are: {}", known.join(", "));
    }
    let is_chosen = |name: &str| names.is_empty() || names.iter().any(|chosen| chosen == name);
    Ok(BENCHMARKS
        .iter()
        .filter(|benchmark| is_chosen(benchmark.name))
        .collect())
}

/// The packages of a benchmark that do not have its target.
fn missing(benchmark: &Benchmark, members: &[Package]) -> Vec<&'static str> {
    let present = present(benchmark, members);
    let packages = benchmark.packages.iter().copied();
    packages.filter(|name| !present.contains(name)).collect()
}

/// The packages of a benchmark that have its target; rooms come one by one.
fn present(benchmark: &Benchmark, members: &[Package]) -> Vec<&'static str> {
    let has = |name: &str| {
        members
            .iter()
            .any(|package| package.name == name && package.has_target("bench", benchmark.name))
    };
    benchmark
        .packages
        .iter()
        .copied()
        .filter(|name| has(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::BuildTarget;

    fn names(names: &[&str]) -> Result<Vec<&'static str>> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        Ok(chosen(&names)?
            .iter()
            .map(|benchmark| benchmark.name)
            .collect())
    }

    #[test]
    fn all_benchmarks_or_those_named() {
        assert_eq!(names(&[]).expect("all").len(), BENCHMARKS.len());
        assert_eq!(names(&["flow"]).expect("one"), ["flow"]);
        let error = names(&["flaw"]).expect_err("no such name").to_string();
        assert!(error.contains("store, expr, flow, mailbox"), "{error}");
    }

    #[test]
    fn packages_without_the_target_are_told_apart() {
        let targets = vec![BuildTarget {
            name: "store".into(),
            kind: "bench".into(),
        }];
        let members = [Package {
            name: "lope-sqlite".into(),
            targets,
            ..Package::default()
        }];
        assert_eq!(present(&BENCHMARKS[0], &members), ["lope-sqlite"]);
        assert!(present(&BENCHMARKS[1], &members).is_empty());
    }
}
