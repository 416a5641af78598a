//! Where pgbouncer is, the pooler that the tests go through: on the path, where distributions put
//! it, or in the package that we install when we may. In: the file system; out: a variable for the
//! tests. Where it cannot be had, the tests are told why: they go through a small pooler of their
//! own alone.

use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = "pgbouncer";
/// Where distributions put it, beside the path.
const USUAL: &[&str] = &["/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"];

/// The variable that leads the tests to it, or the one that says why it is not there.
pub(super) fn variable(am_root: bool) -> (&'static str, String) {
    match find().or_else(|| install(am_root)) {
        Some(program) => ("LOPE_TEST_PGBOUNCER", program.display().to_string()),
        None => {
            let why = "no pgbouncer found, and it could not be installed";
            println!("{why}: the tests of poolers go through their own alone");
            ("LOPE_TEST_NO_PGBOUNCER", why.to_owned())
        }
    }
}

fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(USUAL.iter().map(PathBuf::from));
    first(folders)
}

fn first(folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let mut programs = folders
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(PROGRAM));
    programs.find(|program| program.is_file())
}

/// The distribution's package. The lists of packages may be older than the package: then they are
/// fetched first.
fn install(am_root: bool) -> Option<PathBuf> {
    if !am_root {
        return None;
    }
    let package = ["install", "-y", "--no-install-recommends", PROGRAM];
    let installed = apt_get(&package) || (apt_get(&["update"]) && apt_get(&package));
    find().filter(|_| installed)
}

fn apt_get(arguments: &[&str]) -> bool {
    println!(
        "no pgbouncer found; installing the package: apt-get {}",
        arguments.join(" ")
    );
    let mut command = Command::new("apt-get");
    command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive");
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_in_the_first_folder_that_has_it() {
        let (empty, full) = (tempfile::tempdir(), tempfile::tempdir());
        let (empty, full) = (empty.expect("a folder"), full.expect("a folder"));
        std::fs::write(full.path().join(PROGRAM), "").expect("a file");
        let folders = ["bin".into(), empty.path().into(), full.path().into()];
        assert_eq!(first(folders.into_iter()), Some(full.path().join(PROGRAM)));
        assert_eq!(first([empty.path().into()].into_iter()), None);
    }

    #[test]
    fn nobody_but_root_installs_anything() {
        assert_eq!(install(false), None);
    }
}
