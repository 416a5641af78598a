//! The checks of `python/`: its tests, and the types of package and examples. In: the interpreter of the tests'
//! environment; out: a step for each. The tests find the binary through `LOPE_BIN`.

use std::path::Path;
use std::process::Command;

use crate::needs::{Setting, target};
use crate::steps::Steps;
use crate::workspace;

/// What is checked for types besides the package.
const TYPED: &[&str] = &["python/lope", "examples/python"];

pub(crate) fn check(root: &Path, interpreter: &Path, setting: &Setting, steps: &mut Steps) {
    let mut build = workspace::cargo();
    setting.dress(build.current_dir(root).args(["build", "-p", "lope-cli"]));
    steps.command("the binary for Python", &setting.sweeper, &mut build);
    let python = |arguments: &[&str]| {
        let mut command = Command::new(interpreter);
        setting.dress(command.current_dir(root).args(arguments));
        command.env("LOPE_BIN", target(root).join("debug/lope")).env("PYTHONPATH", root.join("python"));
        command
    };
    steps.command("Python tests", &setting.sweeper, &mut python(&["-m", "pytest", "-q", "python/tests"]));
    let typed: Vec<&str> = TYPED.iter().copied().filter(|path| root.join(path).exists()).collect();
    let with = |words: &[&'static str]| [words, &typed[..]].concat();
    let mypy = with(&["-m", "mypy", "--config-file", "python/pyproject.toml"]);
    steps.command("mypy", &setting.sweeper, &mut python(&mypy));
    let pyright = with(&["-m", "pyright", "--project", "python/pyproject.toml"]);
    steps.command("pyright", &setting.sweeper, &mut python(&pyright[..4]));
}
