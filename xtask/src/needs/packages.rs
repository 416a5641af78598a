//! The need for programs that Debian has packages of: they are installed where they are missing and
//! that is allowed.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Programs, the packages that bring them, and what to do where they cannot be installed.
#[derive(Debug)]
pub(super) struct Packaged {
    pub(super) programs: &'static [&'static str],
    pub(super) packages: &'static [&'static str],
    pub(super) way_out: &'static str,
}

impl Packaged {
    /// All programs are there, or an error that says how to go on.
    pub(super) fn provide(&self) -> Result<()> {
        if self.is_complete() {
            return Ok(());
        }
        let packages = self.packages.join(" and ");
        println!(
            "not found: {}; installing {packages}",
            self.programs.join(", ")
        );
        // The lists of packages may be older than the packages: then they are fetched first.
        if !self.install()? {
            self.apt_get(&["update", "-q"])?;
            if !self.install()? {
                bail!("apt-get could not install {packages}; {}", self.way_out);
            }
        }
        if self.is_complete() {
            return Ok(());
        }
        bail!(
            "{packages} did not bring {}; {}",
            self.programs.join(" and "),
            self.way_out
        )
    }

    fn is_complete(&self) -> bool {
        self.programs.iter().all(|program| is_there(program))
    }

    fn install(&self) -> Result<bool> {
        let arguments = ["install", "-y", "-q", "--no-install-recommends"];
        self.apt_get(&[&arguments[..], self.packages].concat())
    }

    fn apt_get(&self, arguments: &[&str]) -> Result<bool> {
        let mut command = Command::new("apt-get");
        command
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        let status = command.status();
        let status =
            status.with_context(|| format!("no apt-get to install it with; {}", self.way_out))?;
        Ok(status.success())
    }
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).exists())
}
