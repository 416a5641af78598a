//! Development only: the engine's own machines in a world made of dice.
//!
//! Sessions, shards and slots of several processes, the law and the memory store are the real ones;
//! time, threads, the way to the store, workers and clients are simulated, in one thread, and
//! everything that happens follows from a seed. Processes crash between any two effects, stop for
//! longer than their lease, hear no notifications, lose answers and meet late ones; rows are damaged,
//! mail is full, clients are late. A checker watches every row that becomes durable and every attempt
//! that starts.
//!
//! Nothing here decides what an engine does; what stands in for its threads and tasks is in
//! `process` and `wire`.

mod aftermath;
mod checker;
mod client_act;
mod clients;
mod damage;
pub mod dice;
pub mod faults;
pub mod mutant;
mod process;
mod report;
mod serve;
pub mod shapes;
mod shard_work;
mod slot_work;
pub mod spaces;
mod trace;
mod trouble;
mod verdict;
mod wire;
mod work;
mod world;

pub use dice::Dice;
pub use faults::Faults;
pub use mutant::Mutant;
pub use report::{SimCounts, SimEnd, SimReport};
pub use shapes::SimJob;
pub use verdict::{complaint, story};
pub use world::{Setup, simulate};
