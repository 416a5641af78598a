//! What one wave and one document may hold. A write that would go beyond is refused, so that whatever
//! was let through can be saved.

use std::collections::{BTreeMap, BTreeSet};

use lope_model::{Failure, failure};

use crate::id::{EntityId, SpaceName};
use crate::json::Json;
use crate::limit;
use crate::read::Reads;
use crate::space::Spaces;
use crate::transaction::{Post, Transaction};

/// How much the space holds, as far as that matters.
#[derive(Debug, Default)]
pub struct Bounds {
    /// The most that documents can weigh that were changed by this host.
    weights: BTreeMap<EntityId, usize>,
    /// Rows and bytes that the documents of the wave take at most, and the documents they are.
    rows: usize,
    bytes: usize,
    seen: BTreeSet<EntityId>,
    /// Messages that have not reached their spaces, those of the wave included.
    pub posts: usize,
}

/// A write that may be a little larger than others: the record of a failure must have room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteRoom {
    Usual,
    Reserved,
}

impl Bounds {
    /// Whether what a transaction writes can be saved with what is in the wave already.
    pub fn validate(
        &mut self,
        spaces: &Spaces,
        space: &SpaceName,
        transaction: &Transaction,
        room: WriteRoom,
    ) -> Result<(), Failure> {
        self.validate_posts(transaction)?;
        let operations = transaction.operations().iter();
        let mut touched: Vec<(&EntityId, usize)> = operations
            .map(|operation| (&operation.at.id, operation.weight()))
            .collect();
        touched.sort_unstable();
        touched.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            kept.1 += if is_same { next.1 } else { 0 };
            is_same
        });
        for (id, growth) in &touched {
            self.grow(id, *growth, || spaces.snapshot().document(space, id));
            let max = match room {
                WriteRoom::Usual => limit::DOCUMENT_MAX,
                WriteRoom::Reserved => limit::DOCUMENT_MAX + limit::DOCUMENT_RESERVED,
            };
            self.validate_document(id, max, || transaction.document(space, id))?;
        }
        self.validate_wave(touched.into_iter().map(|(id, _)| id))
    }

    /// The next wave begins.
    pub fn begin_wave(&mut self) {
        self.seen.clear();
        (self.rows, self.bytes) = (0, 0);
    }

    /// Whether a wave has so much in it that the next event is for the next one.
    pub fn is_full(&self) -> bool {
        self.rows > limit::WAVE_ROWS_MAX / 2 || self.bytes > limit::WAVE_BYTES_MAX / 2
    }

    fn grow<'a>(
        &mut self,
        id: &EntityId,
        growth: usize,
        before: impl FnOnce() -> Option<&'a Json>,
    ) {
        match self.weights.get_mut(id) {
            Some(weight) => *weight = weight.saturating_add(growth),
            None => {
                let weight = before().map_or(0, Json::weight) + growth;
                self.weights.insert(id.clone(), weight);
            }
        }
    }

    /// What is known of a document only grows; it is weighed when that seems to be too much.
    fn validate_document(
        &mut self,
        id: &EntityId,
        max: usize,
        after: impl FnOnce() -> Option<Json>,
    ) -> Result<(), Failure> {
        let Some(known) = self.weights.get_mut(id).filter(|known| **known > max) else {
            return Ok(());
        };
        let weight = after().as_ref().map_or(0, Json::weight);
        if weight <= max {
            *known = weight;
            return Ok(());
        }
        let message = format!("{id} would have {weight} bytes, more than {max} (DOCUMENT_MAX)");
        Err(Failure::new(failure::kind::LIMIT, message))
    }

    fn validate_wave<'a>(
        &mut self,
        touched: impl Iterator<Item = &'a EntityId>,
    ) -> Result<(), Failure> {
        let fresh: Vec<&EntityId> = touched.filter(|id| !self.seen.contains(*id)).collect();
        let weight = |id: &EntityId| self.weights.get(id).copied().unwrap_or_default();
        let bytes: usize = fresh.iter().map(|id| weight(id)).sum();
        let rows = fresh.iter().map(|id| rows_of(weight(id))).sum::<usize>();
        if self.rows + rows > limit::WAVE_ROWS_MAX {
            let max = limit::WAVE_ROWS_MAX;
            let message = format!("more than {max} rows would change at once (WAVE_ROWS_MAX)");
            return Err(Failure::new(failure::kind::LIMIT, message));
        }
        if self.bytes + bytes > limit::WAVE_BYTES_MAX {
            let max = limit::WAVE_BYTES_MAX;
            let message = format!("more than {max} bytes would change at once (WAVE_BYTES_MAX)");
            return Err(Failure::new(failure::kind::LIMIT, message));
        }
        self.rows += rows;
        self.bytes += bytes;
        self.seen.extend(fresh.into_iter().cloned());
        Ok(())
    }

    fn validate_posts(&self, transaction: &Transaction) -> Result<(), Failure> {
        let posts = transaction.posts();
        if posts.is_empty() {
            return Ok(());
        }
        if self.posts + posts.len() > limit::POSTS_MAX {
            let max = limit::POSTS_MAX;
            let message = format!("{max} messages to other spaces wait already (POSTS_MAX)");
            return Err(Failure::new(failure::kind::LIMIT, message));
        }
        let weight: usize = posts.iter().map(Post::weight).sum();
        if weight > limit::POST_MAX {
            let max = limit::POST_MAX;
            let message = format!("{weight} bytes for other spaces, more than {max} (POST_MAX)");
            return Err(Failure::new(failure::kind::LIMIT, message));
        }
        Ok(())
    }
}

/// The rows that are written or deleted for a document at most.
const fn rows_of(weight: usize) -> usize {
    if weight > limit::DOCUMENT_WHOLE_MAX {
        1 + limit::DOCUMENT_LEVELS
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use crate::address::CellAddress;

    use super::*;

    /// A transaction that puts a value into so many documents.
    fn writing(spaces: &Spaces, documents: std::ops::Range<usize>) -> Transaction {
        let mut transaction = spaces.begin();
        for number in documents {
            let at = CellAddress::parse(&format!("a/d{number}")).unwrap();
            transaction.set(&at, &1.into()).unwrap();
        }
        transaction
    }

    #[test]
    fn a_wave_takes_so_many_documents_and_the_next_one_as_many_again() {
        let (spaces, space) = (Spaces::default(), "a".parse().unwrap());
        let mut bounds = Bounds::default();
        let mut valid = |documents, is_next: bool| {
            if is_next {
                bounds.begin_wave();
            }
            let transaction = writing(&spaces, documents);
            bounds.validate(&spaces, &space, &transaction, WriteRoom::Usual)
        };
        let most = limit::WAVE_ROWS_MAX;
        valid(0..most - 1, false).unwrap();
        let refused = valid(most..most + 2, false).unwrap_err();
        assert_eq!(&*refused.kind, failure::kind::LIMIT);
        let expected = "more than 75000 rows would change at once (WAVE_ROWS_MAX)";
        assert_eq!(refused.message, expected);
        valid(most..most + 1, false).unwrap();
        valid(0..most - 1, false).unwrap();
        valid(most..most + 2, true).unwrap();
    }
}
