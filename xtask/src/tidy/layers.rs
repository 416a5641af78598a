//! Rule `layers`: imports between crates go one way. In: each member's dependencies; out: a finding for every one that
//! points up or sideways, for a crate that the table does not know, and for a dependency that belongs to other rooms.
//!
//! A crate may name what stands on its line in `LAYERS` and whatever that may name. Development dependencies may look
//! further, since tests of a room need a store or a simulator beside it: any crate below `lope`, except one that is
//! itself built on the crate that names it (that would compile the crate twice, in two forms that do not fit), and
//! `lope-sim`, which is built on all of them and meant for nothing else. A crate may name itself there, to test its own
//! features. `xtask` names nothing and nothing names it.

use std::collections::BTreeSet;

use super::report::Report;
use crate::tree::{Tree, line_of};
use crate::workspace::{Kind, Package};

/// A room and the rooms directly below it.
const LAYERS: &[(&str, &[&str])] = &[
    ("lope-model", &[]),
    ("lope-flow", &["lope-model"]),
    ("lope-store", &["lope-model"]),
    ("lope-sqlite", &["lope-store"]),
    ("lope-postgres", &["lope-store"]),
    ("lope-engine", &["lope-flow", "lope-store"]),
    ("lope-workers", &["lope-engine"]),
    ("lope-agents", &["lope-workers"]),
    ("lope-mailbox", &["lope-store"]),
    ("lope-reactive", &["lope-mailbox"]),
    ("lope-sim", &["lope-agents", "lope-reactive", "lope-sqlite", "lope-postgres"]),
    // The face and the binary are the only rooms that name a backend, so the server stands on the others alone.
    ("lope-server", &["lope-agents", "lope-reactive"]),
    ("lope", &["lope-agents", "lope-reactive", "lope-sqlite", "lope-postgres"]),
    ("lope-cli", &["lope", "lope-server"]),
    ("xtask", &[]),
];

/// The simulator: named in tests alone, by any room.
const SIMULATOR: &str = "lope-sim";

/// Rooms that development dependencies may not name unless the table lets them: the face and what stands on it.
const TOP: &[&str] = &["lope", "lope-server", "lope-cli", "xtask"];

/// Dependencies that belong to some rooms and are kept out of all others, outside tests.
const RESERVED: &[(&str, &[&str], &str)] = &[
    ("anyhow", &["lope-cli", "xtask"], "libraries give typed errors"),
    ("clap", &["lope-cli"], "only the binary reads the command line"),
    ("rusqlite", &["lope-sqlite"], "SQL stays in the stores"),
    ("tokio-postgres", &["lope-postgres"], "SQL stays in the stores"),
    ("deadpool-postgres", &["lope-postgres"], "SQL stays in the stores"),
];

/// Rooms without I/O, and what would bring it in.
const PURE: &[&str] = &["lope-model", "lope-flow"];
const IMPURE: &[&str] = &["tokio", "rustix", "tracing-subscriber", "reqwest"];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for package in tree.members() {
        if below(&package.name).is_none() {
            report.find(&package.manifest, 1, format!("`{}` is not in the layer table of xtask", package.name));
            continue;
        }
        for dependency in &package.dependencies {
            if let Some(message) = objection(&package.name, &dependency.name, dependency.kind) {
                report.find(&package.manifest, line(tree, package, &dependency.name), message);
            }
        }
    }
}

fn objection(from: &str, to: &str, kind: Kind) -> Option<String> {
    if below(to).is_some() {
        let allowed = match kind {
            Kind::Normal | Kind::Build => may_name(from, to),
            Kind::Dev => may_name_in_tests(from, to),
        };
        let kind = if kind == Kind::Dev { " even in tests" } else { "" };
        return (!allowed).then(|| format!("`{from}` may not name `{to}`{kind}: imports go one way"));
    }
    if kind == Kind::Dev {
        return None;
    }
    if PURE.contains(&from) && IMPURE.contains(&to) {
        return Some(format!("`{from}` is pure and may not name `{to}`"));
    }
    let (_, rooms, why) = RESERVED.iter().find(|(name, rooms, _)| *name == to && !rooms.contains(&from))?;
    Some(format!("`{to}` belongs to {}: {why}", rooms.join(", ")))
}

fn may_name(from: &str, to: &str) -> bool {
    to != SIMULATOR && everything_below(from).contains(to)
}

fn may_name_in_tests(from: &str, to: &str) -> bool {
    if everything_below(from).contains(to) || from == to {
        return true;
    }
    let built_on_it = everything_below(to).contains(from);
    from != "xtask" && !TOP.contains(&to) && (to == SIMULATOR || !built_on_it)
}

fn below(name: &str) -> Option<&'static [&'static str]> {
    LAYERS.iter().find(|(room, _)| *room == name).map(|(_, below)| *below)
}

fn everything_below(name: &str) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&'static str> = below(name).unwrap_or_default().to_vec();
    while let Some(room) = open.pop() {
        if found.insert(room) {
            open.extend(below(room).unwrap_or_default());
        }
    }
    found
}

fn line(tree: &Tree, package: &Package, dependency: &str) -> usize {
    let is_entry = |line: &str| {
        let rest = line.trim_start().strip_prefix(dependency);
        rest.is_some_and(|rest| rest.trim_start().starts_with(['=', '.']))
    };
    line_of(tree.text(&package.manifest).unwrap_or_default(), is_entry)
}

#[cfg(test)]
mod tests {
    use super::super::report::lines;
    use super::*;
    use crate::workspace::Dependency;

    fn found(name: &str, dependencies: &[(&str, Kind)]) -> Vec<String> {
        let mut tree =
            Tree::made_of(&[("c/Cargo.toml", "[dependencies]\nserde = \"1\"\nlope-engine.workspace = true\n")]);
        let dependencies = dependencies.iter().map(|(name, kind)| Dependency { name: (*name).into(), kind: *kind });
        tree.packages.push(Package {
            name: name.into(),
            manifest: "c/Cargo.toml".into(),
            member: true,
            dependencies: dependencies.collect(),
            ..Package::default()
        });
        lines(check, &tree)
    }

    #[test]
    fn a_room_may_name_what_is_below_it_however_far() {
        let below = [("lope-engine", Kind::Normal), ("lope-model", Kind::Normal), ("serde", Kind::Normal)];
        assert!(found("lope-workers", &below).is_empty());
        assert!(found("lope-cli", &[("lope-sqlite", Kind::Normal), ("lope-server", Kind::Normal)]).is_empty());
    }

    #[test]
    fn a_room_may_not_name_what_is_above_or_beside_it() {
        let expected = ["c/Cargo.toml:3: rule: `lope-store` may not name `lope-engine`: imports go one way"];
        assert_eq!(found("lope-store", &[("lope-engine", Kind::Normal)]), expected);
        assert_eq!(found("lope-engine", &[("lope-sqlite", Kind::Normal)]).len(), 1);
        assert_eq!(found("lope-server", &[("lope-postgres", Kind::Build)]).len(), 1);
        assert_eq!(found("lope-flow", &[("lope-store", Kind::Normal)]).len(), 1);
    }

    #[test]
    fn tests_may_look_beside_but_not_at_what_is_built_on_them() {
        assert!(found("lope-engine", &[("lope-sqlite", Kind::Dev), ("lope-sim", Kind::Dev)]).is_empty());
        assert!(found("lope-store", &[("lope-store", Kind::Dev)]).is_empty(), "for its own features");
        assert_eq!(found("lope-store", &[("lope-store", Kind::Normal)]).len(), 1);
        assert_eq!(found("lope-store", &[("lope-sqlite", Kind::Dev)]).len(), 1);
        assert_eq!(found("lope-engine", &[("lope-cli", Kind::Dev)]).len(), 1);
    }

    #[test]
    fn the_simulator_is_for_tests_alone_and_xtask_names_nothing() {
        assert_eq!(found("lope-cli", &[("lope-sim", Kind::Normal)]).len(), 1);
        assert_eq!(found("xtask", &[("lope-model", Kind::Normal), ("lope-model", Kind::Dev)]).len(), 2);
        assert_eq!(found("lope-cli", &[("xtask", Kind::Dev)]).len(), 1);
    }

    #[test]
    fn reserved_and_impure_dependencies_stay_in_their_rooms() {
        assert_eq!(found("lope-engine", &[("rusqlite", Kind::Normal), ("anyhow", Kind::Normal)]).len(), 2);
        assert_eq!(found("lope-model", &[("tokio", Kind::Normal)]).len(), 1);
        assert!(found("lope-sqlite", &[("rusqlite", Kind::Normal), ("anyhow", Kind::Dev)]).is_empty());
    }

    #[test]
    fn an_unknown_crate_must_enter_the_table() {
        assert_eq!(found("lope-dust", &[]), ["c/Cargo.toml:1: rule: `lope-dust` is not in the layer table of xtask"]);
    }
}
