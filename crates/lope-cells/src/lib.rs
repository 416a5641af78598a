//! Cells: JSON documents in spaces, links between them, and transactions over both.
//!
//! `json`, `path`, `id`, `address` and `link` are the values; `resolve`, `project` and `write` say
//! what reading and writing them means; `transaction` puts reads and writes together, `space`
//! commits them, and `edit` does so for many threads; `scheduler` says who is to run when they change,
//! `nodes` what they are called, `record` what is kept of whoever ran, `history` of what changed, `chain` how long messages that lead to messages wait;
//! `bounds` says what one commit may hold, `elsewhere` what of other spaces is known; `javascript` calls
//! scripts with cells, within limits.
//!
//! Nothing here reads a file, a random number or a clock, except that `javascript` ends a script by the
//! time of the processor if nothing else ends it, and nothing knows what a node of a recipe is.

pub mod address;
pub mod bounds;
pub mod chain;
pub mod edit;
pub mod element;
pub mod elsewhere;
pub mod error;
pub mod history;
pub mod id;
pub mod javascript;
pub mod json;
pub mod labels;
pub mod limit;
pub mod link;
pub mod nodes;
pub mod overlaps;
pub mod path;
mod post_chain;
pub mod project;
pub mod read;
pub mod record;
pub mod resolve;
pub mod scheduler;
pub mod schema;
pub mod snapshot;
pub mod space;
pub mod transaction;
pub mod value_graph;
pub mod wave_number;
pub mod wording;
pub mod write;

pub use address::CellAddress;
pub use id::{EntityId, SpaceName};
pub use json::Json;
pub use link::Link;
pub use path::CellPath;
pub use project::{Cell, Projected};
pub use read::{Extent, Reads};
pub use schema::Schema;
pub use space::Spaces;
pub use transaction::Transaction;
