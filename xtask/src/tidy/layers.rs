//! Rule `layers`: imports between crates go one way. In: each member's dependencies; out: a finding
//! for every one that points up or sideways, for a crate that the table does not know, and for a
//! dependency that belongs to other rooms.
//!
//! A crate may name what stands on its line in `LAYERS` and whatever that may name. Development
//! dependencies may look further, since tests of a room need a store or a simulator beside it: any
//! crate below `lope`, except one that is itself built on the crate that names it (that would
//! compile the crate twice, in two forms that do not fit), and `lope-sim`, which is built on all of
//! them and meant for nothing else. The rooms that stand on the face name nothing below it but
//! plain values. A crate may name itself there, to test its own features.
//! `xtask` names nothing and nothing names it.

use std::collections::BTreeSet;

use super::report::TidyReport;
use crate::tree::{SourceTree, line_of};
use crate::workspace::{DependencyKind, Package};

/// A room and the rooms directly below it.
const LAYERS: &[(&str, &[&str])] = &[
    ("lope-model", &[]),
    ("lope-values", &["lope-model"]),
    ("lope-expr", &["lope-values"]),
    ("lope-definition", &["lope-expr"]),
    ("lope-flow", &["lope-definition"]),
    ("lope-graph", &["lope-flow"]),
    ("lope-store", &["lope-model"]),
    // Development only: what every store is held to.
    ("lope-conformance", &["lope-store"]),
    ("lope-sqlite", &["lope-store"]),
    ("lope-postgres", &["lope-store"]),
    ("lope-limits", &["lope-definition", "lope-store"]),
    ("lope-schedule", &["lope-expr", "lope-store"]),
    ("lope-why", &["lope-flow", "lope-limits"]),
    (
        "lope-engine",
        &["lope-flow", "lope-limits", "lope-schedule"],
    ),
    ("lope-mailbox", &["lope-store"]),
    ("lope-workers", &["lope-engine", "lope-mailbox"]),
    ("lope-redaction", &["lope-engine"]),
    ("lope-agents", &["lope-workers"]),
    ("lope-agent-runner", &["lope-agents"]),
    ("lope-cells", &["lope-model"]),
    ("lope-reactive", &["lope-cells", "lope-mailbox"]),
    (
        "lope-sim",
        &[
            "lope-agents",
            "lope-reactive",
            "lope-sqlite",
            "lope-postgres",
        ],
    ),
    (
        "lope",
        &[
            "lope-graph",
            "lope-redaction",
            "lope-why",
            "lope-agent-runner",
            "lope-reactive",
            "lope-sqlite",
            "lope-postgres",
        ],
    ),
    ("lope-otel", &["lope"]),
    // What a command and a server say to each other.
    ("lope-remote", &["lope"]),
    ("lope-terminal", &["lope-remote"]),
    // Commands that are many enough for a room of their own; the binary mounts them.
    ("lope-agents-cli", &["lope-remote"]),
    ("lope-http", &["lope-remote"]),
    ("lope-pages", &["lope-http"]),
    ("lope-server", &["lope-pages"]),
    ("lope-bench", &["lope-server"]),
    (
        "lope-cli",
        &[
            "lope-agents-cli",
            "lope-bench",
            "lope-otel",
            "lope-server",
            "lope-terminal",
        ],
    ),
    ("xtask", &[]),
];

/// Rooms that stand on the face: of what is below it they may name the values alone.
const FACED: &[&str] = &[
    "lope-agents-cli",
    "lope-bench",
    "lope-cli",
    "lope-http",
    "lope-otel",
    "lope-pages",
    "lope-remote",
    "lope-server",
    "lope-terminal",
];
/// What they may name.
const FACE: &[&str] = &[
    "lope",
    "lope-agents-cli",
    "lope-bench",
    "lope-http",
    "lope-model",
    "lope-otel",
    "lope-pages",
    "lope-remote",
    "lope-server",
    "lope-terminal",
];

/// The simulator: named in tests alone, by any room.
const SIMULATOR: &str = "lope-sim";

/// Rooms that development dependencies may not name unless the table lets them: the face and what
/// stands on it.
const TOP: &[&str] = &[
    "lope",
    "lope-agents-cli",
    "lope-bench",
    "lope-http",
    "lope-otel",
    "lope-pages",
    "lope-remote",
    "lope-server",
    "lope-terminal",
    "lope-cli",
    "xtask",
];

/// Dependencies that belong to some rooms and are kept out of all others, outside tests.
const RESERVED: &[(&str, &[&str], &str)] = &[
    (
        "anyhow",
        &["lope-cli", "xtask"],
        "libraries give typed errors",
    ),
    (
        "clap",
        &["lope-cli", "lope-agents-cli"],
        "only the binary and its rooms of commands read the command line",
    ),
    ("rusqlite", &["lope-sqlite"], "SQL stays in the stores"),
    (
        "tokio-postgres",
        &["lope-postgres"],
        "SQL stays in the stores",
    ),
    (
        "deadpool-postgres",
        &["lope-postgres"],
        "SQL stays in the stores",
    ),
];

/// Rooms without I/O, and what would bring it in.
const PURE: &[&str] = &[
    "lope-model",
    "lope-values",
    "lope-expr",
    "lope-definition",
    "lope-flow",
    "lope-graph",
];
const IMPURE: &[&str] = &["tokio", "rustix", "tracing-subscriber", "reqwest"];

pub(super) fn check(tree: &SourceTree, report: &mut TidyReport) {
    for package in tree.members() {
        if below(&package.name).is_none() {
            report.find(
                &package.manifest,
                1,
                format!("`{}` is not in the layer table of xtask", package.name),
            );
            continue;
        }
        for dependency in &package.dependencies {
            if let Some(message) = objection(&package.name, &dependency.name, dependency.kind) {
                report.find(
                    &package.manifest,
                    line(tree, package, &dependency.name),
                    message,
                );
            }
        }
    }
}

fn objection(from: &str, to: &str, kind: DependencyKind) -> Option<String> {
    if below(to).is_some() {
        let allowed = match kind {
            DependencyKind::Normal | DependencyKind::Build => may_name(from, to),
            DependencyKind::Dev => may_name_in_tests(from, to),
        };
        let kind = if kind == DependencyKind::Dev {
            " even in tests"
        } else {
            ""
        };
        return (!allowed)
            .then(|| format!("`{from}` may not name `{to}`{kind}: imports go one way"));
    }
    if kind == DependencyKind::Dev {
        return None;
    }
    if PURE.contains(&from) && IMPURE.contains(&to) {
        return Some(format!("`{from}` is pure and may not name `{to}`"));
    }
    let (_, rooms, why) = RESERVED
        .iter()
        .find(|(name, rooms, _)| *name == to && !rooms.contains(&from))?;
    Some(format!("`{to}` belongs to {}: {why}", rooms.join(", ")))
}

fn may_name(from: &str, to: &str) -> bool {
    let faced = FACED.contains(&from) && !FACE.contains(&to);
    to != SIMULATOR && !faced && everything_below(from).contains(to)
}

fn may_name_in_tests(from: &str, to: &str) -> bool {
    if everything_below(from).contains(to) || from == to {
        return true;
    }
    let built_on_it = everything_below(to).contains(from);
    from != "xtask" && !TOP.contains(&to) && (to == SIMULATOR || !built_on_it)
}

fn below(name: &str) -> Option<&'static [&'static str]> {
    LAYERS
        .iter()
        .find(|(room, _)| *room == name)
        .map(|(_, below)| *below)
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

fn line(tree: &SourceTree, package: &Package, dependency: &str) -> usize {
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

    fn found(name: &str, dependencies: &[(&str, DependencyKind)]) -> Vec<String> {
        let mut tree = SourceTree::made_of(&[(
            "c/Cargo.toml",
            "[dependencies]\nserde = \"1\"\nlope-engine.workspace = true\n",
        )]);
        let dependencies = dependencies.iter().map(|(name, kind)| Dependency {
            name: (*name).into(),
            kind: *kind,
        });
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
        let below = [
            ("lope-engine", DependencyKind::Normal),
            ("lope-model", DependencyKind::Normal),
            ("serde", DependencyKind::Normal),
        ];
        assert!(found("lope-workers", &below).is_empty());
    }

    #[test]
    fn whoever_stands_on_the_face_names_nothing_below_it_but_values() {
        let allowed = [
            ("lope", DependencyKind::Normal),
            ("lope-bench", DependencyKind::Normal),
            ("lope-model", DependencyKind::Normal),
            ("lope-server", DependencyKind::Normal),
            ("lope-store", DependencyKind::Dev),
        ];
        assert!(found("lope-cli", &allowed).is_empty());
        for below in ["lope-store", "lope-engine", "lope-flow", "lope-sqlite"] {
            assert_eq!(
                found("lope-cli", &[(below, DependencyKind::Normal)]).len(),
                1
            );
            assert_eq!(
                found("lope-bench", &[(below, DependencyKind::Normal)]).len(),
                1
            );
        }
        assert_eq!(
            found("lope", &[("lope-bench", DependencyKind::Normal)]).len(),
            1
        );
    }

    #[test]
    fn a_room_may_not_name_what_is_above_or_beside_it() {
        let expected =
            ["c/Cargo.toml:3: rule: `lope-store` may not name `lope-engine`: imports go one way"];
        assert_eq!(
            found("lope-store", &[("lope-engine", DependencyKind::Normal)]),
            expected
        );
        assert_eq!(
            found("lope-engine", &[("lope-sqlite", DependencyKind::Normal)]).len(),
            1
        );
        assert_eq!(
            found("lope-server", &[("lope-postgres", DependencyKind::Build)]).len(),
            1
        );
        assert_eq!(
            found("lope-flow", &[("lope-store", DependencyKind::Normal)]).len(),
            1
        );
    }

    #[test]
    fn tests_may_look_beside_but_not_at_what_is_built_on_them() {
        assert!(
            found(
                "lope-engine",
                &[
                    ("lope-sqlite", DependencyKind::Dev),
                    ("lope-sim", DependencyKind::Dev)
                ]
            )
            .is_empty()
        );
        assert!(
            found("lope-store", &[("lope-store", DependencyKind::Dev)]).is_empty(),
            "for its own features"
        );
        assert_eq!(
            found("lope-store", &[("lope-store", DependencyKind::Normal)]).len(),
            1
        );
        assert_eq!(
            found("lope-store", &[("lope-sqlite", DependencyKind::Dev)]).len(),
            1
        );
        assert_eq!(
            found("lope-engine", &[("lope-cli", DependencyKind::Dev)]).len(),
            1
        );
    }

    #[test]
    fn the_simulator_is_for_tests_alone_and_xtask_names_nothing() {
        assert_eq!(
            found("lope-cli", &[("lope-sim", DependencyKind::Normal)]).len(),
            1
        );
        assert_eq!(
            found(
                "xtask",
                &[
                    ("lope-model", DependencyKind::Normal),
                    ("lope-model", DependencyKind::Dev)
                ]
            )
            .len(),
            2
        );
        assert_eq!(
            found("lope-cli", &[("xtask", DependencyKind::Dev)]).len(),
            1
        );
    }

    #[test]
    fn reserved_and_impure_dependencies_stay_in_their_rooms() {
        assert_eq!(
            found(
                "lope-engine",
                &[
                    ("rusqlite", DependencyKind::Normal),
                    ("anyhow", DependencyKind::Normal)
                ]
            )
            .len(),
            2
        );
        assert_eq!(
            found("lope-model", &[("tokio", DependencyKind::Normal)]).len(),
            1
        );
        assert!(
            found(
                "lope-sqlite",
                &[
                    ("rusqlite", DependencyKind::Normal),
                    ("anyhow", DependencyKind::Dev)
                ]
            )
            .is_empty()
        );
    }

    #[test]
    fn an_unknown_crate_must_enter_the_table() {
        assert_eq!(
            found("lope-dust", &[]),
            ["c/Cargo.toml:1: rule: `lope-dust` is not in the layer table of xtask"]
        );
    }
}
