//! Messages that a wave has for other spaces, on their way: rows that are saved with the wave, and
//! moved into the inboxes of those spaces as soon as these have room.
//!
//! A row leaves in the commit that puts its message into an inbox, guarded by being there: however
//! often it is tried, and whoever hosts the space by then, it arrives once. Its id says which wave of
//! which space sent it. What becomes of it comes back the same way, with the wave that handled it.
//!
//! A message at the end of a very long chain of messages waits for its time first, in a row of another
//! kind, and holds nothing else up.

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
use super::keys::{DELAYED, POSTS};
use super::space_store::{SpaceStore, stored};
use crate::limit;
use crate::machine::{Arrival, PostAnswer, PostChain, PostContent, SpaceAction, SpacePost, Wave};

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
    /// Those that may go on.
    pub(super) count: usize,
    /// Not before then, if others had no room.
    pub(super) due: Option<Timestamp>,
    pub(super) delayed: DelayedPosts,
}

/// Messages that wait for their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DelayedPosts {
    pub(super) count: usize,
    /// When the first of them may go on.
    pub(super) first: Option<Timestamp>,
}

impl WaitingPosts {
    /// When to try again, if there is something to try. A clock that was set back holds nothing up.
    pub(super) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let again = |due: &Timestamp| *due <= now.plus(limit::POST_AGAIN);
        let again = self.due.filter(again).unwrap_or(now);
        let in_time = |first: &Timestamp| *first <= now.plus(limit::BACKOFF_MAX);
        let first = self.delayed.first;
        // Those whose time has come may have no room either.
        let first = first.map(|first| Some(first).filter(in_time).unwrap_or(now).max(again));
        let due = (self.count > 0).then_some(again);
        due.into_iter().chain(first).min()
    }

    /// How many there are, those that wait for their time included.
    pub(super) fn all(&self) -> usize {
        self.count + self.delayed.count
    }

    /// Takes in what a wave sent.
    pub(super) fn add(&mut self, wave: &Wave, answers: usize, now: Timestamp) {
        let waits = wave.posts.iter().filter_map(|post| post.chain.wait());
        let waits: Vec<Timestamp> = waits.map(|wait| now.plus(wait)).collect();
        let at_once = wave.posts.len() - waits.len() + answers;
        if at_once > 0 {
            (self.count, self.due) = (self.count + at_once, None);
        }
        self.delayed.count += waits.len();
        let first = waits.into_iter().chain(self.delayed.first).min();
        self.delayed.first = first;
    }
}

impl SpaceStore {
    /// How many messages have not reached their spaces.
    pub async fn posts(&self) -> Result<usize, HostError> {
        let range = Range::prefix(self.keys.table(), &self.keys.all(POSTS), usize::MAX);
        Ok(self.tables.count(range).await? as usize)
    }

    /// The messages that wait for their time.
    pub(super) async fn delayed_posts(&self) -> Result<DelayedPosts, HostError> {
        let prefix = self.keys.all(DELAYED);
        let rows = Range::prefix(self.keys.table(), &prefix, 1);
        let rows = self.tables.range(rows).await?;
        let first = rows
            .first()
            .and_then(|row| due_of(&row.key[prefix.len()..]));
        if first.is_none() {
            return Ok(DelayedPosts::default());
        }
        let all = Range::prefix(self.keys.table(), &prefix, usize::MAX);
        let count = self.tables.count(all).await? as usize;
        Ok(DelayedPosts { count, first })
    }

    /// Whether nothing waits for the space, and nothing that it sent waits for others. What waits for
    /// its time, because messages follow from each other without end, does not count.
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
        now: Timestamp,
    ) -> Result<Vec<Write>, HostError> {
        let answers = done.iter().filter_map(|found| answer(found, wave));
        let posts = wave.posts.iter().cloned().chain(answers);
        let rows = posts.enumerate().map(|(index, post)| {
            let number = wave.number;
            let id = format!("{}/{epoch}.{number}/{index}", self.space());
            let at = self.keys.post(epoch, number, index);
            let at = match post.chain.wait() {
                Some(wait) => self.keys.delayed(now.plus(wait).millis(), &at),
                None => at,
            };
            Ok(Write::Put(at, encode(&row_of(post, id))?))
        });
        rows.collect()
    }

    /// Moves messages, of which those are known to wait, to where they are for, those that have to wait
    /// left out. Says what is left; none if somebody else has the space.
    pub(super) async fn forward(
        &self,
        epoch: u64,
        known: WaitingPosts,
        now: Timestamp,
    ) -> Result<Option<WaitingPosts>, HostError> {
        let mut moves = Moves {
            waiting: known.all(),
            ..Moves::default()
        };
        for kind in [POSTS, DELAYED] {
            if kind == POSTS || known.delayed.count > 0 {
                self.plan_moves(kind, epoch, now, &mut moves).await?;
            }
        }
        if !moves.batches.is_empty() && !self.do_moves(epoch, moves).await? {
            return Ok(None);
        }
        let delayed = match known.delayed.count {
            0 => DelayedPosts::default(),
            _ => self.delayed_posts().await?,
        };
        let count = self.posts().await?;
        let left = WaitingPosts {
            count,
            due: None,
            delayed,
        };
        // What has room is moved at once; for the rest it is tried again.
        let has_moved = left.all() < known.all();
        let due = (!has_moved).then(|| now.plus(limit::POST_AGAIN));
        Ok(Some(WaitingPosts { due, ..left }))
    }

    /// Plans the moves of one kind of rows, of those whose time has come.
    async fn plan_moves(
        &self,
        kind: u8,
        epoch: u64,
        now: Timestamp,
        moves: &mut Moves,
    ) -> Result<(), HostError> {
        let prefix = self.keys.all(kind);
        let mut range = Range::prefix(self.keys.table(), &prefix, limit::POSTS_AT_ONCE);
        while moves.bytes < limit::POST_BYTES_AT_ONCE {
            let rows = self.tables.range(range.clone()).await?;
            for row in &rows {
                if kind == DELAYED && !is_due(&row.key[prefix.len()..], now) {
                    continue;
                }
                self.plan_move(epoch, row, moves).await?;
            }
            match rows.last() {
                Some(last) if rows.len() == range.limit => {
                    range.from = [&*last.key, &[0]].concat();
                }
                _ => break,
            }
        }
        Ok(())
    }

    async fn plan_move(&self, epoch: u64, row: &Row, moves: &mut Moves) -> Result<(), HostError> {
        let post: PostRow = decode(&row.value)?;
        let to = self.beside(post.to.clone());
        if !moves.rooms.contains_key(&post.to) {
            moves
                .rooms
                .insert(post.to.clone(), to.room(moves.waiting).await?);
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
    /// How many there are, at most.
    waiting: usize,
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
    let SpacePost {
        to,
        from,
        content,
        chain,
    } = post;
    let message = match content {
        PostContent::Event { stream, payload } => SpaceMessage::Event {
            stream,
            payload,
            from,
            chain,
        },
        PostContent::Command(action) => SpaceMessage::Command {
            space: to.to_string(),
            action: Box::new(action),
            from,
            chain,
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
        // A receipt is the end of what it answers.
        chain: PostChain::default(),
    })
}

/// When a message may go on; `key` is what stands behind the name of its space.
fn due_of(key: &[u8]) -> Option<Timestamp> {
    let due = key.first_chunk::<8>()?;
    Some(Timestamp::from_millis(i64::from_be_bytes(*due)))
}

/// Whether the time of a message has come. A clock that was set back holds nothing up.
fn is_due(key: &[u8], now: Timestamp) -> bool {
    due_of(key).is_none_or(|due| due <= now || due > now.plus(limit::BACKOFF_MAX))
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
            chain: PostChain::default(),
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
        let waiting = |count, due| WaitingPosts {
            count,
            due,
            delayed: DelayedPosts::default(),
        };
        assert_eq!(waiting(0, Some(now)).next(now), None);
        assert_eq!(waiting(1, None).next(now), Some(now));
        let later = now.plus(limit::POST_AGAIN);
        assert_eq!(waiting(1, Some(later)).next(now), Some(later));
        let far = now.plus(lope_model::Span::from_secs(3_600));
        assert_eq!(waiting(1, Some(far)).next(now), Some(now));
    }

    #[test]
    fn what_waits_for_its_time_goes_on_then_and_holds_nothing_else_up() {
        let now = Timestamp::from_millis(1_000_000);
        let after = |millis| now.plus(lope_model::Span::from_millis(millis));
        let waiting = |count, due, first| WaitingPosts {
            count,
            due,
            delayed: DelayedPosts { count: 1, first },
        };
        let table = [
            (waiting(0, None, None), None),
            (waiting(0, None, Some(after(250))), Some(after(250))),
            (waiting(0, None, Some(after(2_000))), Some(after(2_000))),
            (waiting(1, None, Some(after(250))), Some(now)),
            (
                waiting(1, Some(after(500)), Some(after(250))),
                Some(after(500)),
            ),
            (
                waiting(1, Some(after(500)), Some(after(900))),
                Some(after(500)),
            ),
            // No room for what may go on.
            (waiting(0, Some(after(500)), Some(now)), Some(after(500))),
            // A clock that was set back.
            (waiting(0, None, Some(after(3_600_000))), Some(now)),
        ];
        for (posts, next) in table {
            assert_eq!(posts.next(now), next, "{posts:?}");
        }
        let key = |millis| after(millis).millis().to_be_bytes();
        assert!(is_due(&key(0), now) && !is_due(&key(1), now));
        assert!(!is_due(&key(2_000), now) && is_due(&key(2_001), now));
    }
}
