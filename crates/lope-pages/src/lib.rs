//! Spaces and agents over HTTP: their endpoints, live events and pages, the client for browsers
//! (`lope.js`), and the folder of an app's own pages.
//!
//! Everything is a call of the crate `lope`: a cell is changed by a message to its space, a task by
//! a decision on the board. `lope-server` mounts the tables that are given here.

mod agents;
mod app_files;
mod shapes;
mod spaces;

use lope_http::endpoint::Endpoint;

pub use shapes::SHAPES;

/// The endpoints, a table for each group of verbs.
pub const ENDPOINTS: &[&[Endpoint]] = &[
    spaces::list::ENDPOINTS,
    spaces::cells::ENDPOINTS,
    spaces::streams::ENDPOINTS,
    spaces::recipes::ENDPOINTS,
    spaces::watch::ENDPOINTS,
    agents::projects::ENDPOINTS,
    agents::tasks::ENDPOINTS,
    agents::decide::ENDPOINTS,
    agents::diff::ENDPOINTS,
    agents::log::ENDPOINTS,
    agents::watch::ENDPOINTS,
    agents::runners::ENDPOINTS,
];

/// The pages, and the forms that they send.
pub const PAGES: &[&[Endpoint]] = &[spaces::PAGES, agents::PAGES];

/// What is served whether there is a dashboard or not: the client for browsers, and an app's pages.
pub const FILES: &[Endpoint] = app_files::ENDPOINTS;
