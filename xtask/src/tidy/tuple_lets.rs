//! Rule `tuple-lets`: `let (a, b) = (x, y)` binds what belongs together. In: parsed files without
//! their tests; out: a finding where the values are more than three or are not made in the same
//! way. Alike are calls of one function or method, fields of one value, clones, and the values with
//! which a loop begins (`Vec::new()`, `0`, `None`); what one call gives as a tuple is not meant.

use std::collections::BTreeSet;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, ExprPath, Local, Pat};

use super::report::TidyReport;
use crate::tree::{self, SourceTree};

const VALUES: usize = 3;
/// What all start values are alike in.
const START: &str = "a value to begin with";

pub(super) fn check(tree: &SourceTree, report: &mut TidyReport) {
    for file in tree.rust.iter().filter(|file| !file.test) {
        let mut lets = TupleLets::default();
        lets.visit_file(&file.ast);
        for line in lets.found {
            let message =
                "values that are not made alike, bound in one tuple: use a `let` for each";
            report.find(&file.path, line, message.to_owned());
        }
    }
}

#[derive(Default)]
struct TupleLets {
    found: Vec<usize>,
}

impl<'ast> Visit<'ast> for TupleLets {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !tree::for_tests(tree::attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_local(&mut self, local: &'ast Local) {
        if let Some(names) = tuple_pattern(&local.pat)
            && let Some(init) = local.init.as_ref().filter(|init| init.diverge.is_none())
            && let Expr::Tuple(values) = &*init.expr
            && names.elems.len() == values.elems.len()
        {
            let made: BTreeSet<String> = values.elems.iter().map(how_made).collect();
            if made.len() > 1 || values.elems.len() > VALUES {
                self.found.push(names.paren_token.span.open().start().line);
            }
        }
        visit::visit_local(self, local);
    }
}

fn tuple_pattern(pattern: &Pat) -> Option<&syn::PatTuple> {
    match pattern {
        Pat::Tuple(tuple) => Some(tuple),
        Pat::Type(typed) => tuple_pattern(&typed.pat),
        _ => None,
    }
}

/// In what way a value comes about, whatever it is made of.
fn how_made(value: &Expr) -> String {
    match value {
        Expr::Reference(it) => how_made(&it.expr),
        Expr::Paren(it) => how_made(&it.expr),
        Expr::Try(it) => how_made(&it.expr),
        Expr::Await(it) => how_made(&it.base),
        Expr::Unary(it) => how_made(&it.expr),
        Expr::Cast(it) => how_made(&it.expr),
        Expr::Lit(it) => match it.lit {
            syn::Lit::Str(_) => "a text".to_owned(),
            _ => START.to_owned(),
        },
        Expr::Path(it) => name(it),
        Expr::Field(it) => format!("a field of {}", text(&it.base)),
        Expr::Index(_) => "an element".to_owned(),
        Expr::Call(it) => called(&it.func, it.args.is_empty()),
        Expr::MethodCall(it) => match it.method.to_string().as_str() {
            "unwrap" | "expect" => how_made(&it.receiver),
            method => format!("a call of {method}"),
        },
        Expr::Macro(it) => format!("a macro {}", text(&it.mac.path)),
        Expr::Struct(it) => format!("a {}", text(&it.path)),
        Expr::Binary(it) => format!("an operation {}", text(&it.op)),
        Expr::Closure(_) => "a closure".to_owned(),
        other => text(other),
    }
}

fn text(part: &impl Spanned) -> String {
    let text = part.span().source_text().unwrap_or_default();
    text.split_whitespace().collect()
}

fn name(path: &ExprPath) -> String {
    match path.path.segments.last() {
        Some(last) if last.ident == "None" => START.to_owned(),
        _ => "a name".to_owned(),
    }
}

fn called(function: &Expr, is_plain: bool) -> String {
    let Expr::Path(path) = function else {
        return text(function);
    };
    let names: Vec<String> = path
        .path
        .segments
        .iter()
        .map(|segment| segment.ident.to_string())
        .collect();
    match names.last().map(String::as_str) {
        Some("new" | "default") if is_plain && names.len() > 1 => START.to_owned(),
        Some("with_capacity") if names.len() > 1 => START.to_owned(),
        Some("clone") if names.len() > 1 => "a call of clone".to_owned(),
        _ => format!("a call of {}", names.join("::")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::lines;
    use super::*;

    fn found(statement: &str) -> usize {
        let code = format!("fn f() {{\n    {statement}\n}}\n");
        let tree = SourceTree::made_of(&[("crates/a/src/lib.rs", &code)]);
        lines(check, &tree).len()
    }

    #[test]
    fn values_that_are_made_alike_stay_together() {
        for statement in [
            "let (left, right) = (plain(left), plain(right));",
            "let (from, to) = (read(&from)?, read(&to).await?);",
            "let (mut rows, mut after) = (Vec::new(), None);",
            "let (mut p, mut t) = (0, 0_u64);",
            "let (line, column) = (self.at.line, &self.at.column);",
            "let (store, gate) = (Arc::clone(&store), gate.clone());",
            "let (one, two): (u8, u8) = (a.get(0)?, b.get(1).unwrap());",
            "let (read, write) = pair();",
            "let (first, second) = if late { (0, a()) } else { (1, b()) };",
        ] {
            assert_eq!(found(statement), 0, "{statement}");
        }
    }

    #[test]
    fn what_does_not_belong_together_is_found_with_its_line() {
        for statement in [
            "let (now, runner) = (clock.wall(), adopter.runner());",
            "let (name, count) = (record.name, rows.len());",
            "let (mut rows, process) = (Vec::new(), &mut self.processes[0]);",
            "let (a, b, c, d) = (0, 0, 0, 0);",
            "let (run, key) = (record.run, other.key);",
        ] {
            assert_eq!(found(statement), 1, "{statement}");
        }
        let code = "fn f() {\n    let (a, b) = (x(), y());\n}\n";
        let tree = SourceTree::made_of(&[("crates/a/src/lib.rs", code)]);
        assert!(lines(check, &tree)[0].starts_with("crates/a/src/lib.rs:2: rule: values"));
    }

    #[test]
    fn tests_may_bind_what_they_like() {
        let code = "#[cfg(test)]\nmod tests {\n    fn f() { let (a, b) = (x(), 1); }\n}\n";
        let tree = SourceTree::made_of(&[("crates/a/src/lib.rs", code)]);
        assert!(lines(check, &tree).is_empty());
    }
}
