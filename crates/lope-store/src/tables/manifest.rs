//! Which tables a store has: contiguous indexes from 0 `app_state`, each with a name and, if its
//! ranges are guarded, a scope.

use lope_model::limit;
use thiserror::Error;

use super::{At, TableId};
use crate::error::{StoreError, StoreResult};

/// How keys of a table are grouped for guards on ranges and absences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScopeRule {
    /// The whole table is one scope (its scope key is empty).
    Table,
    /// The first bytes of the key; a shorter key is a scope of its own.
    Prefix(u16),
}

/// One table of a manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableSpec {
    pub index: u16,
    pub name: String,
    pub scope: Option<ScopeRule>,
}

/// The tables of a store, checked: index 0 is `app_state`, indexes are contiguous, names differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest(Vec<TableSpec>);

/// Why a list of tables is not a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadManifest {
    #[error("table 0 must be 'app_state'")]
    NoAppState,
    #[error("table indexes must be contiguous: {expected} is missing before {found} ('{name}')")]
    Gap {
        expected: u16,
        found: u16,
        name: String,
    },
    #[error("the table name '{0}' is used twice or is not [a-z][a-z0-9_]*")]
    Name(String),
}

impl Manifest {
    /// The seven tables that every store has.
    pub fn standard() -> Self {
        let names = [
            "app_state",
            "inbox",
            "outbox",
            "leases",
            "timers",
            "dedupe",
            "dead_letter",
        ];
        let specs = names.iter().zip(0..).map(|(name, index)| TableSpec {
            index,
            name: (*name).to_owned(),
            scope: (index == 0).then_some(ScopeRule::Table),
        });
        Self(specs.collect())
    }

    /// Check a list of tables. Nothing is opened if it is not contiguous.
    pub fn new(specs: Vec<TableSpec>) -> Result<Self, BadManifest> {
        if specs
            .first()
            .is_none_or(|spec| spec.index != 0 || spec.name != "app_state")
        {
            return Err(BadManifest::NoAppState);
        }
        for (spec, expected) in specs.iter().zip(0..) {
            if spec.index != expected {
                return Err(BadManifest::Gap {
                    expected,
                    found: spec.index,
                    name: spec.name.clone(),
                });
            }
            let twice = specs.iter().filter(|other| other.name == spec.name).count() > 1;
            if twice || !is_name(&spec.name) {
                return Err(BadManifest::Name(spec.name.clone()));
            }
        }
        Ok(Self(specs))
    }

    /// This manifest with further tables behind its own.
    pub fn with(self, name: &str, scope: Option<ScopeRule>) -> Result<Self, BadManifest> {
        let mut specs = self.0;
        let index = u16::try_from(specs.len()).map_err(|_| BadManifest::Name(name.to_owned()))?;
        specs.push(TableSpec {
            index,
            name: name.to_owned(),
            scope,
        });
        Self::new(specs)
    }

    pub fn specs(&self) -> &[TableSpec] {
        &self.0
    }

    pub fn table(&self, id: TableId) -> StoreResult<&TableSpec> {
        self.0
            .get(usize::from(id.0))
            .ok_or_else(|| StoreError::refused(format!("table {id} is not in the manifest")))
    }

    /// The scope that a key belongs to, if its table declares one.
    pub fn scope_of(&self, at: &At) -> Option<At> {
        let scope = self.0.get(usize::from(at.table.0))?.scope?;
        let length = match scope {
            ScopeRule::Table => 0,
            ScopeRule::Prefix(length) => usize::from(length).min(at.key.len()),
        };
        Some(At::new(at.table, &at.key[..length]))
    }

    /// What remains to be added to `self` so that it holds `wanted`; refused if the two disagree on
    /// a place.
    pub fn missing_from(&self, wanted: &Manifest) -> StoreResult<Vec<TableSpec>> {
        for (have, want) in self.0.iter().zip(&wanted.0) {
            if have != want {
                let message = format!(
                    "table {} is '{}' in the store, '{}' was asked for",
                    have.index, have.name, want.name
                );
                return Err(StoreError::refused(message));
            }
        }
        Ok(wanted.0.iter().skip(self.0.len()).cloned().collect())
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= limit::NAME_MAX.min(40)
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(index: u16, name: &str) -> TableSpec {
        TableSpec {
            index,
            name: name.to_owned(),
            scope: None,
        }
    }

    #[test]
    fn a_gap_is_refused_before_anything_is_opened() {
        assert_eq!(Manifest::new(vec![]), Err(BadManifest::NoAppState));
        assert_eq!(
            Manifest::new(vec![spec(0, "inbox")]),
            Err(BadManifest::NoAppState)
        );
        let gap = Manifest::new(vec![spec(0, "app_state"), spec(2, "outbox")]);
        assert_eq!(
            gap,
            Err(BadManifest::Gap {
                expected: 1,
                found: 2,
                name: "outbox".to_owned()
            })
        );
        assert!(Manifest::new(vec![spec(0, "app_state"), spec(1, "app_state")]).is_err());
        assert!(Manifest::new(vec![spec(0, "app_state"), spec(1, "Robert'); --")]).is_err());
    }

    #[test]
    fn the_standard_tables_stand_in_their_places() {
        let standard = Manifest::standard();
        assert_eq!(
            standard.table(TableId::DEAD_LETTER).unwrap().name,
            "dead_letter"
        );
        assert!(standard.table(TableId(7)).is_err());
        let more = standard
            .clone()
            .with("cells", Some(ScopeRule::Prefix(2)))
            .unwrap();
        assert_eq!(standard.missing_from(&more).unwrap().len(), 1);
        assert_eq!(
            more.scope_of(&At::new(TableId(7), *b"abc")),
            Some(At::new(TableId(7), *b"ab"))
        );
        assert_eq!(more.scope_of(&At::new(TableId::INBOX, *b"abc")), None);
    }
}
