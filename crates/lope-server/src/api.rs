//! The endpoints: one file a group of verbs, each with its table.

pub(crate) mod bulk;
mod changes;
mod commands;
mod events;
pub(crate) mod find;
mod gauges;
mod health;
mod log_text;
pub(crate) mod mailboxes;
mod runners;
pub(crate) mod runs;
mod schedule_add;
mod schedules;
pub(crate) mod start;
pub(crate) mod steer;
mod store;
mod tokens;
mod values;
pub(crate) mod views;
mod workflows;

use std::sync::OnceLock;

use crate::endpoint::Endpoint;

/// Every endpoint, in the order of the document.
pub(crate) fn endpoints() -> &'static [Endpoint] {
    static ALL: OnceLock<Vec<Endpoint>> = OnceLock::new();
    ALL.get_or_init(|| {
        let tables = [
            runs::ENDPOINTS,
            start::ENDPOINTS,
            views::ENDPOINTS,
            log_text::ENDPOINTS,
            values::ENDPOINTS,
            steer::ENDPOINTS,
            bulk::ENDPOINTS,
            events::ENDPOINTS,
            workflows::ENDPOINTS,
            changes::ENDPOINTS,
            schedules::ENDPOINTS,
            schedule_add::ENDPOINTS,
            mailboxes::ENDPOINTS,
            runners::ENDPOINTS,
            store::ENDPOINTS,
            tokens::ENDPOINTS,
            health::ENDPOINTS,
            commands::ENDPOINTS,
        ];
        [&tables[..], lope_pages::ENDPOINTS].concat().concat()
    })
}
