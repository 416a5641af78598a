//! From the table of peers to programs that can be started: what they are written in is built or
//! installed in a scratch folder under the target folder, and nothing into the project. A peer that
//! cannot be had is left out with the reason.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::roster::{PeerEntry, PeerSource};
use crate::workspace;

/// A program that can be started, and what it is made of.
#[derive(Debug, Clone)]
pub(super) struct PeerProgram {
    pub(super) words: Vec<PathBuf>,
    pub(super) variables: Vec<(&'static str, PathBuf)>,
    /// Packages with their versions, for the page.
    pub(super) versions: String,
}

/// Where the sources of the programs are.
const SOURCES: &str = "benches/peers";

pub(super) struct Workshop<'root> {
    pub(super) root: &'root Path,
    pub(super) scratch: PathBuf,
    /// Words for cargo: how programs are built.
    pub(super) profile: &'static [&'static str],
}

impl Workshop<'_> {
    pub(super) fn make(&self, peer: &PeerEntry) -> Result<PeerProgram> {
        match peer.source {
            PeerSource::Ours => self.ours(),
            PeerSource::Cargo(name) => self.cargo(name),
            PeerSource::Python(name) => self.python(name),
            PeerSource::Node(name) => self.node(name),
            PeerSource::CargoAndServer(name, package, program) => {
                let mut made = self.cargo(name)?;
                let server = self.server(name, package, program)?;
                made.variables.push(("PEER_SERVER", server));
                let package = package.trim_start_matches('@').replace('@', " ");
                made.versions = format!("{}, {package} (npm)", made.versions);
                Ok(made)
            }
            PeerSource::Missing(why) => bail!("{why}"),
        }
    }

    fn ours(&self) -> Result<PeerProgram> {
        let mut command = workspace::cargo();
        command
            .args(["build", "-p", "lope", "--bench", "peer"])
            .args(self.profile)
            // As for the binary and the counts, so that nothing is built twice.
            .args(["--features", "measure"])
            .current_dir(self.root);
        let program = workspace::built(&mut command)?;
        Ok(PeerProgram {
            words: vec![program],
            variables: Vec::new(),
            versions: "this project".to_owned(),
        })
    }

    fn cargo(&self, name: &str) -> Result<PeerProgram> {
        self.copy("protocol")?;
        let folder = self.copy(name)?;
        let mut command = workspace::cargo();
        // Built as our own releases are.
        command
            .arg("build")
            .args(self.profile)
            .current_dir(&folder)
            .env("CARGO_TARGET_DIR", self.scratch.join("build"))
            .env("CARGO_PROFILE_RELEASE_LTO", "thin")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1");
        let program = workspace::built(&mut command)?;
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml"))?;
        Ok(PeerProgram {
            words: vec![program],
            variables: Vec::new(),
            versions: format!("{} (crates.io)", pinned(&manifest).join(", ")),
        })
    }

    fn python(&self, name: &str) -> Result<PeerProgram> {
        let folder = self.copy(name)?;
        let environment = folder.join("environment");
        let interpreter = environment.join("bin/python");
        if !interpreter.exists() {
            run(Command::new("python3")
                .args(["-m", "venv"])
                .arg(&environment))?;
        }
        run(Command::new(&interpreter)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .arg("--requirement")
            .arg(folder.join("requirements.txt")))?;
        let listed = std::fs::read_to_string(folder.join("requirements.txt"))?;
        let versions = listed.trim().replace("==", " ").replace('\n', ", ");
        Ok(PeerProgram {
            words: vec![interpreter, folder.join("main.py")],
            variables: Vec::new(),
            versions: format!("{versions} (PyPI)"),
        })
    }

    fn node(&self, name: &str) -> Result<PeerProgram> {
        let folder = self.copy(name)?;
        run(npm_install().current_dir(&folder))?;
        let manifest: Value = serde_json::from_slice(&std::fs::read(folder.join("package.json"))?)?;
        let dependencies = manifest["dependencies"].as_object().into_iter().flatten();
        let versions: Vec<String> = dependencies
            .map(|(package, version)| format!("{package} {}", version.as_str().unwrap_or_default()))
            .collect();
        Ok(PeerProgram {
            words: vec!["node".into(), folder.join("main.js")],
            variables: Vec::new(),
            versions: format!("{} (npm)", versions.join(", ")),
        })
    }

    fn server(&self, name: &str, package: &str, program: &str) -> Result<PathBuf> {
        let folder = self.scratch.join("servers").join(name);
        std::fs::create_dir_all(&folder)?;
        run(npm_install().arg(package).current_dir(&folder))?;
        let program = folder.join("node_modules").join(program);
        if !program.exists() {
            bail!("{package} brings no program for this machine");
        }
        Ok(program)
    }

    /// The sources of a program, in the scratch folder. What has not changed is not written, so that
    /// nothing is built again.
    fn copy(&self, name: &str) -> Result<PathBuf> {
        let folder = self.scratch.join("programs").join(name);
        copy_folder(&self.root.join(SOURCES).join(name), &folder)
            .with_context(|| format!("the sources of {name} cannot be copied"))?;
        Ok(folder)
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
            continue;
        }
        let bytes = std::fs::read(entry.path())?;
        if std::fs::read(&target).is_ok_and(|there| there == bytes) {
            continue;
        }
        std::fs::write(&target, bytes)?;
    }
    Ok(())
}

fn npm_install() -> Command {
    let mut command = Command::new("npm");
    // No package may run anything of its own when it is installed.
    command.args([
        "install",
        "--no-fund",
        "--no-audit",
        "--ignore-scripts",
        "--loglevel=error",
    ]);
    command
}

/// The packages that a manifest names with an exact version.
fn pinned(manifest: &str) -> Vec<String> {
    let lines = manifest.lines().filter_map(|line| {
        let (name, rest) = line.split_once(" = ")?;
        let version = rest.split_once("\"=")?.1.split('"').next()?;
        Some(format!("{name} {version}"))
    });
    lines.collect()
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().display().to_string();
    let status = command
        .status()
        .with_context(|| format!("{program} cannot be started"))?;
    if !status.success() {
        bail!("{program} failed; is its registry of packages in reach?");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_versions_are_named() {
        let manifest =
            "[dependencies]\na = \"=1.2\"\nb = { version = \"=0.1\", x = 1 }\nc = \"1\"\n";
        assert_eq!(pinned(manifest), ["a 1.2", "b 0.1"]);
    }

    #[test]
    fn only_what_changed_is_copied() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let from = folder.path().join("from");
        let to = folder.path().join("to");
        std::fs::create_dir_all(from.join("src")).expect("a folder is made");
        std::fs::write(from.join("src/main.rs"), "one").expect("a file is written");
        copy_folder(&from, &to).expect("it is copied");
        let written = || std::fs::metadata(to.join("src/main.rs")).and_then(|file| file.modified());
        let first = written().expect("it is there");
        copy_folder(&from, &to).expect("it is copied again");
        assert_eq!(written().expect("it is there"), first);
    }
}
