//! What a node is, as the cells say: whose events it handles, and where its writes go. Knows links and
//! nothing of nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use lope_cells::address::CellAddress;
use lope_cells::id::SpaceName;
use lope_cells::json::Json;
use lope_cells::link::{Link, rewrite};
use lope_cells::path::CellPath;
use lope_cells::read::{Extent, Reads, has_links};
use lope_cells::resolve::{Follow, is_elsewhere, resolve_within};
use lope_cells::transaction::Transaction;

/// What a node is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DecidedRole {
    /// The stream that it handles, and which input that is.
    pub(super) stream: Option<(CellPath, CellAddress)>,
    /// Where its outputs lead in its own space, links named by the recipe and those behind them.
    pub(super) writes: BTreeSet<CellAddress>,
    /// Whether some of them lead into another space.
    pub(super) leads_out: bool,
}

impl DecidedRole {
    /// Notes where a write goes: through redirects, and through those that stand in the value there.
    pub(super) fn follow(&mut self, at: &CellAddress, home: &SpaceName, looking: &mut Transaction) {
        let Ok(found) = resolve_within(looking, at, Follow::Redirects, Some(home)) else {
            return;
        };
        if is_elsewhere(&found.address, home) {
            self.leads_out = true;
            return;
        }
        looking.record(&found.address, Extent::Shape);
        if !self.writes.insert(found.address.clone()) {
            return;
        }
        let value = found.value.filter(has_links);
        let redirects = value.map(|value| redirects_in(&value, &found.address));
        for redirect in redirects.unwrap_or_default() {
            self.follow(&redirect, home, looking);
        }
    }
}

/// Where the redirects in a value stand.
fn redirects_in(value: &Json, at: &CellAddress) -> Vec<CellAddress> {
    fn collect(value: &Json, at: &CellAddress, found: &mut Vec<CellAddress>) {
        match Link::from_json(value) {
            Some(link) if link.redirect => found.push(at.clone()),
            Some(_) => {}
            None => {
                rewrite(value, &mut |child, key: &Arc<str>| {
                    collect(child, &at.key(key.clone()), found);
                    None
                });
            }
        }
    }
    let mut found = Vec::new();
    collect(value, at, &mut found);
    found
}
