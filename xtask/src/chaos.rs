//! `cargo xtask chaos`: the long runs. In: names of targets, or none for all; out: an exit code. A long run is a normal
//! test in a target whose name starts with `chaos_`: it takes a small sample in `cargo xtask test` and the whole series
//! when `LOPE_CHAOS` is `full`, which is set here and nowhere else.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::needs::Setting;
use crate::steps::Steps;
use crate::tree;
use crate::workspace::{self, Package};

pub(crate) const PREFIX: &str = "chaos_";
const FULL: (&str, &str) = ("LOPE_CHAOS", "full");
const NO_POSTGRES: &str = "--no-postgres";

#[derive(Debug, PartialEq, Eq)]
struct Run {
    package: String,
    target: String,
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let (options, names): (Vec<&String>, Vec<&String>) = arguments.iter().partition(|word| word.starts_with("--"));
    if let Some(option) = options.iter().find(|option| **option != NO_POSTGRES) {
        bail!("chaos takes {NO_POSTGRES} and names of targets, not `{option}`");
    }
    let root = tree::root()?;
    let runs = chosen(&workspace::members(&root)?, &names)?;
    if runs.is_empty() {
        println!("no test target is called {PREFIX}… yet");
        return Ok(ExitCode::SUCCESS);
    }
    let mut setting = Setting::bare()?;
    setting.set(FULL.0, FULL.1);
    if options.is_empty() {
        setting.add_postgres()?;
    } else {
        setting.go_without_postgres();
    }

    let mut steps = Steps::default();
    for (index, Run { package, target }) in runs.iter().enumerate() {
        let title = format!("{target} of {package}, {} of {}", index + 1, runs.len());
        let mut command = workspace::cargo();
        command.args(["test", "--release", "-p", package, "--test", target, "--", "--nocapture"]);
        steps.command(&title, &setting.sweeper, setting.dress(command.current_dir(&root)));
    }
    drop(setting);
    Ok(steps.finish())
}

/// The targets with these names, given with or without the prefix; all when no name is given.
fn chosen(members: &[Package], names: &[&String]) -> Result<Vec<Run>> {
    let runs = members.iter().flat_map(|package| {
        let targets = package.targets.iter().filter(|target| target.kind == "test" && target.name.starts_with(PREFIX));
        targets.map(|target| Run { package: package.name.clone(), target: target.name.clone() })
    });
    let mut runs: Vec<Run> = runs.collect();
    let is_called = |run: &Run, name: &str| run.target == name || run.target.strip_prefix(PREFIX) == Some(name);
    if let Some(unknown) = names.iter().find(|name| !runs.iter().any(|run| is_called(run, name))) {
        let known: Vec<&str> = runs.iter().map(|run| run.target.as_str()).collect();
        bail!("no long run `{unknown}`; there are: {}", known.join(", "));
    }
    runs.retain(|run| names.is_empty() || names.iter().any(|name| is_called(run, name)));
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Target;

    fn members() -> Vec<Package> {
        let target = |name: &str| Target { name: name.into(), kind: "test".into() };
        let package = |name: &str, targets| Package { name: name.into(), targets, ..Package::default() };
        vec![package("a", vec![target("chaos_kill"), target("whole")]), package("b", vec![target("chaos_disk")])]
    }

    fn targets(names: &[&str]) -> Result<Vec<String>> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let runs = chosen(&members(), &names.iter().collect::<Vec<_>>())?;
        Ok(runs.into_iter().map(|run| format!("{}/{}", run.package, run.target)).collect())
    }

    #[test]
    fn all_long_runs_or_those_named() {
        assert_eq!(targets(&[]).expect("all"), ["a/chaos_kill", "b/chaos_disk"]);
        assert_eq!(targets(&["disk"]).expect("without the prefix"), ["b/chaos_disk"]);
        assert_eq!(targets(&["chaos_kill"]).expect("with the prefix"), ["a/chaos_kill"]);
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_the_names_there_are() {
        let error = targets(&["disk", "whole"]).expect_err("`whole` is no long run").to_string();
        assert!(error.contains("`whole`") && error.contains("chaos_kill, chaos_disk"), "{error}");
    }
}
