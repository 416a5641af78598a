//! Where the programs of Postgres are: on the path, in the folders where distributions put them, or
//! in the package that we install when we may. In: the file system; out: the folder that holds all
//! of them, or an error that says what to do.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// What a folder must hold to be of use.
const PROGRAMS: &[&str] = &["initdb", "postgres", "pg_ctl"];

/// Where distributions put them. A star stands for one part of a name, the highest version first.
const USUAL: &[&str] = &[
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql/bin",
    "/usr/local/opt/postgresql*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/opt/homebrew/bin",
    "/opt/local/lib/postgresql*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Programs {
    pub(super) folder: PathBuf,
}

impl Programs {
    pub(super) fn command(&self, name: &str) -> Command {
        Command::new(self.folder.join(name))
    }
}

pub(super) fn find() -> Option<Programs> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(real_folder);
    let usual = USUAL.iter().flat_map(|pattern| expand(pattern));
    first_complete(on_path.chain(usual))
}

/// Installs the distribution's package, which only root may do, and finds what it brought.
pub(super) fn install(am_root: bool) -> Result<Programs> {
    let advice = "install PostgreSQL, or leave its tests out with --no-postgres";
    if !am_root {
        bail!("no PostgreSQL found (initdb, postgres, pg_ctl) and we may not install it; {advice}");
    }
    for arguments in [
        &["update"][..],
        &["install", "-y", "--no-install-recommends", "postgresql"],
    ] {
        println!(
            "no PostgreSQL found; installing the package: apt-get {}",
            arguments.join(" ")
        );
        let mut command = Command::new("apt-get");
        let status = command
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .status();
        let status = status.with_context(|| {
            format!("no PostgreSQL found and no apt-get to install it with; {advice}")
        })?;
        if !status.success() {
            bail!("apt-get {} failed; {advice}", arguments.join(" "));
        }
    }
    find().with_context(|| {
        format!("the package is installed but its programs are in no folder we know; {advice}")
    })
}

fn first_complete(folders: impl Iterator<Item = PathBuf>) -> Option<Programs> {
    let is_complete = |folder: &PathBuf| PROGRAMS.iter().all(|name| folder.join(name).is_file());
    folders
        .filter(|folder| folder.is_absolute())
        .find(is_complete)
        .map(|folder| Programs { folder })
}

/// The folder that a link on the path leads to: `postgres` looks for its other files beside itself.
fn real_folder(folder: PathBuf) -> PathBuf {
    let real = folder.join(PROGRAMS[0]).canonicalize().ok();
    real.as_deref()
        .and_then(Path::parent)
        .map_or(folder, Path::to_path_buf)
}

/// The folders that a pattern with one star stands for, the highest version first.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else {
        return vec![pattern.into()];
    };
    let (parent, prefix) = before.rsplit_once('/').unwrap_or_default();
    let after = after.trim_start_matches('/');
    let Ok(entries) = std::fs::read_dir(parent) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort_by_key(|name| std::cmp::Reverse(version(name)));
    names
        .into_iter()
        .map(|name| Path::new(parent).join(name).join(after))
        .collect()
}

/// The numbers in a name, so that 15 comes after 9.6.
fn version(name: &str) -> Vec<u32> {
    name.split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(parent: &Path, name: &str, programs: &[&str]) -> PathBuf {
        let folder = parent.join(name).join("bin");
        std::fs::create_dir_all(&folder).expect("a folder is made");
        for program in programs {
            std::fs::write(folder.join(program), "").expect("a file is written");
        }
        folder
    }

    #[test]
    fn the_highest_complete_version_is_taken() {
        let parent = tempfile::tempdir().expect("a temporary folder");
        folder_with(parent.path(), "pg-9.6", PROGRAMS);
        let expected = folder_with(parent.path(), "pg-15", PROGRAMS);
        folder_with(parent.path(), "pg-17", &["initdb", "postgres"]);
        let pattern = format!("{}/pg-*/bin", parent.path().display());
        assert_eq!(
            first_complete(expand(&pattern).into_iter()),
            Some(Programs { folder: expected })
        );
    }

    #[test]
    fn a_link_on_the_path_leads_to_the_real_folder() {
        let parent = tempfile::tempdir().expect("a temporary folder");
        let real = folder_with(parent.path(), "real", PROGRAMS)
            .canonicalize()
            .expect("it exists");
        let links = folder_with(parent.path(), "links", &[]);
        std::os::unix::fs::symlink(real.join("initdb"), links.join("initdb"))
            .expect("a link is made");
        assert_eq!(real_folder(links), real);
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        let parent = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(
            first_complete([parent.path().join("gone"), PathBuf::from("bin")].into_iter()),
            None
        );
        assert!(expand("/no/such/folder/*/bin").is_empty());
    }

    #[test]
    fn without_leave_to_install_the_error_names_the_way_out() {
        let error = install(false)
            .expect_err("only root may install")
            .to_string();
        assert!(error.contains("--no-postgres"), "{error}");
    }
}
