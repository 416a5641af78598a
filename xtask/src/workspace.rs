//! What cargo knows about the workspace: its packages, what they depend on, their targets, their
//! licences. In: the JSON of `cargo metadata`; out: plain structs that the rules and the commands
//! read. Builds nothing, judges nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

#[derive(Debug, Clone, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Path of `Cargo.toml`: from the root for a member, absolute for a dependency.
    pub(crate) manifest: String,
    pub(crate) member: bool,
    pub(crate) licence: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<BuildTarget>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: DependencyKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DependencyKind {
    Normal,
    Build,
    Dev,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BuildTarget {
    pub(crate) name: String,
    /// `lib`, `bin`, `test`, `bench`, `example`, `custom-build`, `proc-macro`.
    pub(crate) kind: String,
}

impl Package {
    /// The folder of the package, from the root, without a slash at the end.
    pub(crate) fn folder(&self) -> &str {
        self.manifest
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder)
    }

    pub(crate) fn has_target(&self, kind: &str, name: &str) -> bool {
        self.targets
            .iter()
            .any(|target| target.kind == kind && target.name == name)
    }
}

/// Builds one program with a command of cargo and says where it is.
pub(crate) fn built(command: &mut Command) -> Result<PathBuf> {
    let output = command
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("it cannot be built");
    }
    let lines = output.stdout.rsplit(|byte| *byte == b'\n');
    let mut messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let program = messages.find_map(|message| Some(message["executable"].as_str()?.into()));
    program.context("cargo names no program")
}

/// The cargo that started us, so that a chosen toolchain stays chosen.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Every package of the lock file. Tried without the network first; a fresh machine may still have
/// to fetch the packages of other platforms, whose licences count too.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>> {
    let json = match metadata(root, &["--offline"]) {
        Ok(json) => json,
        Err(_) => metadata(root, &[])?,
    };
    parse(&json, root)
}

/// The members alone, which never needs the network.
pub(crate) fn members(root: &Path) -> Result<Vec<Package>> {
    parse(&metadata(root, &["--no-deps", "--offline"])?, root)
}

fn metadata(root: &Path, options: &[&str]) -> Result<Value> {
    let mut command = cargo();
    command
        .current_dir(root)
        .args(["metadata", "--format-version", "1"])
        .args(options);
    let output = command.output().context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata gave something that is not JSON")
}

fn parse(json: &Value, root: &Path) -> Result<Vec<Package>> {
    let members = texts(&json["workspace_members"]);
    let packages = json["packages"]
        .as_array()
        .context("cargo metadata names no packages")?;
    Ok(packages
        .iter()
        .map(|package| parse_package(package, &members, root))
        .collect())
}

fn parse_package(json: &Value, members: &[String], root: &Path) -> Package {
    let manifest = text(&json["manifest_path"]);
    let relative = Path::new(&manifest)
        .strip_prefix(root)
        .map(|path| path.to_string_lossy().into_owned());
    Package {
        name: text(&json["name"]),
        version: text(&json["version"]),
        manifest: relative.unwrap_or(manifest),
        member: members.contains(&text(&json["id"])),
        licence: json["license"].as_str().map(str::to_owned),
        dependencies: items(&json["dependencies"]).map(parse_dependency).collect(),
        targets: items(&json["targets"]).map(parse_target).collect(),
    }
}

fn parse_dependency(json: &Value) -> Dependency {
    let kind = match json["kind"].as_str() {
        Some("dev") => DependencyKind::Dev,
        Some("build") => DependencyKind::Build,
        _ => DependencyKind::Normal,
    };
    Dependency {
        name: text(&json["name"]),
        kind,
    }
}

fn parse_target(json: &Value) -> BuildTarget {
    BuildTarget {
        name: text(&json["name"]),
        kind: texts(&json["kind"]).into_iter().next().unwrap_or_default(),
    }
}

fn items(json: &Value) -> impl Iterator<Item = &Value> {
    json.as_array().into_iter().flatten()
}

fn texts(json: &Value) -> Vec<String> {
    items(json).map(text).collect()
}

fn text(json: &Value) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_becomes_packages() {
        let json = serde_json::json!({
            "workspace_members": ["path+file:///p/crates/a#0.1.0"],
            "packages": [
                {"id": "path+file:///p/crates/a#0.1.0", "name": "a", "version": "0.1.0", "license": "MIT",
                 "manifest_path": "/p/crates/a/Cargo.toml",
                 "dependencies": [{"name": "b", "kind": null}, {"name": "c", "kind": "dev"}],
                 "targets": [{"name": "chaos_kill", "kind": ["test"]}]},
                {"id": "registry#b@1.0.0", "name": "b", "version": "1.0.0", "license": null,
                 "manifest_path": "/elsewhere/b/Cargo.toml", "dependencies": [], "targets": []}
            ]
        });
        let packages = parse(&json, Path::new("/p")).expect("it parses");
        let [a, b] = packages.as_slice() else {
            panic!("two packages, not {packages:?}")
        };
        assert_eq!((a.folder(), a.member, b.member), ("crates/a", true, false));
        assert_eq!(
            a.dependencies[1],
            Dependency {
                name: "c".into(),
                kind: DependencyKind::Dev
            }
        );
        assert!(a.has_target("test", "chaos_kill") && !a.has_target("bench", "chaos_kill"));
        assert_eq!(b.licence, None);
    }

    #[test]
    fn metadata_without_packages_is_an_error() {
        assert!(parse(&serde_json::json!({}), Path::new("/p")).is_err());
    }
}
