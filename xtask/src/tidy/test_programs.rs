//! Rule `test-programs`: the tests of a crate from outside are one program, and no file of them is
//! forgotten. In: the test targets of each member and the files beside them; out: a finding for a
//! second program, and for a file that no `mod` of the program's root names. A program for each
//! file links the same dependencies again and again; a file that is not named is never compiled.

use std::collections::BTreeSet;

use super::report::TidyReport;
use crate::tree::{SourceTree, stem};

pub(super) fn check(tree: &SourceTree, report: &mut TidyReport) {
    for package in tree.members() {
        let tests = package
            .targets
            .iter()
            .filter(|target| target.kind == "test");
        let names: Vec<&str> = tests.map(|target| target.name.as_str()).collect();
        if let [_, _, ..] = names.as_slice() {
            let count = names.len();
            let names = names.join(", ");
            report.find(
                &package.manifest,
                1,
                format!("{count} test programs ({names}): one with modules is linked once"),
            );
        } else if let [name] = names.as_slice() {
            find_forgotten(tree, &format!("{}/tests", package.folder()), name, report);
        }
    }
}

fn find_forgotten(tree: &SourceTree, folder: &str, name: &str, report: &mut TidyReport) {
    let beside = [
        format!("{folder}/{name}.rs"),
        format!("{folder}/{name}/main.rs"),
    ];
    let root = tree.rust.iter().find(|file| beside.contains(&file.path));
    let Some(root) = root else { return };
    let named: BTreeSet<String> = root.ast.items.iter().filter_map(module).collect();
    let around = root.path.rsplit_once('/').map_or("", |(around, _)| around);
    for file in tree.rust.iter().filter(|file| file.path != root.path) {
        let Some(inside) = file.path.strip_prefix(&format!("{around}/")) else {
            continue;
        };
        let module = match inside.split_once('/') {
            None => stem(inside),
            Some((module, "mod.rs")) => module,
            Some(_) => continue,
        };
        if !named.contains(module) {
            report.find(
                &file.path,
                1,
                format!("{} does not name it, so it is never compiled", root.path),
            );
        }
    }
}

fn module(item: &syn::Item) -> Option<String> {
    match item {
        syn::Item::Mod(module) => Some(module.ident.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::lines;
    use super::*;
    use crate::workspace::{BuildTarget, Package};

    fn found(targets: &[&str], files: &[(&str, &str)]) -> Vec<String> {
        let target = |name: &&str| BuildTarget {
            name: (*name).to_owned(),
            kind: "test".to_owned(),
        };
        let mut tree = SourceTree::made_of(files);
        tree.packages.push(Package {
            manifest: "crates/a/Cargo.toml".to_owned(),
            member: true,
            targets: targets.iter().map(target).collect(),
            ..Package::default()
        });
        lines(check, &tree)
    }

    #[test]
    fn one_program_whose_root_names_every_file_passes() {
        let files = [
            ("crates/a/tests/all.rs", "mod runs; mod stage;"),
            ("crates/a/tests/runs.rs", ""),
            ("crates/a/tests/stage/mod.rs", "mod home;"),
            ("crates/a/tests/stage/home.rs", ""),
        ];
        assert!(found(&["all"], &files).is_empty());
        let files = [
            ("crates/a/tests/all/main.rs", "mod runs;"),
            ("crates/a/tests/all/runs.rs", ""),
        ];
        assert!(found(&["all"], &files).is_empty());
        assert!(found(&[], &[]).is_empty());
    }

    #[test]
    fn a_forgotten_file_and_a_second_program_are_found() {
        let files = [
            ("crates/a/tests/all.rs", "mod runs;"),
            ("crates/a/tests/chaos_kill.rs", ""),
            ("crates/a/tests/runs.rs", ""),
            ("crates/a/tests/stage/mod.rs", ""),
        ];
        let expected = ["chaos_kill.rs", "stage/mod.rs"].map(|file| {
            format!(
                "crates/a/tests/{file}:1: rule: crates/a/tests/all.rs does not name it, so it is \
                 never compiled"
            )
        });
        assert_eq!(found(&["all"], &files), expected);
        assert_eq!(found(&["all", "runs"], &files).len(), 1);
    }
}
