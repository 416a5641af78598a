//! `cargo xtask chaos`: the long runs. In: names of targets, or none for all; out: an exit code. A long run is a normal
//! test in a target whose name starts with `chaos_`, or in a module of that name beside a crate's `lib.rs` when it needs
//! to see what the crate keeps to itself. It takes a small sample in `cargo xtask test` and the whole series when
//! `LOPE_CHAOS` is `full`, which is set here and nowhere else.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::needs::Setting;
use crate::steps::Steps;
use crate::tree;
use crate::workspace::{self, Package};

pub(crate) const PREFIX: &str = "chaos_";
const FULL: (&str, &str) = ("LOPE_CHAOS", "full");
const NO_POSTGRES: &str = "--no-postgres";
const NO_PYTHON: &str = "--no-python";

/// Optimised like a release, but not across crates: the series need the speed, not the last tenth of it.
const PROFILE: &str = "chaos";

#[derive(Debug, PartialEq, Eq)]
struct Run {
    package: String,
    name: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Target,
    Module,
}

impl Run {
    /// What cargo is told to run, and which of its tests. A target is chosen out of the whole workspace, in every package that
    /// has it: then all are built with the same features, and each dependency once.
    fn arguments(&self) -> Vec<String> {
        let module = format!("{}::", self.name);
        let words: &[&str] = match self.kind {
            Kind::Target => &["--workspace", "--test", &self.name, "--", "--nocapture"],
            Kind::Module => &["-p", &self.package, "--lib", &module, "--", "--nocapture"],
        };
        words.iter().map(ToString::to_string).collect()
    }
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let (options, names): (Vec<&String>, Vec<&String>) = arguments.iter().partition(|word| word.starts_with("--"));
    if let Some(option) = options.iter().find(|option| ![NO_POSTGRES, NO_PYTHON].contains(&option.as_str())) {
        bail!("chaos takes {NO_POSTGRES}, {NO_PYTHON} and names of targets, not `{option}`");
    }
    let without = |option: &str| options.iter().any(|given| *given == option);
    let root = tree::root()?;
    let mut runs = chosen(all(&root, &workspace::members(&root)?), &names)?;
    runs.sort_by(|one, other| one.name.cmp(&other.name));
    runs.dedup_by(|one, other| one.name == other.name && one.kind == other.kind);
    if runs.is_empty() {
        println!("no test target is called {PREFIX}… yet");
        return Ok(ExitCode::SUCCESS);
    }
    let mut setting = Setting::bare()?;
    setting.set(FULL.0, FULL.1);
    if without(NO_POSTGRES) {
        setting.go_without_postgres();
    } else {
        setting.add_postgres()?;
    }
    if without(NO_PYTHON) {
        setting.go_without_python();
    } else {
        setting.add_python(&root)?;
    }

    let mut steps = Steps::default();
    for (index, run) in runs.iter().enumerate() {
        let title = format!("{}, {} of {}", run.name, index + 1, runs.len());
        let mut command = workspace::cargo();
        command.args(["test", "--profile", PROFILE]).args(run.arguments());
        steps.command(&title, &setting.sweeper, setting.dress(command.current_dir(&root)));
    }
    drop(setting);
    Ok(steps.finish())
}

/// Every long run of these packages.
fn all(root: &Path, members: &[Package]) -> Vec<Run> {
    let mut runs = Vec::new();
    for package in members {
        let run = |name: &str, kind| Run { package: package.name.clone(), name: name.to_owned(), kind };
        let targets = package.targets.iter().filter(|target| target.kind == "test" && target.name.starts_with(PREFIX));
        runs.extend(targets.map(|target| run(&target.name, Kind::Target)));
        runs.extend(modules(&root.join(package.folder()).join("src")).iter().map(|name| run(name, Kind::Module)));
    }
    runs
}

/// The names of a folder's modules that hold long runs, in order.
fn modules(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let names = files.filter_map(|file| file.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned));
    let mut names: Vec<String> = names.filter(|name| name.starts_with(PREFIX)).collect();
    names.sort();
    names
}

/// Those with these names, given with or without the prefix; all when no name is given.
fn chosen(mut runs: Vec<Run>, names: &[&String]) -> Result<Vec<Run>> {
    let is_called = |run: &Run, name: &str| run.name == name || run.name.strip_prefix(PREFIX) == Some(name);
    if let Some(unknown) = names.iter().find(|name| !runs.iter().any(|run| is_called(run, name))) {
        let known: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
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
        let runs = chosen(all(Path::new("/nowhere"), &members()), &names.iter().collect::<Vec<_>>())?;
        Ok(runs.into_iter().map(|run| format!("{}/{}", run.package, run.name)).collect())
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

    #[test]
    fn modules_are_long_runs_too() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["chaos_plans.rs", "lib.rs", "chaos.txt"] {
            std::fs::write(folder.path().join(name), "").expect("a file");
        }
        assert_eq!(modules(folder.path()), ["chaos_plans"]);
        let run = Run { package: "a".into(), name: "chaos_plans".into(), kind: Kind::Module };
        assert_eq!(run.arguments(), ["-p", "a", "--lib", "chaos_plans::", "--", "--nocapture"]);
    }
}
