//! Whether the rows of spaces are sound: every row can be read, every space can be found, what is
//! said to run has its documents, and leases agree with the epochs that fence them.

use std::collections::{BTreeMap, BTreeSet};

use lope_cells::id::{EntityId, SpaceName};
use lope_cells::json::Json;
use lope_model::limit::PAGE_MAX;
use lope_store::tables::{Range, Row};

use super::HostError;
use super::codec::decode;
use super::directory::Directory;
use super::document_rows::{is_readable, no_document};
use super::keys::{self, ACTIVE, DOCUMENTS, ENTRIES, EPOCHS, HISTORY, HOSTS, LEASES, NODES};
use super::keys::{DELAYED, POSTS, RECEIPTS, WAVES, WIRINGS};
use super::lease::SpaceLease;
use super::posts::PostRow;
use super::records;
use super::space_store::StoredReceipt;
use crate::machine::{NodeRecord, PostChain};
use crate::process::{entries, recorded_type, running_set};
use crate::recipe::Recipe;

/// Something that is wrong with the rows of spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceFinding {
    /// None if the row does not tell.
    pub space: Option<SpaceName>,
    pub message: String,
}

/// What the rows of one space say.
#[derive(Default)]
struct Seen {
    has_entry: bool,
    lease: Option<u64>,
    epoch: Option<u64>,
    /// The document whose rows were seen last.
    last_document: Option<EntityId>,
}

impl Directory {
    /// What is wrong with the rows of spaces; nothing if they are sound.
    pub async fn check(&self) -> Result<Vec<SpaceFinding>, HostError> {
        let mut findings = Vec::new();
        let mut seen: BTreeMap<SpaceName, Seen> = BTreeMap::new();
        let mut range = Range::prefix(self.table(), b"", PAGE_MAX);
        loop {
            let rows = self.tables().range(range.clone()).await?;
            for row in &rows {
                if let Err(message) = check_row(row, &mut seen) {
                    let space = keys::space_of(&row.key);
                    findings.push(SpaceFinding { space, message });
                }
            }
            match rows.last() {
                Some(last) if rows.len() == PAGE_MAX => range.from = [&*last.key, &[0]].concat(),
                _ => break,
            }
        }
        for (space, seen) in seen {
            let running = self.check_running(&space).await?.into_iter();
            let messages = seen.problems().into_iter().chain(running);
            findings.extend(messages.map(|message| SpaceFinding {
                space: Some(space.clone()),
                message,
            }));
        }
        Ok(findings)
    }

    /// What is said to run and cannot.
    async fn check_running(&self, space: &SpaceName) -> Result<Vec<String>, HostError> {
        let store = self.space(space.clone());
        let set = running_set(space);
        let Ok(set) = store.documents(&[set.id]).await else {
            // The row was told of already.
            return Ok(Vec::new());
        };
        let running = entries(set.into_iter().next().flatten().as_ref());
        let known: BTreeSet<EntityId> = running.iter().map(|(id, _)| id.clone()).collect();
        let mut found = Vec::new();
        for (process, owner) in running {
            if owner.is_some_and(|owner| !known.contains(&owner.process)) {
                found.push(format!("{process} runs for a process that does not run"));
            }
            let stored = store.documents(std::slice::from_ref(&process)).await;
            let stored = stored.unwrap_or_default().into_iter().next().flatten();
            let Some(recipe) = recorded_type(stored.as_ref()) else {
                found.push(format!(
                    "{process} is to run, and its process cell is missing"
                ));
                continue;
            };
            let document = store.documents(&[Recipe::stored_as(&recipe)]).await;
            let document = document.unwrap_or_default().into_iter().next().flatten();
            match document {
                Some(document) if document.digest().to_string() == *recipe => {}
                Some(_) => found.push(format!("the recipe {recipe} of {process} was changed")),
                None => found.push(format!("the recipe {recipe} of {process} is missing")),
            }
        }
        Ok(found)
    }
}

impl Seen {
    fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        if !self.has_entry {
            found.push("it is not in the list of spaces".to_owned());
        }
        if self.lease != self.epoch {
            let text = |epoch: Option<u64>| epoch.map_or("none".to_owned(), |it| it.to_string());
            let (lease, epoch) = (text(self.lease), text(self.epoch));
            found.push(format!("its lease has epoch {lease}, its fence {epoch}"));
        }
        found
    }
}

/// Whether a row can be read; notes what it says of its space.
fn check_row(row: &Row, seen: &mut BTreeMap<SpaceName, Seen>) -> Result<(), String> {
    let kind = row.key.first().copied();
    let unreadable = |what: &str| format!("{what} cannot be read");
    match kind {
        Some(HOSTS) => return read::<i64>(row).map_err(|()| unreadable("the lease of a host")),
        Some(ENTRIES) => {
            let name = std::str::from_utf8(&row.value).ok();
            let name: SpaceName = name
                .and_then(|name| name.parse().ok())
                .ok_or_else(|| unreadable("the name of a space"))?;
            seen.entry(name).or_default().has_entry = true;
            return Ok(());
        }
        _ => {}
    }
    let space = keys::space_of(&row.key).ok_or_else(|| "a row belongs to no space".to_owned())?;
    let space = seen.entry(space).or_default();
    let told = match kind {
        Some(DOCUMENTS) => {
            let of = keys::rest_of(&row.key).and_then(keys::read_document);
            let (id, level) = of.ok_or_else(|| unreadable("the id of a document"))?;
            let is_readable = match level {
                None => read::<Json>(row).is_ok(),
                Some(_) if space.last_document.as_ref() != Some(&id) => {
                    return Err(no_document(&id).to_string());
                }
                Some(_) => is_readable(&row.value),
            };
            let told = unreadable(&format!("the document {id}"));
            space.last_document = Some(id);
            return is_readable.then_some(()).ok_or(told);
        }
        Some(LEASES) => {
            let lease: Option<SpaceLease> = decode(&row.value).ok();
            space.lease = lease.map(|lease| lease.epoch);
            space.lease.map(|_| ()).ok_or("its lease")
        }
        Some(EPOCHS) => {
            let epoch = <[u8; 8]>::try_from(&*row.value).ok();
            space.epoch = epoch.map(u64::from_be_bytes);
            space.epoch.map(|_| ()).ok_or("its fence")
        }
        Some(RECEIPTS) => read::<StoredReceipt>(row).map_err(|()| "a receipt"),
        Some(NODES) => read::<NodeRecord>(row).map_err(|()| "the record of a node"),
        Some(WIRINGS | HISTORY) => records::is_readable(row)
            .then_some(())
            .ok_or("a record of its nodes or changes"),
        Some(POSTS | DELAYED) => read::<PostRow>(row).map_err(|()| "a message to another space"),
        Some(ACTIVE) if !row.value.is_empty() => {
            read::<PostChain>(row).map_err(|()| "what led to its last wave")
        }
        Some(WAVES | ACTIVE) => Ok(()),
        _ => return Err("a row is of no known kind".to_owned()),
    };
    told.map_err(unreadable)
}

fn read<T: serde::de::DeserializeOwned>(row: &Row) -> Result<(), ()> {
    rmp_serde::from_slice::<T>(&row.value)
        .map(|_| ())
        .map_err(|_| ())
}
