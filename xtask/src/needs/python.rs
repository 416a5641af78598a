//! The need for Python: an environment of our own under the target folder, with the packages that
//! the tests of `python/` and of the worker pool use, at the versions that
//! `python/requirements-dev.txt` names. Made once, and anew when that file or the interpreter
//! changes. In: the project's root; out: the interpreter.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The oldest Python that the package supports.
const OLDEST: (u32, u32) = (3, 10);
const REQUIREMENTS: &str = "python/requirements-dev.txt";
/// Tells what an environment was made from.
const MARK: &str = "made-from";
const WAY_OUT: &str =
    "install Python 3.10 or newer with its venv module, or leave its tests out with --no-python";

/// The interpreter of the environment, which is made if it is not there.
pub(super) fn provide(root: &Path) -> Result<PathBuf> {
    let version = version()?;
    let listed = root.join(REQUIREMENTS);
    let wanted = std::fs::read_to_string(&listed)
        .with_context(|| format!("{REQUIREMENTS} cannot be read"))?;
    let mark = format!("{version}\n{wanted}");
    let folder = target(root).join("python");
    let interpreter = folder.join("bin/python");
    if interpreter.exists()
        && std::fs::read_to_string(folder.join(MARK)).is_ok_and(|made| made == mark)
    {
        return Ok(interpreter);
    }
    println!("making {} with Python {version}", folder.display());
    run(Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(&folder))
    .context(WAY_OUT)?;
    let mut install = Command::new(&interpreter);
    install
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--requirement",
        ])
        .arg(&listed);
    run(&mut install).context(
        "the packages cannot be had; is the package index in reach? --no-python goes without",
    )?;
    std::fs::write(folder.join(MARK), mark).context("the environment cannot be marked")?;
    Ok(interpreter)
}

/// Where cargo builds.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |folder| root.join(folder))
}

fn version() -> Result<String> {
    let output = Command::new("python3")
        .arg("--version")
        .output()
        .context(WAY_OUT)?;
    let text = String::from_utf8_lossy(&output.stdout)
        .trim()
        .trim_start_matches("Python ")
        .to_owned();
    if !is_new_enough(&text) {
        bail!("python3 is version '{text}': {WAY_OUT}");
    }
    Ok(text)
}

fn is_new_enough(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= OLDEST,
        _ => false,
    }
}

fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("{} cannot be started", command.get_program().display()))?;
    if !status.success() {
        bail!("{} failed", command.get_program().display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(is_new_enough("3.10.0") && is_new_enough("3.14") && is_new_enough("4.0.1"));
        assert!(
            !is_new_enough("3.9.18")
                && !is_new_enough("2.7")
                && !is_new_enough("")
                && !is_new_enough("3")
        );
    }
}
