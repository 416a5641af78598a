//! The engine: it claims runs, advances them by the law, commits what happened before anything that depends on it, and
//! has the work done.

pub mod dispatch;
pub mod executor;
pub mod keeper;
pub mod settings;

pub use settings::Settings;
