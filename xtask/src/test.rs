//! `cargo xtask test`: the one test command, the same for a person, for CI and for the README. In: its options; out: an
//! exit code after formatting, clippy, tidy and all tests. Brings what the tests need and takes it away again.
//!
//! Tests are built in the dev profile. The `ci` profile costs 1.6 times the CPU of a cold build and gave back a tenth of
//! that when the tests ran; dev also reuses what `cargo test` in one room has built.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::needs::Setting;
use crate::steps::Steps;
use crate::workspace::{self, Package};
use crate::{chaos, python, tidy, tree};

/// Nothing here takes a third of this, on a machine that works.
const PATIENCE: Duration = Duration::from_mins(45);

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    no_postgres: bool,
    no_python: bool,
    fast: bool,
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = parse(arguments)?;
    let root = tree::root()?;
    let mut steps = Steps::within(PATIENCE);
    // First, so that a missing Postgres is told in the first second and not after the build.
    let (setting, interpreter) = prepare(&options, &root, &mut steps)?;
    let cargo = |arguments: &[&str]| cargo(&root, &setting, arguments);

    steps.command("formatting", &setting.sweeper, &mut cargo(&["fmt", "--all", "--check"]));
    if options.fast {
        steps.leave_out("clippy", "--fast");
    } else {
        let arguments = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
        steps.command("clippy", &setting.sweeper, &mut cargo(&arguments));
    }
    steps.check("tidy", tidy::tidy);
    let targets = if options.fast { fast_targets(&workspace::members(&root)?) } else { Vec::new() };
    steps.command("tests", &setting.sweeper, cargo(&["test", "--workspace", "--no-fail-fast"]).args(targets));
    if options.fast {
        steps.leave_out("documentation tests and chaos samples", "--fast");
        steps.leave_out("the mailbox without threads", "--fast");
    } else {
        let arguments = ["test", "-p", "lope-mailbox", "--no-default-features", "--test", "no_threads"];
        steps.command("the mailbox without threads", &setting.sweeper, &mut cargo(&arguments));
    }
    if let Some(interpreter) = &interpreter {
        python::check(&root, interpreter, &setting, &mut steps);
    }
    drop(setting);
    Ok(steps.finish())
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options::default();
    for argument in arguments {
        match argument.as_str() {
            "--no-postgres" => options.no_postgres = true,
            "--no-python" => options.no_python = true,
            "--fast" => options.fast = true,
            other => bail!("test takes --no-postgres, --no-python and --fast, not `{other}`"),
        }
    }
    Ok(options)
}

fn prepare(options: &Options, root: &Path, steps: &mut Steps) -> Result<(Setting, Option<PathBuf>)> {
    let mut setting = Setting::bare()?;
    if options.no_postgres {
        setting.go_without_postgres();
        steps.leave_out("Postgres", "--no-postgres");
    } else {
        steps.require("Postgres", || setting.add_postgres())?;
    }
    let mut interpreter = None;
    if options.no_python {
        setting.go_without_python();
        steps.leave_out("Python", "--no-python");
    } else {
        steps.require("Python", || setting.add_python(root).map(|found| interpreter = Some(found)))?;
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
    let tests = targets.filter(|target| target.kind == "test" && !target.name.starts_with(chaos::PREFIX));
    let names: BTreeSet<&String> = tests.map(|target| &target.name).collect();
    arguments.extend(names.into_iter().flat_map(|name| ["--test".to_owned(), name.clone()]));
    arguments.extend(["--", "--skip", chaos::PREFIX].map(str::to_owned));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Target;

    fn parsed(arguments: &[&str]) -> Result<Options> {
        parse(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_and_others_refused() {
        assert_eq!(parsed(&[]).expect("none is fine"), Options::default());
        let all = Options { no_postgres: true, no_python: true, fast: true };
        assert_eq!(parsed(&["--fast", "--no-postgres", "--no-python"]).expect("all are fine"), all);
        assert!(parsed(&["--no-postgers"]).is_err());
    }

    #[test]
    fn the_fast_round_leaves_the_long_runs_out() {
        let target = |name: &str, kind: &str| Target { name: name.into(), kind: kind.into() };
        let targets = vec![target("whole", "test"), target("chaos_kill", "test"), target("store", "bench")];
        let member = Package { targets, ..Package::default() };
        let members = [member.clone(), member];
        assert_eq!(fast_targets(&members), ["--lib", "--bins", "--test", "whole", "--", "--skip", "chaos_"]);
    }
}
