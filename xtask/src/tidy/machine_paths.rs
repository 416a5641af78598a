//! Rule `machine-paths`: nothing we publish names a folder of the machine it was written on. In:
//! all text files; out: a finding per line with such a path.

use super::report::TidyReport;
use crate::tree::SourceTree;

/// The top folders that give a machine away. Written without their slashes, or this file would find
/// itself.
const FOLDERS: &[&str] = &["work", "root", "farm"];

pub(super) fn check(tree: &SourceTree, report: &mut TidyReport) {
    let needles: Vec<String> = FOLDERS.iter().map(|folder| format!("/{folder}/")).collect();
    for file in &tree.files {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(needle) = needles.iter().find(|needle| names_path(line, needle)) {
                report.find(
                    &file.path,
                    index + 1,
                    format!("`{needle}…` is a path of one machine"),
                );
            }
        }
    }
}

/// Whether the path starts at the root: `crates/x/y` and `./x/y` are somebody's relative paths.
fn names_path(line: &str, needle: &str) -> bool {
    line.match_indices(needle).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|letter| !letter.is_alphanumeric() && !"_-.~})]*".contains(letter))
    })
}

#[cfg(test)]
mod tests {
    use super::super::report::lines;
    use super::*;

    fn found(line: &str) -> usize {
        lines(check, &SourceTree::made_of(&[("a.md", line)])).len()
    }

    #[test]
    fn relative_paths_and_other_folders_pass() {
        for folder in FOLDERS {
            let fine = [
                format!("see crates/{folder}/lib.rs"),
                format!("./{folder}/x"),
                format!("https://a.b/{folder}/x"),
            ];
            assert!(fine.iter().all(|line| found(line) == 0), "{fine:?}");
        }
        assert_eq!(found("/usr/lib/postgresql/15/bin"), 0);
    }

    #[test]
    fn machine_paths_are_found_wherever_they_start() {
        for folder in FOLDERS {
            let wrong = [
                format!("/{folder}/x"),
                format!("cd '/{folder}/x'"),
                format!("file:///{folder}/x"),
            ];
            assert!(wrong.iter().all(|line| found(line) == 1), "{wrong:?}");
        }
    }
}
