//! The tree that tidy judges: every file git tracks or would track, its text, and the parsed form
//! of the Rust files. In: a folder, or made-up files in the tests of the rules; out: one value that
//! all rules share. Judges nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use syn::{Attribute, Item};

use crate::workspace::{self, Package};

#[derive(Debug, Default)]
pub(crate) struct SourceTree {
    pub(crate) files: Vec<TextFile>,
    pub(crate) rust: Vec<RustFile>,
    pub(crate) packages: Vec<Package>,
    /// Every file, also those that are not text.
    pub(crate) paths: BTreeSet<String>,
}

#[derive(Debug)]
pub(crate) struct TextFile {
    /// From the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) struct RustFile {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) ast: syn::File,
    /// Whether the file is compiled for tests alone: in a `tests` or `benches` folder, or declared
    /// under `cfg(test)`.
    pub(crate) test: bool,
}

impl std::fmt::Debug for RustFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RustFile")
            .field("path", &self.path)
            .field("test", &self.test)
            .finish_non_exhaustive()
    }
}

/// The root of the project, found upwards from the current folder.
pub(crate) fn root() -> Result<PathBuf> {
    let here = std::env::current_dir().context("there is no current folder")?;
    let root = here
        .ancestors()
        .find(|folder| folder.join("xtask/Cargo.toml").is_file());
    root.map(Path::to_path_buf)
        .context("run this inside the project")
}

impl SourceTree {
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        let mut paths = BTreeSet::new();
        for path in tracked(root)? {
            let Ok(bytes) = std::fs::read(root.join(&path)) else {
                continue;
            };
            paths.insert(path.clone());
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(TextFile { path, text });
            }
        }
        Self::of(files, paths, workspace::packages(root)?)
    }

    fn of(files: Vec<TextFile>, paths: BTreeSet<String>, packages: Vec<Package>) -> Result<Self> {
        let mut rust = Vec::new();
        for file in files.iter().filter(|file| has_extension(&file.path, "rs")) {
            let ast = syn::parse_file(&file.text)
                .with_context(|| format!("{}: this is not Rust that can be parsed", file.path))?;
            rust.push(RustFile {
                path: file.path.clone(),
                text: file.text.clone(),
                ast,
                test: false,
            });
        }
        mark_tests(&mut rust);
        Ok(Self {
            files,
            rust,
            packages,
            paths,
        })
    }

    #[cfg(test)]
    pub(crate) fn made_of(files: &[(&str, &str)]) -> Self {
        let texts = files.iter().map(|(path, text)| TextFile {
            path: (*path).into(),
            text: (*text).into(),
        });
        let paths = files.iter().map(|(path, _)| (*path).to_owned()).collect();
        Self::of(texts.collect(), paths, Vec::new()).expect("made-up files parse")
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files
            .iter()
            .find(|file| file.path == path)
            .map(|file| file.text.as_str())
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.member)
    }
}

pub(crate) fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|found| found == extension)
}

/// The name of a file without folder and extension.
pub(crate) fn stem(path: &str) -> &str {
    Path::new(path)
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or(path)
}

/// The line, counted from 1, on which `wanted` first occurs; 1 when it does not.
pub(crate) fn line_of(text: &str, wanted: impl Fn(&str) -> bool) -> usize {
    text.lines().position(wanted).map_or(1, |index| index + 1)
}

/// Whether these attributes hold something back for tests: `cfg(test)`, `cfg(all(test, …))`,
/// `test`.
pub(crate) fn for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        if attribute.path().is_ident("test") {
            return true;
        }
        let syn::Meta::List(list) = &attribute.meta else {
            return false;
        };
        let condition = list.tokens.to_string();
        list.path.is_ident("cfg") && (condition == "test" || condition.starts_with("all (test"))
    })
}

pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// What git tracks, and what it would track if it were added: a rule that waits for `git add` is
/// found out too late.
fn tracked(root: &Path) -> Result<Vec<String>> {
    let mut command = Command::new("git");
    command.current_dir(root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let output = command.output().context("cannot run git")?;
    if !output.status.success() {
        bail!(
            "git ls-files failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let listing = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let paths: BTreeSet<String> = listing
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
        .collect();
    Ok(paths.into_iter().collect())
}

fn mark_tests(files: &mut [RustFile]) {
    let declared: Vec<String> = files.iter().flat_map(test_modules).collect();
    for file in files {
        let by_folder = file
            .path
            .split('/')
            .any(|part| part == "tests" || part == "benches");
        let by_module = declared.iter().any(|module| {
            file.path
                .strip_prefix(module.as_str())
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        });
        file.test = by_folder || by_module;
    }
}

/// The modules that a file declares as `#[cfg(test)] mod name;`, as paths without `.rs`.
fn test_modules(file: &RustFile) -> Vec<String> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let inside = match stem(&file.path) {
        "mod" | "lib" | "main" => folder.to_owned(),
        name => format!("{folder}/{name}"),
    };
    let modules = file.ast.items.iter().filter_map(|item| match item {
        Item::Mod(module) if module.content.is_none() && for_tests(&module.attrs) => {
            Some(module.ident.to_string())
        }
        _ => None,
    });
    modules.map(|name| format!("{inside}/{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests_among(files: &[(&str, &str)]) -> Vec<String> {
        SourceTree::made_of(files)
            .rust
            .into_iter()
            .filter(|file| file.test)
            .map(|file| file.path)
            .collect()
    }

    #[test]
    fn test_files_are_known_by_folder_and_by_declaration() {
        let files = [
            ("c/src/lib.rs", "#[cfg(test)] mod checks; mod queue;"),
            ("c/src/checks.rs", ""),
            ("c/src/checks/claim.rs", ""),
            ("c/src/queue.rs", "#[cfg(all(test, unix))] mod tests;"),
            ("c/src/queue/tests.rs", ""),
            ("c/tests/whole.rs", ""),
        ];
        let expected = [
            "c/src/checks.rs",
            "c/src/checks/claim.rs",
            "c/src/queue/tests.rs",
            "c/tests/whole.rs",
        ];
        assert_eq!(tests_among(&files), expected);
    }

    #[test]
    fn other_conditions_are_not_tests() {
        assert!(
            tests_among(&[("c/src/lib.rs", "#[cfg(unix)] mod a;"), ("c/src/a.rs", "")]).is_empty()
        );
    }

    #[test]
    fn git_lists_new_files_and_leaves_ignored_ones() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let git = Command::new("git")
            .args(["init", "-q"])
            .current_dir(folder.path())
            .status()
            .expect("git runs");
        assert!(git.success());
        for (name, text) in [(".gitignore", "/target\n"), ("a.md", "a"), ("target", "x")] {
            std::fs::write(folder.path().join(name), text).expect("it is written");
        }
        assert_eq!(
            tracked(folder.path()).expect("git lists"),
            [".gitignore", "a.md"]
        );
    }

    #[test]
    fn a_folder_without_git_is_an_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert!(tracked(folder.path()).is_err());
    }
}
