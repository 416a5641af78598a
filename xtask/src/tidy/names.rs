//! Rule `names`: words that say nothing are banned from the names of files, folders, modules and
//! types. In: paths and parsed files; out: a finding per name. Functions and variables are left
//! alone: `new` is a fine constructor.

use std::collections::BTreeSet;

use proc_macro2::Span;
use syn::visit::{self, Visit};

use super::report::TidyReport;
use crate::tree::{RustFile, SourceTree};

const BANNED: &[&str] = &[
    "util",
    "utils",
    "utility",
    "utilities",
    "common",
    "helper",
    "helpers",
    "misc",
    "shared",
    "base",
    "core",
    "manager",
    "managers",
    "processor",
    "processors",
    "data",
    "info",
    "infos",
    "impl",
    "impls",
    "old",
    "new",
];

/// Where code lives; documents and root files may be called what they like.
const CODE: &[&str] = &["crates/", "xtask/", "python/"];

pub(super) fn check(tree: &SourceTree, report: &mut TidyReport) {
    check_paths(tree, report);
    for file in &tree.rust {
        check_file(file, report);
    }
}

fn check_paths(tree: &SourceTree, report: &mut TidyReport) {
    let mut seen = BTreeSet::new();
    for path in tree
        .paths
        .iter()
        .filter(|path| CODE.iter().any(|folder| path.starts_with(folder)))
    {
        for part in path.split('/') {
            if let Some(word) = banned_word(part)
                && seen.insert((part, word.clone()))
            {
                report.find(
                    path,
                    1,
                    format!("`{part}` is named `{word}`, which says nothing"),
                );
            }
        }
    }
}

fn check_file(file: &RustFile, report: &mut TidyReport) {
    let mut names = NameVisitor::default();
    names.visit_file(&file.ast);
    for (name, span) in names.found {
        if let Some(word) = banned_word(&name) {
            report.find(
                &file.path,
                span.start().line,
                format!("`{name}` is named `{word}`, which says nothing"),
            );
        }
    }
}

/// The first banned word in a name written in snake, kebab or camel case.
fn banned_word(name: &str) -> Option<String> {
    words(name)
        .into_iter()
        .find(|word| BANNED.contains(&word.as_str()) || is_version(word))
}

fn is_version(word: &str) -> bool {
    let digits = word.strip_prefix('v').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (index, letter) in letters.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| letters[before]);
        if !letter.is_alphanumeric() || starts_word(before, *letter, letters.get(index + 1)) {
            words.push(String::new());
        }
        if letter.is_alphanumeric() {
            words
                .last_mut()
                .expect("there is always a word")
                .extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A capital starts a word after a small letter, and the last capital of several does before a
/// small letter.
fn starts_word(before: Option<char>, letter: char, after: Option<&char>) -> bool {
    let Some(before) = before else { return false };
    letter.is_uppercase()
        && (!before.is_uppercase() || after.is_some_and(|after| after.is_lowercase()))
}

#[derive(Default)]
struct NameVisitor {
    found: Vec<(String, Span)>,
}

impl NameVisitor {
    fn add(&mut self, ident: &syn::Ident) {
        self.found.push((ident.to_string(), ident.span()));
    }
}

impl<'ast> Visit<'ast> for NameVisitor {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        // A module with a file of its own is found by its path.
        if item.content.is_some() {
            self.add(&item.ident);
        }
        visit::visit_item_mod(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(&item.ident);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.add(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.add(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.add(&item.ident);
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::lines;
    use super::*;

    #[test]
    fn names_that_say_something_pass() {
        let code = "mod base64 {} struct Database; struct Metadata; enum Renewal {} fn new() {} struct HTTPServer;";
        assert!(
            lines(
                check,
                &SourceTree::made_of(&[("crates/a/src/lib.rs", code), ("docs/data.md", "")])
            )
            .is_empty()
        );
    }

    #[test]
    fn banned_files_and_folders_are_found_once() {
        let files = [
            ("crates/a/src/string_util.rs", ""),
            ("crates/a/tests/common/mod.rs", ""),
            ("crates/a/v2/x.sql", ""),
        ];
        let found = lines(check, &SourceTree::made_of(&files));
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(
            lines(
                check,
                &SourceTree::made_of(&[("xtask/core/a.txt", ""), ("xtask/core/b.txt", "")])
            )
            .len(),
            1
        );
    }

    #[test]
    fn banned_modules_and_types_are_found_with_their_line() {
        let code = "struct RunInfo;\nmod helpers {}\nfn f() { struct StoreV2; }\ntrait QueueManager {}\ntype RowData = u8;\n";
        let found = lines(
            check,
            &SourceTree::made_of(&[("crates/a/src/lib.rs", code)]),
        );
        let numbers: Vec<&str> = found
            .iter()
            .filter_map(|line| line.split(':').nth(1))
            .collect();
        assert_eq!(numbers, ["1", "2", "3", "4", "5"], "{found:?}");
    }

    #[test]
    fn words_are_split_in_every_case() {
        assert_eq!(words("HTTPInfo_old-v2"), ["http", "info", "old", "v2"]);
        assert_eq!(words("base64"), ["base64"]);
    }
}
