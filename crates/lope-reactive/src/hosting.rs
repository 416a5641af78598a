//! A space on a store: its documents in the table `cells`, its events in the mailbox, one owner at
//! a time.
//!
//! Whoever hosts a space holds its lease; every wave is one batch that is refused if somebody else
//! has taken the space since. A wave's documents, the receipts of its events, their removal from
//! the inbox and their dead letters are in that batch, so that an event takes effect once.

mod check;
mod codec;
mod directory;
mod document_rows;
mod effects;
mod found_message;
mod inbox;
mod keys;
mod lease;
mod on_runtime;
mod pool;
mod posts;
mod query;
mod records;
mod request;
mod sightings;
mod space_host;
mod space_store;

use lope_mailbox::{BadMessage, MailboxError};
use lope_model::Timestamp;
use lope_store::StoreError;
use thiserror::Error;

pub use check::SpaceFinding;
pub use directory::{Directory, SpaceEntry};
pub use effects::{EffectPerformer, NoEffects, RequestedEffect};
pub use keys::worker_of;
pub use lease::{HostIdentity, LeaseRequest, SpaceLease};
use lope_cells::address::CellAddress;
use lope_cells::read::BeyondBound;
use lope_cells::resolve::TooManyHops;
pub use lope_cells::wave_number::WaveNumber;
pub use pool::{PoolOptions, SpacePool};
pub use records::HistoryEntry;
pub use request::SpaceClient;
pub use space_host::SpaceHost;
pub use space_store::{SpaceStore, StoredReceipt};

/// Why a space cannot be hosted, or not any more.
#[derive(Debug, Error)]
pub enum HostError {
    /// Somebody else hosts it until then, or longer.
    #[error("the space is hosted by '{owner}' until {until}")]
    Held { owner: String, until: Timestamp },
    /// Somebody else has taken it; nothing that is not saved will be.
    #[error("the space was taken by somebody else")]
    Lost,
    /// Too many events wait for the stream; try again later.
    #[error("{max} events wait for {stream} already", max = crate::limit::BACKLOG_MAX)]
    Backlog { stream: CellAddress },
    /// An id was used before for something else: nothing is done.
    #[error("something else was sent under the id '{id}' before")]
    OtherContent { id: String },
    /// A read from outside would go through too many documents.
    #[error(
        "it leads to more than {max} documents (DOCUMENTS_MAX): read a part of it, by a path, or what is stored, without following links",
        max = crate::limit::DOCUMENTS_MAX
    )]
    TooManyDocuments,
    /// Links lead on without end.
    #[error("{0}: they lead in a circle, perhaps")]
    Circle(TooManyHops),
    /// A read from outside would be too large.
    #[error(transparent)]
    Beyond(BeyondBound),
    /// A turn of the space cannot be taken, now or later.
    #[error("the space cannot be hosted: {0}")]
    Broken(String),
    /// A stored row cannot be read.
    #[error("a row of the space is damaged: {0}")]
    Damaged(String),
    #[error("no thread for spaces: {0}")]
    Thread(std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Message(#[from] BadMessage),
    #[error(transparent)]
    Mailbox(#[from] MailboxError),
}

impl HostError {
    /// May the same turn succeed later?
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Store(error) => error.is_passing(),
            Self::Held { .. } | Self::Backlog { .. } => true,
            Self::Lost
            | Self::OtherContent { .. }
            | Self::TooManyDocuments
            | Self::Circle(_)
            | Self::Broken(_)
            | Self::Beyond(_)
            | Self::Damaged(_)
            | Self::Thread(_)
            | Self::Message(_)
            | Self::Mailbox(_) => false,
        }
    }
}
