//! `cargo xtask chaos`: the long runs. In: names of long runs, or none for all; out: an exit code.
//! A long run is a module of normal tests whose name starts with `chaos_`: a file beside the other
//! tests of a crate, or one beside its `lib.rs` when it needs to see what the crate keeps to
//! itself. It takes a small sample in `cargo xtask test` and the whole series when `LOPE_CHAOS` is
//! `full`, which is set here and nowhere else.

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

/// Optimised like a release, but not across crates: the series need the speed, not the last tenth
/// of it.
const PROFILE: &str = "chaos";

#[derive(Debug, PartialEq, Eq)]
struct LongRun {
    package: String,
    name: String,
    target: ChaosTarget,
}

/// Which program of its package a long run is part of.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ChaosTarget {
    /// A test target, by name.
    Tests(String),
    /// The unit tests of the library.
    Library,
}

impl LongRun {
    /// What cargo is told to run, and which of its tests. A test target is chosen out of the whole
    /// workspace, in every package that has it: then all are built with the same features, and each
    /// dependency once.
    fn arguments(&self) -> Vec<String> {
        let module = format!("{}::", self.name);
        let words: &[&str] = match &self.target {
            ChaosTarget::Tests(target) => &["--workspace", "--test", target, &module],
            ChaosTarget::Library => &["-p", &self.package, "--lib", &module],
        };
        let words = words.iter().chain(&["--", "--nocapture"]);
        words.map(ToString::to_string).collect()
    }
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let (options, names): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|word| word.starts_with("--"));
    if let Some(option) = options
        .iter()
        .find(|option| ![NO_POSTGRES, NO_PYTHON].contains(&option.as_str()))
    {
        bail!("chaos takes {NO_POSTGRES}, {NO_PYTHON} and names of long runs, not `{option}`");
    }
    let without = |option: &str| options.iter().any(|given| *given == option);
    let root = tree::root()?;
    let mut runs = chosen(all(&root, &workspace::members(&root)?), &names)?;
    runs.sort_by(|one, other| one.name.cmp(&other.name));
    runs.dedup_by(|one, other| one.name == other.name && one.target == other.target);
    if runs.is_empty() {
        println!("no module of tests is called {PREFIX}… yet");
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
        command
            .args(["test", "--profile", PROFILE])
            .args(run.arguments());
        steps.command(
            &title,
            &setting.sweeper,
            setting.dress(command.current_dir(&root)),
        );
    }
    drop(setting);
    Ok(steps.finish())
}

/// Every long run of these packages.
fn all(root: &Path, members: &[Package]) -> Vec<LongRun> {
    members
        .iter()
        .flat_map(|package| long_runs(root, package))
        .collect()
}

fn long_runs(root: &Path, package: &Package) -> Vec<LongRun> {
    let folder = root.join(package.folder());
    let found = |names: Vec<String>, target: &ChaosTarget| {
        let run = |name| LongRun {
            package: package.name.clone(),
            name,
            target: target.clone(),
        };
        names.into_iter().map(run).collect::<Vec<_>>()
    };
    let mut runs = found(modules(&folder.join("src")), &ChaosTarget::Library);
    if let Some(target) = package.targets.iter().find(|target| target.kind == "test") {
        let tests = ChaosTarget::Tests(target.name.clone());
        runs.extend(found(modules(&folder.join("tests")), &tests));
        let inside = folder.join("tests").join(&target.name);
        runs.extend(found(modules(&inside), &tests));
    }
    runs
}

/// The names of a folder's modules that hold long runs, in order.
fn modules(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let names = files.filter_map(|file| {
        file.file_name()
            .to_str()?
            .strip_suffix(".rs")
            .map(str::to_owned)
    });
    let mut names: Vec<String> = names.filter(|name| name.starts_with(PREFIX)).collect();
    names.sort();
    names
}

/// Those with these names, given with or without the prefix; all when no name is given.
fn chosen(mut runs: Vec<LongRun>, names: &[&String]) -> Result<Vec<LongRun>> {
    let is_called =
        |run: &LongRun, name: &str| run.name == name || run.name.strip_prefix(PREFIX) == Some(name);
    if let Some(unknown) = names
        .iter()
        .find(|name| !runs.iter().any(|run| is_called(run, name)))
    {
        let known: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
        bail!("no long run `{unknown}`; there are: {}", known.join(", "));
    }
    runs.retain(|run| names.is_empty() || names.iter().any(|name| is_called(run, name)));
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::BuildTarget;

    /// Two packages with files that hold long runs, and some that do not.
    fn project() -> (tempfile::TempDir, Vec<Package>) {
        let root = tempfile::tempdir().expect("a folder");
        for file in [
            "a/tests/all.rs",
            "a/tests/chaos_kill.rs",
            "a/tests/whole.rs",
            "b/src/chaos_plans.rs",
            "b/src/lib.rs",
            "b/src/chaos.txt",
        ] {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, "").expect("a file");
        }
        let package = |name: &str, targets| Package {
            name: name.into(),
            manifest: format!("{name}/Cargo.toml"),
            targets,
            ..Package::default()
        };
        let target = BuildTarget {
            name: "all".into(),
            kind: "test".into(),
        };
        (root, vec![package("a", vec![target]), package("b", vec![])])
    }

    fn runs(names: &[&str]) -> Result<Vec<String>> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let (root, members) = project();
        let runs = chosen(
            all(root.path(), &members),
            &names.iter().collect::<Vec<_>>(),
        )?;
        Ok(runs
            .into_iter()
            .map(|run| run.arguments().join(" "))
            .collect())
    }

    #[test]
    fn all_long_runs_or_those_named() {
        let kill = "--workspace --test all chaos_kill:: -- --nocapture";
        let plans = "-p b --lib chaos_plans:: -- --nocapture";
        assert_eq!(runs(&[]).expect("all"), [kill, plans]);
        assert_eq!(runs(&["plans"]).expect("without the prefix"), [plans]);
        assert_eq!(runs(&["chaos_kill"]).expect("with the prefix"), [kill]);
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_the_names_there_are() {
        let error = runs(&["plans", "whole"])
            .expect_err("`whole` is no long run")
            .to_string();
        assert!(
            error.contains("`whole`") && error.contains("chaos_kill, chaos_plans"),
            "{error}"
        );
    }
}
