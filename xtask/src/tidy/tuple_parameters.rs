//! Rule `tuple-parameters`: a function takes its values one by one, or a struct that says what they
//! are together. In: parsed files without their tests; out: a finding where a parameter is taken
//! apart from a tuple that has no name of its own. Closures take what they are given.

use syn::visit::{self, Visit};
use syn::{FnArg, Pat, Signature, Type};

use super::report::TidyReport;
use crate::tree::{self, SourceTree};

pub(super) fn check(tree: &SourceTree, report: &mut TidyReport) {
    for file in tree.rust.iter().filter(|file| !file.test) {
        let mut parameters = TupleParameters::default();
        parameters.visit_file(&file.ast);
        for line in parameters.found {
            let message = "a parameter that is a tuple: use one for each value, or a struct";
            report.find(&file.path, line, message.to_owned());
        }
    }
}

#[derive(Default)]
struct TupleParameters {
    found: Vec<usize>,
}

impl<'ast> Visit<'ast> for TupleParameters {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !tree::for_tests(tree::attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        for input in &signature.inputs {
            if let FnArg::Typed(typed) = input
                && let (Pat::Tuple(names), Type::Tuple(_)) = (&*typed.pat, &*typed.ty)
            {
                self.found.push(names.paren_token.span.open().start().line);
            }
        }
        visit::visit_signature(self, signature);
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::lines;
    use super::*;

    fn found(code: &str) -> Vec<String> {
        let tree = SourceTree::made_of(&[("crates/a/src/lib.rs", code)]);
        lines(check, &tree)
    }

    #[test]
    fn a_tuple_that_is_taken_apart_is_found_with_its_line() {
        let found = found("fn f(a: u8,\n (b, c): (u8, u8)) {}\n");
        assert!(found[0].starts_with("crates/a/src/lib.rs:2: rule: a parameter"));
        assert_eq!(found.len(), 1);
        for code in [
            "struct S;\nimpl S {\n    fn f(&self, (b, c): (u8, u8)) {}\n}\n",
            "trait T {\n    fn f(&self, (b, c): (u8, u8)) {}\n}\n",
        ] {
            assert_eq!(self::found(code).len(), 1, "{code}");
        }
    }

    #[test]
    fn named_types_closures_and_tests_are_left_alone() {
        for code in [
            "fn f(pair: (u8, u8)) {}\n",
            "fn f((b, c): Refusal) {}\n",
            "fn f() {\n    all.map(|(b, c): (u8, u8)| b);\n}\n",
            "#[cfg(test)]\nmod tests {\n    fn f((b, c): (u8, u8)) {}\n}\n",
        ] {
            assert!(found(code).is_empty(), "{code}");
        }
    }
}
