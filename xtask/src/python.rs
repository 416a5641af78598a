//! The checks of `python/`: its tests, and the types of package and examples. In: the interpreter
//! of the tests' environment; out: a step for each. The tests find the binary
//! through `LOPE_BIN`: the one that the tests of the crates have built.

use std::path::Path;
use std::process::Command;

use crate::needs::{Setting, target};
use crate::steps::Steps;

/// What mypy checks; pyright reads its list from the project's file.
const TYPED: &[&str] = &[
    "python/lope",
    "python/backend",
    "python/conformance",
    "examples/python",
];

pub(crate) fn check(root: &Path, interpreter: &Path, setting: &Setting, steps: &mut Steps) {
    let python = |arguments: &[&str]| {
        let mut command = Command::new(interpreter);
        setting.dress(command.current_dir(root).args(arguments));
        command
            .env("LOPE_BIN", target(root).join("debug/lope"))
            .env("PYTHONPATH", root.join("python"));
        command
    };
    steps.command(
        "Python tests",
        &setting.sweeper,
        &mut python(&["-m", "pytest", "-q", "python/tests"]),
    );
    let typed: Vec<&str> = TYPED
        .iter()
        .copied()
        .filter(|path| root.join(path).exists())
        .collect();
    let mypy = &["-m", "mypy", "--config-file", "python/pyproject.toml"];
    steps.command("mypy", &setting.sweeper, python(mypy).args(typed));
    let pyright = &[
        "-m",
        "pyright",
        "--project",
        "python/pyproject.toml",
        "--pythonpath",
    ];
    steps.command(
        "pyright",
        &setting.sweeper,
        python(pyright).arg(interpreter),
    );
}
