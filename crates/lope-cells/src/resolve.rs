//! Following links from an address to the value it stands for.
//!
//! A link in the middle of a path is always followed. What happens to one at its end depends on
//! what for: reading follows every link, writing only redirects.

use thiserror::Error;

use crate::address::CellAddress;
use crate::id::SpaceName;
use crate::json::Json;
use crate::limit;
use crate::link::Link;
use crate::read::{Extent, Reads, document_at};

/// Which links at the end of a path are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// All: for reading.
    Every,
    /// Those that writes go through: for writing a value.
    Redirects,
    /// None: for replacing a link itself.
    Nothing,
}

/// Where links led, and what is there. What is there has not been recorded as read.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    pub address: CellAddress,
    pub value: Option<Json>,
}

/// Links that lead from one to the next without end, or nearly so.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("more than {max} links lead on from {from}", max = limit::HOPS_MAX)]
pub struct TooManyHops {
    pub from: CellAddress,
}

/// Follows links from `from`.
pub fn resolve(
    reads: &mut dyn Reads,
    from: &CellAddress,
    follow: Follow,
) -> Result<Resolved, TooManyHops> {
    resolve_within(reads, from, follow, None)
}

/// Follows links from `from` as long as they lead through `home`: the first place in another space is
/// the end, whatever stands there.
pub fn resolve_within(
    reads: &mut dyn Reads,
    from: &CellAddress,
    follow: Follow,
    home: Option<&SpaceName>,
) -> Result<Resolved, TooManyHops> {
    resolve_after(reads, from, follow, home, 0)
}

/// Follows a link that stands at `at` and those behind it, as reading from `at` does. One in an inline
/// document, as the inputs of a node are, is the same as where it leads: it is none of the hops.
pub fn resolve_link(
    reads: &mut dyn Reads,
    link: &Link,
    at: &CellAddress,
) -> Result<Resolved, TooManyHops> {
    let hops = usize::from(!at.id.is_inline());
    resolve_after(reads, &link.target(at), Follow::Every, None, hops)
}

fn resolve_after(
    reads: &mut dyn Reads,
    from: &CellAddress,
    follow: Follow,
    home: Option<&SpaceName>,
    hops: usize,
) -> Result<Resolved, TooManyHops> {
    let mut at = from.clone();
    for _ in hops..=limit::HOPS_MAX {
        if home.is_some_and(|home| is_elsewhere(&at, home)) {
            let value = None;
            return Ok(Resolved { address: at, value });
        }
        match walk(reads, &at, follow) {
            Walk::Arrived(value) => return Ok(Resolved { address: at, value }),
            Walk::Onward(next) => at = next,
        }
    }
    Err(TooManyHops { from: from.clone() })
}

/// Whether a place is in another space than this. What stands inline is everywhere.
pub fn is_elsewhere(at: &CellAddress, home: &SpaceName) -> bool {
    at.space != *home && !at.id.is_inline()
}

/// The value that `at` stands for, links inside it left as they are; undefined if links lead
/// nowhere.
pub fn read(reads: &mut dyn Reads, at: &CellAddress) -> Option<Json> {
    let found = resolve(reads, at, Follow::Every).ok()?;
    reads.record(&found.address, Extent::Whole);
    found.value
}

enum Walk {
    Arrived(Option<Json>),
    Onward(CellAddress),
}

/// One document's part of the way.
fn walk(reads: &mut dyn Reads, at: &CellAddress, follow: Follow) -> Walk {
    let Some(root) = document_at(reads, at) else {
        record_way(reads, at, 0);
        return Walk::Arrived(None);
    };
    let mut value = &root;
    for (depth, key) in at.path.keys().iter().enumerate() {
        if let Some(link) = Link::from_json(value) {
            reads.record(&at.prefix(depth), Extent::Whole);
            let target = link.target(at);
            let path = target.path.extend(&at.path.keys()[depth..]);
            return Walk::Onward(target.with_path(path));
        }
        let Some(child) = value.child(key) else {
            record_way(reads, at, depth);
            return Walk::Arrived(None);
        };
        value = child;
    }
    match Link::from_json(value) {
        Some(link) if leads_on(&link, follow) => {
            reads.record(at, Extent::Whole);
            Walk::Onward(link.target(at))
        }
        _ => Walk::Arrived(Some(value.clone())),
    }
}

/// Notes what may lead on once it is a link: the last value that is there, and everything between it
/// and the end of the path. Whether anything else appears there does not matter: what was looked for
/// is a place of its own.
fn record_way(reads: &mut dyn Reads, at: &CellAddress, last: usize) {
    for depth in last..=at.path.len() {
        reads.record(&at.prefix(depth), Extent::Link);
    }
}

fn leads_on(link: &Link, follow: Follow) -> bool {
    match follow {
        Follow::Every => true,
        Follow::Redirects => link.redirect,
        Follow::Nothing => false,
    }
}
