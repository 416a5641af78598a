//! `cargo xtask wheel`: the Python package as a wheel with the command inside, which installs in
//! seconds and needs no compiler. In: a folder, or none for `target/wheels`; out: an exit code.
//! `LOPE_BIN` names a command that is built already, and nothing is built then.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::needs::target;
use crate::{tree, workspace};

/// What the build backend of the package is told to do.
const BUILD: &str = "import sys; sys.path.insert(0, sys.argv[1]); import lope_build; print(lope_build.build_wheel(sys.argv[2]))";

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let root = tree::root()?;
    let folder = match arguments {
        [] => target(&root).join("wheels"),
        [folder] if !folder.starts_with("--") => PathBuf::from(folder),
        _ => bail!("wheel takes a folder, and nothing else"),
    };
    let command = command(&root)?;
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let mut pack = Command::new("python3");
    pack.args(["-c", BUILD])
        .arg(root.join("python/backend"))
        .arg(&folder)
        .env("LOPE_BIN", command);
    let packed = pack
        .output()
        .context("python3 cannot be started: install Python 3.10 or newer")?;
    if !packed.status.success() {
        bail!("{}", String::from_utf8_lossy(&packed.stderr).trim_end());
    }
    let name = String::from_utf8_lossy(&packed.stdout).trim().to_owned();
    println!("{}", folder.join(name).display());
    Ok(ExitCode::SUCCESS)
}

/// The command that goes into the wheel.
fn command(root: &Path) -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("LOPE_BIN") {
        return Ok(PathBuf::from(named));
    }
    let mut build = workspace::cargo();
    build.current_dir(root);
    let built = build
        .args(["build", "--release", "-p", "lope-cli"])
        .status();
    if !built.context("cargo cannot be started")?.success() {
        bail!("the command cannot be built");
    }
    Ok(target(root).join("release/lope"))
}
