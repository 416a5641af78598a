//! Messages that a wave has for other spaces, on their way: rows that are saved with the wave, and
//! moved into the inboxes of those spaces as soon as these have room.
//!
//! A row leaves in the commit that puts its message into an inbox, guarded by being there: however
//! often it is tried, and whoever hosts the space by then, it arrives once. Its id says which wave of
//! which space sent it. What becomes of it comes back the same way, with the wave that handled it.

use std::collections::BTreeMap;

use lope_cells::address::CellAddress;
use lope_cells::id::SpaceName;
use lope_model::{Digest, Timestamp};
use lope_store::tables::{At, Batch, BatchReply, Guard, Range, Row, TableId, Write};
use serde::{Deserialize, Serialize};

use super::HostError;
use super::codec::{decode, encode};
use super::found_message::FoundMessage;
use super::inbox::SpaceMessage;
use super::keys::POSTS;
use super::space_store::{SpaceStore, stored};
use crate::limit;
use crate::machine::{Arrival, PostAnswer, PostContent, SpaceAction, SpacePost, Wave};

/// A message that has not reached its space.
#[derive(Serialize, Deserialize)]
pub(super) struct PostRow {
    to: SpaceName,
    id: String,
    message: SpaceMessage,
}

/// What a host knows of its messages that have not reached others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WaitingPosts {
    pub(super) count: usize,
    /// Not before then, if others had no room.
    pub(super) due: Option<Timestamp>,
}

impl WaitingPosts {
    /// When to try again, if there is something to try. A clock that was set back holds nothing up.
    pub(super) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let due = self.due.unwrap_or(now).min(now.plus(limit::POST_AGAIN));
        (self.count > 0).then_some(due)
    }
}

impl SpaceStore {
    /// How many messages have not reached their spaces.
    pub async fn posts(&self) -> Result<usize, HostError> {
        let range = Range::prefix(self.keys.table(), &self.keys.all(POSTS), usize::MAX);
        Ok(self.tables.count(range).await? as usize)
    }

    /// Whether nothing waits for the space, and nothing that it sent waits for others.
    pub async fn has_empty_queues(&self) -> Result<bool, HostError> {
        let worker = self.keys.worker().to_bytes();
        let inbox = Range::prefix(TableId::INBOX, &worker, 1);
        Ok(self.tables.count(inbox).await? == 0 && self.posts().await? == 0)
    }

    /// The rows of what a wave sends: what its nodes ask for, and the receipts of what it is done with
    /// for those who asked.
    pub(super) fn posting(
        &self,
        epoch: u64,
        wave: &Wave,
        done: &[FoundMessage],
    ) -> Result<Vec<Write>, HostError> {
        let answers = done.iter().filter_map(|found| answer(found, wave));
        let posts = wave.posts.iter().cloned().chain(answers);
        let rows = posts.enumerate().map(|(index, post)| {
            let number = wave.number;
            let id = format!("{}/{epoch}.{number}/{index}", self.space());
            let at = self.keys.post(epoch, number, index);
            Ok(Write::Put(at, encode(&row_of(post, id))?))
        });
        rows.collect()
    }

    /// Moves messages, of which there are `waiting`, to where they are for, those that have to wait left
    /// out. Says how many are left; none if somebody else has the space.
    pub(super) async fn forward(
        &self,
        epoch: u64,
        waiting: usize,
    ) -> Result<Option<usize>, HostError> {
        let prefix = self.keys.all(POSTS);
        let mut range = Range::prefix(self.keys.table(), &prefix, limit::POSTS_AT_ONCE);
        let mut moves = Moves::default();
        while moves.bytes < limit::POST_BYTES_AT_ONCE {
            let rows = self.tables.range(range.clone()).await?;
            for row in &rows {
                self.plan_move(epoch, waiting, row, &mut moves).await?;
            }
            match rows.last() {
                Some(last) if rows.len() == range.limit => {
                    range.from = [&*last.key, &[0]].concat();
                }
                _ => break,
            }
        }
        if !moves.batches.is_empty() && !self.do_moves(epoch, moves).await? {
            return Ok(None);
        }
        self.posts().await.map(Some)
    }

    async fn plan_move(
        &self,
        epoch: u64,
        waiting: usize,
        row: &Row,
        moves: &mut Moves,
    ) -> Result<(), HostError> {
        let post: PostRow = decode(&row.value)?;
        let to = self.beside(post.to.clone());
        if !moves.rooms.contains_key(&post.to) {
            moves.rooms.insert(post.to.clone(), to.room(waiting).await?);
        }
        let is_full = moves.bytes >= limit::POST_BYTES_AT_ONCE;
        let room = moves.rooms.get_mut(&post.to).filter(|_| !is_full);
        if !room.is_some_and(|room| room.take(&post.message)) {
            return Ok(());
        }
        moves.bytes += row.value.len();
        let at = At::new(self.keys.table(), row.key.clone());
        let batch = moves.batches.entry(post.to);
        let batch = batch.or_insert_with(|| Batch {
            guards: vec![self.fence(epoch)],
            writes: vec![to.enlisting()],
        });
        let still_there = Guard::Unchanged(at.clone(), Digest::of(&row.value));
        batch.guards.push(still_there);
        batch.writes.push(Write::Delete(at));
        batch.writes.push(to.arriving(&post.id, &post.message)?);
        Ok(())
    }

    /// Moves what was planned; says whether the space is still the owner's.
    async fn do_moves(&self, epoch: u64, moves: Moves) -> Result<bool, HostError> {
        let fence = self.fence(epoch);
        let batches = moves.batches.into_values().collect();
        let replies = self.tables.commit(batches).await?;
        // Any other guard that does not hold: a commit that was not answered had happened.
        let is_lost = |reply: &BatchReply| {
            let conflict = reply.as_ref().err();
            conflict.is_some_and(|conflict| conflict.at == *fence.at())
        };
        Ok(!replies.iter().any(is_lost))
    }

    /// What the inbox of the space has room for, if `more` are to come.
    async fn room(&self, more: usize) -> Result<InboxRoom, HostError> {
        let worker = self.keys.worker().to_bytes();
        let range = Range::prefix(TableId::INBOX, &worker, limit::BACKLOG_MAX);
        let waiting = self.tables.count(range).await? as usize;
        if waiting + more <= limit::BACKLOG_MAX {
            return Ok(InboxRoom::default());
        }
        let mut room = InboxRoom {
            backlog: Some(BTreeMap::new()),
        };
        for found in self.waiting(lope_model::limit::PAGE_MAX).await? {
            let stream = match found.arrival {
                Some(Arrival::Event(event)) => Some(event.stream),
                Some(Arrival::Command(_)) | None => None,
            };
            room.count(stream);
        }
        Ok(room)
    }
}

/// Messages that are to be moved, by the space they are for.
#[derive(Default)]
struct Moves {
    batches: BTreeMap<SpaceName, Batch>,
    rooms: BTreeMap<SpaceName, InboxRoom>,
    bytes: usize,
}

/// What waits for each stream of a space, and of commands; none if there is room for all.
#[derive(Debug, Default)]
struct InboxRoom {
    backlog: Option<BTreeMap<Option<CellAddress>, usize>>,
}

impl InboxRoom {
    fn count(&mut self, stream: Option<CellAddress>) -> usize {
        let Some(backlog) = &mut self.backlog else {
            return 0;
        };
        let waiting = backlog.entry(stream).or_default();
        *waiting += 1;
        *waiting
    }

    /// Whether there is room for a message. One for which there is none keeps those behind it out.
    fn take(&mut self, message: &SpaceMessage) -> bool {
        let stream = match message {
            SpaceMessage::Event { stream, .. } => Some(stream.clone()),
            SpaceMessage::Command { .. } => None,
        };
        self.count(stream) <= limit::BACKLOG_MAX
    }
}

fn row_of(post: SpacePost, id: String) -> PostRow {
    let SpacePost { to, from, content } = post;
    let message = match content {
        PostContent::Event { stream, payload } => SpaceMessage::Event {
            stream,
            payload,
            from,
        },
        PostContent::Command(action) => SpaceMessage::Command {
            space: to.to_string(),
            action: Box::new(action),
            from,
        },
    };
    PostRow { to, id, message }
}

/// The receipt of a message that a wave is done with, for the node that sent it.
fn answer(found: &FoundMessage, wave: &Wave) -> Option<SpacePost> {
    let from = found.from.clone()?;
    let id = found.arrival.as_ref()?.id();
    let receipt = wave.receipts.iter().find(|receipt| receipt.event == *id)?;
    let receipt = stored(receipt, Timestamp::from_millis(0));
    let to = from.space.clone();
    let answer = PostAnswer {
        from,
        event: receipt.event.into(),
        outcome: receipt.outcome,
        failure: receipt.failure,
    };
    Some(SpacePost {
        to,
        from: None,
        content: PostContent::Command(SpaceAction::Answered(answer)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_stream_that_is_full_keeps_nothing_else_out() {
        let event = |stream: &str| SpaceMessage::Event {
            stream: CellAddress::parse(stream).unwrap(),
            payload: 1.into(),
            from: None,
        };
        let mut room = InboxRoom {
            backlog: Some(BTreeMap::new()),
        };
        for _ in 0..limit::BACKLOG_MAX {
            assert!(room.take(&event("b/s/one")));
        }
        assert!(!room.take(&event("b/s/one")));
        assert!(room.take(&event("b/s/two")));
        assert!(InboxRoom::default().take(&event("b/s/one")));
    }

    #[test]
    fn a_clock_that_was_set_back_holds_no_message_up() {
        let now = Timestamp::from_millis(1_000_000);
        let waiting = |count, due| WaitingPosts { count, due };
        assert_eq!(waiting(0, Some(now)).next(now), None);
        assert_eq!(waiting(1, None).next(now), Some(now));
        let later = now.plus(limit::POST_AGAIN);
        assert_eq!(waiting(1, Some(later)).next(now), Some(later));
        let far = now.plus(lope_model::Span::from_secs(3_600));
        assert_eq!(waiting(1, Some(far)).next(now), Some(later));
    }
}
