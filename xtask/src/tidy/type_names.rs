//! Rule `type-names`: a type name stands for one thing in the whole workspace. In: parsed files; out:
//! a finding for every name of a struct, enum, union, trait or type alias that is defined more than
//! twice, or that two public ones have. Tests may call their own things what they like; the
//! associated types of implementations have the names that their traits give them.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};
use syn::{Ident, Visibility};

use super::report::TidyReport;
use crate::tree::{self, SourceTree};

/// One for a thing and one for what stands in for it; more are riddles.
const DEFINITIONS: usize = 2;

pub(super) fn check(tree: &SourceTree, report: &mut TidyReport) {
    let mut definitions: BTreeMap<String, Vec<(&str, TypeDefinition)>> = BTreeMap::new();
    for file in tree.rust.iter().filter(|file| !file.test) {
        let mut types = TypeVisitor::default();
        types.visit_file(&file.ast);
        for (name, found) in types.found {
            definitions
                .entry(name)
                .or_default()
                .push((&file.path, found));
        }
    }
    for (name, definitions) in definitions {
        let [(path, first), others @ ..] = definitions.as_slice() else {
            continue;
        };
        let public = definitions.iter().filter(|(_, found)| found.is_public);
        if definitions.len() > DEFINITIONS || public.count() > 1 {
            let others: Vec<&str> = others.iter().map(|(path, _)| *path).collect();
            let count = definitions.len();
            let others = others.join(", ");
            report.find(
                path,
                first.line,
                format!("`{name}` is defined {count} times, also in {others}"),
            );
        }
    }
}

struct TypeDefinition {
    line: usize,
    /// May every crate name it, if its modules let it?
    is_public: bool,
}

#[derive(Default)]
struct TypeVisitor {
    found: Vec<(String, TypeDefinition)>,
}

impl TypeVisitor {
    fn add(&mut self, ident: &Ident, visibility: &Visibility) {
        let found = TypeDefinition {
            line: ident.span().start().line,
            is_public: matches!(visibility, Visibility::Public(_)),
        };
        self.found.push((ident.to_string(), found));
    }
}

impl<'ast> Visit<'ast> for TypeVisitor {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if tree::for_tests(tree::attributes(item)) {
            return;
        }
        match item {
            syn::Item::Struct(item) => self.add(&item.ident, &item.vis),
            syn::Item::Enum(item) => self.add(&item.ident, &item.vis),
            syn::Item::Union(item) => self.add(&item.ident, &item.vis),
            syn::Item::Trait(item) => self.add(&item.ident, &item.vis),
            syn::Item::Type(item) => self.add(&item.ident, &item.vis),
            _ => {}
        }
        visit::visit_item(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::lines;
    use super::*;

    #[test]
    fn a_name_may_be_defined_twice_and_not_three_times() {
        let twice = [
            ("crates/a/src/lib.rs", "struct Answer;\n"),
            ("crates/b/src/lib.rs", "fn f() { enum Answer {} }\n"),
        ];
        assert!(lines(check, &SourceTree::made_of(&twice)).is_empty());
        let third = ("crates/c/src/lib.rs", "\npub type Answer = u8;\n");
        let found = lines(check, &SourceTree::made_of(&[twice[0], twice[1], third]));
        let expected = "crates/a/src/lib.rs:1: rule: `Answer` is defined 3 times, also in \
                        crates/b/src/lib.rs, crates/c/src/lib.rs";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_public_name_is_defined_once() {
        let ours = ("crates/a/src/lib.rs", "pub struct Answer;\n");
        let hidden = ("crates/b/src/lib.rs", "pub(crate) struct Answer;\n");
        assert!(lines(check, &SourceTree::made_of(&[ours, hidden])).is_empty());
        let other = ("crates/b/src/lib.rs", "pub enum Answer {}\n");
        let expected = "crates/a/src/lib.rs:1: rule: `Answer` is defined 2 times, also in \
                        crates/b/src/lib.rs";
        assert_eq!(
            lines(check, &SourceTree::made_of(&[ours, other])),
            [expected]
        );
    }

    #[test]
    fn tests_and_associated_types_do_not_count() {
        let code = "struct Output; #[cfg(test)] mod tests { struct Output; }\n\
                    impl Future for A { type Output = u8; } impl Future for B { type Output = u8; }";
        let files = [
            ("crates/a/src/lib.rs", code),
            ("crates/a/tests/b.rs", "struct Output;"),
            ("crates/a/benches/c.rs", "struct Output;"),
        ];
        assert!(lines(check, &SourceTree::made_of(&files)).is_empty());
    }
}
