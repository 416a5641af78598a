//! Rule `walks`: the walks in ARCHITECTURE.md lead past places that exist. In: its sections called
//! "The walk of …", whose list items begin with a file and a function in backquotes; out: a finding
//! for an item that names none, for a file or function that is not there, and for a walk of too
//! many stops. A method may be named with its type, `Type::method`.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};

use super::report::TidyReport;
use crate::tree::SourceTree;

const DOCUMENT: &str = "ARCHITECTURE.md";
const HEADING: &str = "The walk of ";
const STOPS: usize = 20;

pub(super) fn check(tree: &SourceTree, report: &mut TidyReport) {
    let text = tree.text(DOCUMENT).unwrap_or_default();
    let mut walk: Option<(usize, &str, usize)> = None;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.starts_with('#') {
            end(walk.take(), report);
            let title = line.trim_start_matches('#').trim();
            walk = title.starts_with(HEADING).then_some((number, title, 0));
        } else if let (Some((_, _, stops)), Some(item)) = (&mut walk, list_item(line)) {
            *stops += 1;
            if let Err(message) = stop(tree, item) {
                report.find(DOCUMENT, number, message);
            }
        }
    }
    end(walk, report);
}

fn end(walk: Option<(usize, &str, usize)>, report: &mut TidyReport) {
    match walk {
        Some((line, title, 0)) => report.find(DOCUMENT, line, format!("\"{title}\" has no stop")),
        Some((line, title, stops)) if stops > STOPS => report.find(
            DOCUMENT,
            line,
            format!("\"{title}\" has {stops} stops, more than {STOPS}"),
        ),
        Some(_) | None => {}
    }
}

/// What stands behind the number of a list item.
fn list_item(line: &str) -> Option<&str> {
    let (number, rest) = line.split_once(". ")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(rest)
}

/// Does an item name a file and a function that are there?
fn stop(tree: &SourceTree, item: &str) -> Result<(), String> {
    let mut words = item.split('`');
    let (Some(""), Some(path), Some(" "), Some(function)) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("a stop begins with `file` `function`".to_owned());
    };
    if !tree.paths.contains(path) {
        return Err(format!("there is no file {path}"));
    }
    let rust = tree.rust.iter().find(|file| file.path == path);
    let found = match rust {
        Some(file) => functions(&file.ast).contains(function),
        None => is_python_function(tree.text(path).unwrap_or_default(), function),
    };
    if found {
        Ok(())
    } else {
        Err(format!("{path} has no function `{function}`"))
    }
}

fn is_python_function(text: &str, function: &str) -> bool {
    let name = function.rsplit(['.', ':']).next().unwrap_or(function);
    let is_definition = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("async ").unwrap_or(line);
        let rest = line
            .strip_prefix("def ")
            .and_then(|line| line.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with('('))
    };
    text.lines().any(is_definition)
}

/// The functions of a file: by their name, and methods also as `Type::method`.
fn functions(file: &syn::File) -> BTreeSet<String> {
    let mut visitor = FunctionVisitor::default();
    visitor.visit_file(file);
    visitor.found
}

#[derive(Default)]
struct FunctionVisitor {
    found: BTreeSet<String>,
    around: Option<String>,
}

impl FunctionVisitor {
    fn add(&mut self, name: &syn::Ident) {
        if let Some(around) = &self.around {
            self.found.insert(format!("{around}::{name}"));
        }
        self.found.insert(name.to_string());
    }
}

impl<'ast> Visit<'ast> for FunctionVisitor {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let name = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last(),
            _ => None,
        };
        let name = name.map(|segment| segment.ident.to_string());
        let before = std::mem::replace(&mut self.around, name);
        visit::visit_item_impl(self, item);
        self.around = before;
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let before = self.around.replace(item.ident.to_string());
        visit::visit_item_trait(self, item);
        self.around = before;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig.ident);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig.ident);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.add(&item.sig.ident);
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::lines;
    use super::*;

    fn found(document: &str) -> Vec<String> {
        let files = [
            ("ARCHITECTURE.md", document),
            (
                "a/src/lib.rs",
                "fn begin() {} impl<T> Shard<T> { fn fold(&self) {} }",
            ),
            (
                "python/a.py",
                "class A:\n    async def work(self):\n        pass\n",
            ),
        ];
        lines(check, &SourceTree::made_of(&files))
    }

    #[test]
    fn stops_that_are_there_pass() {
        let walk = "# A\n\n1. `none` of a walk\n\n## The walk of one run\n\nWords.\n\n\
                    1. `a/src/lib.rs` `begin` — it begins\n2. `a/src/lib.rs` `Shard::fold` — it\n   \
                    goes on\n3. `python/a.py` `A.work` — work\n\n## Else\n\n1. other\n";
        assert_eq!(found(walk), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_there_is_found_with_its_line() {
        let walk = "## The walk of a run\n1. `a/src/lib.rs` `ended` — x\n2. `b.rs` `f` — x\n3. go on\n\
                    4. `a/src/lib.rs` `Queue::fold` — x\n5. `python/a.py` `rest` — x\n";
        let expected = [
            "ARCHITECTURE.md:2: rule: a/src/lib.rs has no function `ended`",
            "ARCHITECTURE.md:3: rule: there is no file b.rs",
            "ARCHITECTURE.md:4: rule: a stop begins with `file` `function`",
            "ARCHITECTURE.md:5: rule: a/src/lib.rs has no function `Queue::fold`",
            "ARCHITECTURE.md:6: rule: python/a.py has no function `rest`",
        ];
        assert_eq!(found(walk), expected);
    }

    #[test]
    fn a_walk_has_some_stops_and_not_too_many() {
        let many = "1. `a/src/lib.rs` `begin` — x\n".repeat(STOPS + 1);
        let found = found(&format!(
            "## The walk of nothing\n## The walk of all\n{many}"
        ));
        let expected = [
            "ARCHITECTURE.md:1: rule: \"The walk of nothing\" has no stop",
            "ARCHITECTURE.md:2: rule: \"The walk of all\" has 21 stops, more than 20",
        ];
        assert_eq!(found, expected);
    }
}
