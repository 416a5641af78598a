//! The words every room speaks: ids, values, time, leases, policies, limits and failures, as plain
//! data.
//!
//! Nothing here reads a clock, a file, an environment variable or a random number; whatever comes
//! from outside (a time, a fresh id) is passed in.

pub mod digest;
pub mod epoch;
pub mod failure;
pub mod id;
pub mod limit;
pub mod masks;
pub mod name;
pub mod policy;
pub mod time;
pub mod trace;
pub mod value;

pub use digest::{Blob, Digest};
pub use epoch::Epoch;
pub use failure::Failure;
pub use id::{Revision, RunId, RunnerId, VersionId};
pub use name::{Priority, QueueName, Realm};
pub use policy::Policy;
pub use time::{Clock, Moment, Span, Timestamp};
pub use value::{Map, Tag, Value};
