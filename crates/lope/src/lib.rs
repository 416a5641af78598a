//! The library face of Lope. With the binary it is the only room that names a backend: `stores` turns a URL into a store.

pub mod config;
pub mod describe;
pub mod doctor;
pub mod executors;
pub mod mailbox;
pub mod stores;

pub use lope_engine as engine;
pub use lope_flow as flow;
pub use lope_model as model;
pub use lope_store as store;
