//! The need for a browser: Chromium and its driver, which the tests of the dashboard steer. Debian's
//! packages are installed where they are missing and that is allowed.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

const PROGRAMS: [&str; 2] = ["chromium", "chromedriver"];
const PACKAGES: [&str; 2] = ["chromium", "chromium-driver"];
const WAY_OUT: &str =
    "install chromium and chromium-driver, or leave their tests out with --no-browser";

/// Both programs are there, or an error that says how to go on.
pub(crate) fn provide() -> Result<()> {
    if PROGRAMS.iter().all(|program| is_there(program)) {
        return Ok(());
    }
    println!("no browser found; installing {}", PACKAGES.join(" and "));
    // The lists of packages may be older than the packages: then they are fetched first.
    if !install()? {
        apt_get(&["update", "-q"])?;
        if !install()? {
            bail!("apt-get could not install a browser; {WAY_OUT}");
        }
    }
    if PROGRAMS.iter().all(|program| is_there(program)) {
        return Ok(());
    }
    bail!("the packages brought no chromium and chromedriver; {WAY_OUT}")
}

fn install() -> Result<bool> {
    let arguments = ["install", "-y", "-q", "--no-install-recommends"];
    apt_get(&[&arguments[..], &PACKAGES].concat())
}

fn apt_get(arguments: &[&str]) -> Result<bool> {
    let mut command = Command::new("apt-get");
    command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive");
    let status = command.status();
    let status = status.with_context(|| format!("no apt-get to install it with; {WAY_OUT}"))?;
    Ok(status.success())
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).exists())
}
