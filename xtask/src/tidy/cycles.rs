//! Rule `cycles`: inside a crate, modules import one way. In: the parsed files of each member; out:
//! one finding per knot, with the way round it. A module is a file. A module that hands on what is
//! below it (`pub use`) does not depend on it for that. A module and those below it are one room:
//! what is below may reach up to it, but not to the crate's root.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::imports::ModulePath;
use super::modules::Crate;
use super::report::TidyReport;
use crate::tree::SourceTree;

type Graph = BTreeMap<ModulePath, BTreeMap<ModulePath, usize>>;

pub(super) fn check(tree: &SourceTree, report: &mut TidyReport) {
    for package in tree.members() {
        let source = Crate::of(tree, &format!("{}/src/", package.folder()));
        let graph = without_ways_up(source.imports());
        for (cycle, size) in knots(&graph) {
            let line = graph[&cycle[0]][&cycle[1]];
            let names: Vec<String> = cycle.iter().map(ModulePath::to_string).collect();
            let rest = if size < cycle.len() {
                String::new()
            } else {
                format!(", in a knot of {size} modules")
            };
            report.find(
                source.file(&cycle[0]),
                line,
                format!("modules import in a circle: {}{rest}", names.join(" → ")),
            );
        }
    }
}

/// Leaves out imports of a module from those that it stands in.
fn without_ways_up(mut graph: Graph) -> Graph {
    for (module, imports) in &mut graph {
        let name = module.to_string();
        imports.retain(|above, _| !name.starts_with(&format!("{above}::")));
    }
    graph
}

/// The shortest way round in each knot, with the number of modules in the knot: those that all lead
/// to each other.
fn knots(graph: &Graph) -> Vec<(Vec<ModulePath>, usize)> {
    let reached: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> = graph
        .keys()
        .map(|start| (start, reachable(graph, start)))
        .collect();
    let mut seen: BTreeSet<&ModulePath> = BTreeSet::new();
    let mut found = Vec::new();
    for start in graph.keys().filter(|start| reached[start].contains(start)) {
        if !seen.contains(start) {
            let knot: Vec<_> = reached[start]
                .iter()
                .copied()
                .filter(|other| reached[other].contains(start))
                .collect();
            let shortest = knot
                .iter()
                .filter_map(|module| way_back(graph, module))
                .min_by_key(Vec::len);
            found.extend(shortest.map(|cycle| (cycle, knot.len())));
            seen.extend(knot);
        }
    }
    found
}

/// What a module leads to, over however many others; itself only when there is a way back.
fn reachable<'graph>(graph: &'graph Graph, start: &ModulePath) -> BTreeSet<&'graph ModulePath> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&ModulePath> = graph[start].keys().collect();
    while let Some(at) = open.pop() {
        if found.insert(at) {
            open.extend(graph[at].keys());
        }
    }
    found
}

fn way_back(graph: &Graph, start: &ModulePath) -> Option<Vec<ModulePath>> {
    let mut came_from: BTreeMap<&ModulePath, &ModulePath> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(at) = open.pop_front() {
        for next in graph.get(at)?.keys() {
            if next == start {
                return Some(trail(&came_from, start, at));
            }
            if !came_from.contains_key(next) {
                came_from.insert(next, at);
                open.push_back(next);
            }
        }
    }
    None
}

fn trail(
    came_from: &BTreeMap<&ModulePath, &ModulePath>,
    start: &ModulePath,
    end: &ModulePath,
) -> Vec<ModulePath> {
    let mut way = vec![start.clone(), end.clone()];
    if start == end {
        way.pop();
    }
    let mut at = end;
    while at != start {
        at = came_from[at];
        if at != start {
            way.insert(1, at.clone());
        }
    }
    way.push(start.clone());
    way
}

#[cfg(test)]
mod tests {
    use super::super::report::lines;
    use super::*;
    use crate::workspace::Package;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let placed: Vec<(String, &str)> = files
            .iter()
            .map(|(path, code)| (format!("c/src/{path}"), *code))
            .collect();
        let placed: Vec<(&str, &str)> = placed
            .iter()
            .map(|(path, code)| (path.as_str(), *code))
            .collect();
        let mut tree = SourceTree::made_of(&placed);
        tree.packages = vec![Package {
            manifest: "c/Cargo.toml".into(),
            member: true,
            ..Package::default()
        }];
        lines(check, &tree)
    }

    #[test]
    fn modules_that_import_one_way_pass() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A; fn f() { b::g(); }"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            (
                "b.rs",
                "pub struct B; impl B { fn s(self) -> Self { self } }",
            ),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn handing_on_is_no_cycle_and_names_are_followed_to_their_home() {
        let files = [
            (
                "lib.rs",
                "pub mod a; pub mod b; pub use a::*; pub use b::{B, make};",
            ),
            ("a.rs", "pub struct A;"),
            (
                "b.rs",
                "use crate::A; pub struct B(A); pub fn make() -> crate::A { A }",
            ),
        ];
        assert_eq!(found(&files), [""; 0]);
        let back = ("a.rs", "use super::B; pub struct A;");
        assert_eq!(
            found(&[files[0], back, files[2]]),
            ["c/src/a.rs:1: rule: modules import in a circle: a → b → a"]
        );
    }

    #[test]
    fn a_long_way_round_is_shown_whole() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "fn f() {}\nuse crate::b::g;"),
            ("b/mod.rs", "mod inner; use self::inner::h; pub fn g() {}"),
            ("b/inner.rs", "pub fn h() { super::super::c::i() }"),
            ("c.rs", "pub fn i() { let _: Vec<crate::a::X> = vec![]; }"),
        ];
        let expected = ["c/src/a.rs:2: rule: modules import in a circle: a → b → b::inner → c → a"];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn a_knot_is_one_finding_with_its_shortest_way_round() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c::C; pub struct B;"),
            ("c.rs", "use crate::a::A; use crate::b::B; pub struct C;"),
            ("d.rs", "use crate::e::E; use crate::a::A; pub struct D;"),
            ("e.rs", "use crate::d::D; pub struct E;"),
        ];
        let expected = [
            "c/src/b.rs:1: rule: modules import in a circle: b → c → b, in a knot of 3 modules",
            "c/src/d.rs:1: rule: modules import in a circle: d → e → d",
        ];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn a_parent_that_calls_its_child_may_not_be_called_back() {
        let files = [
            ("main.rs", "mod a; fn main() { a::run() } fn g() {}"),
            ("a.rs", "pub fn run() { super::g() }"),
        ];
        assert_eq!(
            found(&files),
            ["c/src/main.rs:1: rule: modules import in a circle: crate → a → crate"]
        );
    }

    #[test]
    fn a_name_that_the_root_has_from_another_crate_leads_out() {
        let files = [
            ("lib.rs", "use other::things; mod a; fn f() { a::run() }"),
            ("a.rs", "use crate::things::Thing; pub fn run() {}"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn a_child_may_use_the_module_it_stands_in() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; pub struct A; pub fn run() { b::run() }"),
            ("a/b.rs", "use super::A; pub fn run() -> A { A }"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn paths_inside_macros_count_and_tests_do_not() {
        let b = ("b.rs", "use crate::a::f; pub fn g() {}");
        let by_macro = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub fn f() { m!(1, crate::b::g()); }"),
            b,
        ];
        assert_eq!(found(&by_macro).len(), 1);
        let by_test = [
            ("lib.rs", "mod a; mod b;"),
            (
                "a.rs",
                "pub fn f() {} #[cfg(test)] mod tests { use crate::b::g; }",
            ),
            b,
        ];
        assert_eq!(found(&by_test), [""; 0]);
    }
}
