//! Rule `sizes`: files, functions and parameter lists end somewhere. In: parsed Rust files; out: a
//! finding for each that is over the stop in STYLE.md. Code for tests is not counted. Lines of a
//! function are counted as clippy counts them: inside the braces, without blank lines and comments.

use std::collections::BTreeSet;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, Signature};

use super::report::TidyReport;
use crate::tree::{self, RustFile, SourceTree};

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;
const PARAMETERS: usize = 5;

pub(super) fn check(tree: &SourceTree, report: &mut TidyReport) {
    for file in tree.rust.iter().filter(|file| !file.test) {
        let mut sizes = Sizes::of(file);
        sizes.visit_file(&file.ast);
        let lines = file.text.lines().count() - sizes.test_lines.len();
        if lines > FILE_LINES {
            report.find(
                &file.path,
                1,
                format!("{lines} lines without tests, more than {FILE_LINES}"),
            );
        }
        for (line, message) in sizes.found {
            report.find(&file.path, line, message);
        }
    }
}

/// The lines of a file that are code: no blank lines, no comments, nothing for tests.
pub(super) fn code_lines(file: &RustFile) -> usize {
    let mut sizes = Sizes::of(file);
    sizes.visit_file(&file.ast);
    let lines = sizes.lines.iter().zip(1..);
    lines
        .filter(|(line, number)| is_code(line) && !sizes.test_lines.contains(number))
        .count()
}

fn is_code(line: &str) -> bool {
    !line.trim().is_empty() && !line.trim_start().starts_with("//")
}

struct Sizes<'file> {
    lines: Vec<&'file str>,
    test_lines: BTreeSet<usize>,
    found: Vec<(usize, String)>,
    /// Where the signature was chosen elsewhere, and counted there if the trait is ours.
    in_trait_impl: bool,
}

impl<'file> Sizes<'file> {
    fn of(file: &'file RustFile) -> Self {
        let lines = file.text.lines().collect();
        Self {
            lines,
            test_lines: BTreeSet::new(),
            found: Vec::new(),
            in_trait_impl: false,
        }
    }

    fn leave_out(&mut self, attributes: &[Attribute], item: &impl Spanned) {
        let first = attributes
            .first()
            .map_or_else(|| item.span(), Spanned::span)
            .start()
            .line;
        self.test_lines.extend(first..=item.span().end().line);
    }

    fn measure(&mut self, signature: &Signature, block: Option<&Block>) {
        let name = &signature.ident;
        let line = signature.ident.span().start().line;
        let lines = block.map_or(0, |block| self.code_lines(block));
        if lines > FUNCTION_LINES {
            self.found.push((
                line,
                format!("`{name}` has {lines} lines, more than {FUNCTION_LINES}"),
            ));
        }
        let parameters = signature.inputs.len();
        if parameters > PARAMETERS && !self.in_trait_impl {
            self.found.push((
                line,
                format!("`{name}` takes {parameters} parameters, more than {PARAMETERS}"),
            ));
        }
    }

    fn code_lines(&self, block: &Block) -> usize {
        let span = block.span();
        let inside = self
            .lines
            .get(span.start().line..span.end().line.saturating_sub(1))
            .unwrap_or_default();
        inside.iter().filter(|line| is_code(line)).count()
    }
}

impl<'ast> Visit<'ast> for Sizes<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = tree::attributes(item);
        if tree::for_tests(attributes) {
            self.leave_out(attributes, item);
        } else {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig, Some(&item.block));
        visit::visit_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let around = std::mem::replace(&mut self.in_trait_impl, item.trait_.is_some());
        visit::visit_item_impl(self, item);
        self.in_trait_impl = around;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if tree::for_tests(&item.attrs) {
            return self.leave_out(&item.attrs, item);
        }
        self.measure(&item.sig, Some(&item.block));
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.measure(&item.sig, item.default.as_ref());
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::lines;
    use super::*;

    fn found(code: &str) -> Vec<String> {
        lines(
            check,
            &SourceTree::made_of(&[("crates/a/src/lib.rs", code)]),
        )
    }

    fn function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines))
    }

    #[test]
    fn a_file_is_stopped_at_its_limit_and_tests_do_not_count() {
        let tests = format!(
            "#[cfg(test)]\nmod tests {{\n{}}}\n",
            "// a line\n".repeat(300)
        );
        assert!(found(&format!("{}{tests}", "// a line\n".repeat(FILE_LINES))).is_empty());
        let expected = ["crates/a/src/lib.rs:1: rule: 601 lines without tests, more than 600"];
        assert_eq!(
            found(&format!("{}{tests}", "// a line\n".repeat(FILE_LINES + 1))),
            expected
        );
    }

    #[test]
    fn a_function_is_stopped_at_its_limit_and_comments_do_not_count() {
        assert!(found(&function(FUNCTION_LINES)).is_empty());
        assert!(
            found(&function(FUNCTION_LINES).replace("fn f() {\n", "fn f() {\n\n    // why\n"))
                .is_empty()
        );
        let expected = ["crates/a/src/lib.rs:1: rule: `f` has 71 lines, more than 70"];
        assert_eq!(found(&function(FUNCTION_LINES + 1)), expected);
        assert_eq!(
            found(&format!("impl A {{\n{}}}\n", function(FUNCTION_LINES + 1))).len(),
            1
        );
        assert_eq!(
            found(&format!("trait A {{\n{}}}\n", function(FUNCTION_LINES + 1))).len(),
            1
        );
    }

    #[test]
    fn parameters_are_counted_with_self() {
        assert!(found("fn f(a: u8, b: u8, c: u8, d: u8, e: u8) {}").is_empty());
        let expected = ["crates/a/src/lib.rs:2: rule: `f` takes 6 parameters, more than 5"];
        assert_eq!(
            found("trait A {\nfn f(&self, a: u8, b: u8, c: u8, d: u8, e: u8); }"),
            expected
        );
    }

    #[test]
    fn a_trait_answers_for_the_parameters_of_its_implementations() {
        let parameters = "(&self, a: u8, b: u8, c: u8, d: u8, e: u8)";
        assert!(found(&format!("impl A for B {{ fn f{parameters} {{}} }}")).is_empty());
        assert_eq!(
            found(&format!("impl B {{ fn f{parameters} {{}} }}")).len(),
            1
        );
        assert_eq!(
            found(&format!("trait A {{ fn f{parameters} {{}} }}")).len(),
            1
        );
    }

    #[test]
    fn test_code_is_left_alone() {
        assert!(
            found(&format!(
                "#[cfg(test)]\nmod tests {{\n{}}}",
                function(FUNCTION_LINES + 1)
            ))
            .is_empty()
        );
        let tree =
            SourceTree::made_of(&[("crates/a/tests/b.rs", &"// a line\n".repeat(FILE_LINES + 1))]);
        assert!(lines(check, &tree).is_empty());
    }
}
