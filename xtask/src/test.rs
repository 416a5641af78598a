//! `cargo xtask test`: the one test command, the same for a person, for CI and for the README. In:
//! its options; out: an exit code after formatting, clippy, tidy and all tests. Brings what the
//! tests need and takes it away again.
//!
//! Tests are built in the dev profile. Light optimisation costs 1.6 times the CPU of a cold build
//! and gave back a tenth of that when the tests ran; dev also reuses what `cargo test` in one room
//! has built.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::needs::{self, Setting};
use crate::steps::Steps;
use crate::workspace::{self, Package};
use crate::{chaos, python, tidy, timed, tree};

/// Nothing here takes a third of this, on a machine that works.
const PATIENCE: Duration = Duration::from_mins(45);
/// How many of the slowest tests are told at the end.
const SLOWEST: usize = 10;

#[derive(Debug, Default, PartialEq, Eq)]
struct TestOptions {
    no_postgres: bool,
    no_browser: bool,
    no_python: bool,
    fast: bool,
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = parse(arguments)?;
    let root = tree::root()?;
    let mut steps = Steps::within(PATIENCE);
    // First, so that a missing Postgres is told in the first second and not after the build.
    let (mut setting, interpreter) = prepare(&options, &root, &mut steps)?;
    let folder = setting.sweeper.folder(&std::env::temp_dir())?;
    let times = folder.join("times");
    setting.set(timed::TIMES, &times.display().to_string());

    check_source(&options, &root, &setting, &mut steps);
    run_tests(&options, &root, &setting, &folder, &mut steps)?;
    if let Some(interpreter) = &interpreter {
        python::check(&root, interpreter, &setting, &mut steps);
    }
    let slowest = timed::slowest(&times, SLOWEST);
    drop(setting);
    if !slowest.is_empty() {
        println!("\n== the slowest tests ==");
    }
    for test in slowest {
        println!("{:8.1} s  {}", test.took.as_secs_f64(), test.name);
    }
    Ok(steps.finish())
}

/// What can be said of the source without running it.
fn check_source(options: &TestOptions, root: &Path, setting: &Setting, steps: &mut Steps) {
    let format = ["fmt", "--all", "--check"];
    let sweeper = &setting.sweeper;
    steps.command("formatting", sweeper, &mut cargo(root, setting, &format));
    steps.check("tidy", tidy::tidy);
    if options.fast {
        steps.leave_out("clippy", "--fast");
        steps.leave_out("clippy of the binary without telemetry", "--fast");
        return;
    }
    let all = "clippy --workspace --all-targets -- -D warnings";
    // The same packages and targets, so that all but the binary is known from the step before.
    let bare = "clippy --workspace --all-targets --no-default-features -- -D warnings";
    for (name, clippy) in [
        ("clippy", all),
        ("clippy of the binary without telemetry", bare),
    ] {
        let clippy: Vec<&str> = clippy.split(' ').collect();
        steps.command(name, sweeper, &mut cargo(root, setting, &clippy));
    }
}

/// Build and run are steps of their own, so that the summary tells what each took.
fn run_tests(
    options: &TestOptions,
    root: &Path,
    setting: &Setting,
    claims: &Path,
    steps: &mut Steps,
) -> Result<()> {
    let sweeper = &setting.sweeper;
    let targets = if options.fast {
        fast_targets(&workspace::members(root)?)
    } else {
        Vec::new()
    };
    let runner = timed::as_runner()?;
    let tests = |more: &[&str]| {
        let mut command = cargo(root, setting, &[]);
        command.args(&runner).args(["test", "--workspace"]);
        command.args(more).args(&targets);
        if std::env::var_os(timed::THREADS).is_none() {
            command.env(timed::THREADS, timed::threads_for_waiting().to_string());
        }
        command
    };
    steps.command("building tests", sweeper, &mut tests(&["--no-run"]));
    let quiet = ["--no-fail-fast", "--quiet"];
    let mut all = vec![tests(&quiet)];
    // The first runs the documentation's tests, too, unless they are left out.
    let programs = [&quiet[..], &["--lib", "--bins", "--tests"]].concat();
    all.extend((1..timed::CARGOS).map(|_| tests(if options.fast { &quiet } else { &programs })));
    for command in &mut all {
        command.env(timed::CLAIMS, claims);
    }
    steps.commands("tests", sweeper, &mut all);
    if options.fast {
        steps.leave_out("documentation tests and chaos samples", "--fast");
        steps.leave_out("the mailbox without threads", "--fast");
        return Ok(());
    }
    let arguments = "test -p lope-mailbox --no-default-features --lib no_threads";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    steps.command(
        "the mailbox without threads",
        sweeper,
        &mut cargo(root, setting, &arguments),
    );
    Ok(())
}

fn parse(arguments: &[String]) -> Result<TestOptions> {
    let mut options = TestOptions::default();
    for argument in arguments {
        match argument.as_str() {
            "--no-postgres" => options.no_postgres = true,
            "--no-python" => options.no_python = true,
            "--no-browser" => options.no_browser = true,
            "--fast" => options.fast = true,
            other => bail!(
                "test takes --no-postgres, --no-python, --no-browser and --fast, not `{other}`"
            ),
        }
    }
    Ok(options)
}

fn prepare(
    options: &TestOptions,
    root: &Path,
    steps: &mut Steps,
) -> Result<(Setting, Option<PathBuf>)> {
    let mut setting = Setting::bare()?;
    if options.no_postgres {
        setting.go_without_postgres();
        steps.leave_out("Postgres", "--no-postgres");
    } else {
        steps.require("Postgres", || setting.add_postgres())?;
    }
    if options.no_browser {
        setting.go_without_browser();
        steps.leave_out("the browser", "--no-browser");
    } else {
        steps.require("the browser", needs::browser)?;
    }
    let mut interpreter = None;
    if options.no_python {
        setting.go_without_python();
        steps.leave_out("Python", "--no-python");
    } else {
        steps.require("Python", || {
            setting
                .add_python(root)
                .map(|found| interpreter = Some(found))
        })?;
    }
    Ok((setting, interpreter))
}

fn cargo(root: &Path, setting: &Setting, arguments: &[&str]) -> Command {
    let mut command = workspace::cargo();
    setting.dress(command.current_dir(root).args(arguments));
    command
}

/// All test targets but the samples of the long runs, and no documentation tests.
fn fast_targets(members: &[Package]) -> Vec<String> {
    let mut arguments = vec!["--lib".to_owned(), "--bins".to_owned()];
    let targets = members.iter().flat_map(|package| &package.targets);
    let tests =
        targets.filter(|target| target.kind == "test" && !target.name.starts_with(chaos::PREFIX));
    let names: BTreeSet<&String> = tests.map(|target| &target.name).collect();
    arguments.extend(
        names
            .into_iter()
            .flat_map(|name| ["--test".to_owned(), name.clone()]),
    );
    arguments.extend(["--", "--skip", chaos::PREFIX].map(str::to_owned));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::BuildTarget;

    fn parsed(arguments: &[&str]) -> Result<TestOptions> {
        parse(
            &arguments
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn options_are_read_and_others_refused() {
        assert_eq!(parsed(&[]).expect("none is fine"), TestOptions::default());
        let all = TestOptions {
            no_postgres: true,
            no_browser: true,
            no_python: true,
            fast: true,
        };
        assert_eq!(
            parsed(&["--fast", "--no-postgres", "--no-python", "--no-browser"])
                .expect("all are fine"),
            all
        );
        assert!(parsed(&["--no-postgers"]).is_err());
    }

    #[test]
    fn the_fast_round_leaves_the_long_runs_out() {
        let target = |name: &str, kind: &str| BuildTarget {
            name: name.into(),
            kind: kind.into(),
        };
        let targets = vec![
            target("whole", "test"),
            target("chaos_kill", "test"),
            target("store", "bench"),
        ];
        let member = Package {
            targets,
            ..Package::default()
        };
        let members = [member.clone(), member];
        assert_eq!(
            fast_targets(&members),
            [
                "--lib", "--bins", "--test", "whole", "--", "--skip", "chaos_"
            ]
        );
    }
}
