//! Events and commands on their way to a space: messages of the mailbox to the space's worker.

use std::sync::Arc;

use lope_cells::address::CellAddress;
use lope_cells::json::Json;
use lope_mailbox::frame::{Message, MessageKind};
use lope_mailbox::key::{append_inbox, read_inbox};
use lope_mailbox::message::seal;
use lope_model::limit::PAGE_MAX;
use lope_store::tables::{Batch, Range, TableId, Write};
use serde::{Deserialize, Serialize};

use super::HostError;
use super::codec::{decode, encode};
use super::found_message::FoundMessage;
use super::space_store::SpaceStore;
use crate::limit;
use crate::machine::{Arrival, PostChain, PostOrigin, SpaceAction, SpaceCommand, StreamEvent};

/// What a message to a space says.
#[derive(Serialize, Deserialize)]
pub(super) enum SpaceMessage {
    Event {
        stream: CellAddress,
        payload: Json,
        /// The node of another space that sent it, and waits for its receipt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<PostOrigin>,
        /// What led to it.
        #[serde(default, skip_serializing_if = "PostChain::is_empty")]
        chain: PostChain,
    },
    Command {
        space: String,
        action: Box<SpaceAction>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<PostOrigin>,
        #[serde(default, skip_serializing_if = "PostChain::is_empty")]
        chain: PostChain,
    },
}

impl SpaceStore {
    /// Sends something to the space; whoever hosts it finds it. An event is refused while too many
    /// wait for its stream, and anything whose id is known for something else.
    pub async fn deliver(&self, arrival: &Arrival) -> Result<u64, HostError> {
        if let Some(receipt) = self.receipt(arrival.id()).await? {
            receipt.validate(arrival)?;
        }
        match arrival {
            Arrival::Event(event) => self.send(event).await,
            Arrival::Command(command) => self.ask(command).await,
        }
    }

    /// Sends an event to a stream of the space; whoever hosts it finds it. Refused while too many
    /// events wait for the stream, unless it is among them.
    pub async fn send(&self, event: &StreamEvent) -> Result<u64, HostError> {
        if let Some(known) = self.validate_backlog(event).await? {
            return Ok(known);
        }
        let message = SpaceMessage::Event {
            stream: event.stream.clone(),
            payload: event.payload.clone(),
            from: None,
            chain: PostChain::default(),
        };
        self.append(&event.id, &message).await
    }

    /// Asks whoever hosts the space to do something.
    pub async fn ask(&self, command: &SpaceCommand) -> Result<u64, HostError> {
        self.ask_after(command, PostChain::default()).await
    }

    /// Asks whoever hosts the space to do something that this led to.
    pub async fn ask_after(
        &self,
        command: &SpaceCommand,
        chain: PostChain,
    ) -> Result<u64, HostError> {
        let message = SpaceMessage::Command {
            space: self.space().to_string(),
            action: Box::new(command.action.clone()),
            from: None,
            chain,
        };
        self.append(&command.id, &message).await
    }

    async fn append(&self, id: &str, message: &SpaceMessage) -> Result<u64, HostError> {
        let batch = Batch {
            guards: Vec::new(),
            writes: vec![self.arriving(id, message)?, self.enlisting()],
        };
        let replies = self.tables.commit(vec![batch]).await?;
        let applied = replies.into_iter().next().and_then(Result::ok);
        let number = applied.and_then(|applied| applied.appended.first().copied());
        number.ok_or_else(|| HostError::Damaged("a message got no number".to_owned()))
    }

    /// The write that puts a message into the inbox of the space.
    pub(super) fn arriving(&self, id: &str, message: &SpaceMessage) -> Result<Write, HostError> {
        let payload = encode(message)?;
        let worker = self.keys.worker();
        let message = Message::new(MessageKind::Event, worker.number(), id.as_bytes(), &payload);
        Ok(append_inbox(worker, seal(&message)?))
    }

    /// The write that puts the space into the list of spaces.
    pub(super) fn enlisting(&self) -> Write {
        let name = self.space().as_str().as_bytes().to_vec();
        Write::Put(self.keys.entry(), name)
    }

    /// The messages that wait, in order, at most `limit`.
    pub(super) async fn waiting(&self, limit: usize) -> Result<Vec<FoundMessage>, HostError> {
        let worker = self.keys.worker().to_bytes();
        let range = Range::prefix(TableId::INBOX, &worker, limit);
        let rows = self.tables.range(range).await?.into_iter();
        let found = rows.filter_map(|row| {
            let (_, seq) = read_inbox(&row.key)?;
            let mut found = FoundMessage {
                seq,
                arrival: None,
                from: None,
                chain: PostChain::default(),
                frame: row.value,
            };
            if let Some((id, message)) = read_message(&found.frame) {
                self.fill(&mut found, id, message);
            }
            Some(found)
        });
        Ok(found.collect())
    }

    /// Puts down what a message says, if it is for this space.
    fn fill(&self, found: &mut FoundMessage, id: Arc<str>, message: SpaceMessage) {
        match message {
            SpaceMessage::Event {
                stream,
                payload,
                from,
                chain,
            } if stream.space == *self.space() => {
                let event = StreamEvent {
                    id,
                    stream,
                    payload,
                };
                found.arrival = Some(Arrival::Event(event));
                (found.from, found.chain) = (from, chain);
            }
            SpaceMessage::Command {
                space,
                action,
                from,
                chain,
            } if space == self.space().as_str() => {
                let action = *action;
                let command = SpaceCommand { id, action };
                found.arrival = Some(Arrival::Command(command));
                (found.from, found.chain) = (from, chain);
            }
            SpaceMessage::Event { .. } | SpaceMessage::Command { .. } => {}
        }
    }

    /// Refuses to send to a stream for which too many events wait. The number of the event if it is
    /// among them.
    async fn validate_backlog(&self, event: &StreamEvent) -> Result<Option<u64>, HostError> {
        let worker = self.keys.worker().to_bytes();
        let range = Range::prefix(TableId::INBOX, &worker, limit::BACKLOG_MAX);
        if self.tables.count(range).await? < limit::BACKLOG_MAX as u64 {
            return Ok(None);
        }
        let waiting = self.waiting(PAGE_MAX).await?;
        let same = waiting.iter().filter_map(|found| match &found.arrival {
            Some(Arrival::Event(other)) if other.stream == event.stream => Some((found.seq, other)),
            Some(_) | None => None,
        });
        let same: Vec<(u64, &StreamEvent)> = same.collect();
        if let Some((known, _)) = same.iter().find(|(_, other)| other.id == event.id) {
            return Ok(Some(*known));
        }
        if same.len() < limit::BACKLOG_MAX {
            return Ok(None);
        }
        Err(HostError::Backlog {
            stream: event.stream.clone(),
        })
    }
}

fn read_message(frame: &[u8]) -> Option<(Arc<str>, SpaceMessage)> {
    let message = Message::decode(frame).ok()?;
    let id = std::str::from_utf8(message.id).ok()?.into();
    Some((id, decode(message.payload).ok()?))
}
