//! Agents: projects and tasks, what people decide about them, what agents say while they work, who
//! works.

mod board_page;
pub(crate) mod decide;
pub(crate) mod diff;
pub(crate) mod log;
pub(crate) mod projects;
pub(crate) mod runners;
mod task_page;
pub(crate) mod tasks;
pub(crate) mod watch;
mod words;

use lope_http::endpoint::Endpoint;

pub(crate) const PAGES: &[Endpoint] = &[
    Endpoint::page("/agents", |context, call| {
        Box::pin(board_page::show(context, call))
    }),
    Endpoint::form("/agents/tasks", |context, call| {
        Box::pin(board_page::add(context, call))
    }),
    Endpoint::form("/agents/runners/{id}/stop", |context, call| {
        Box::pin(board_page::stop(context, call))
    }),
    Endpoint::page("/agents/tasks/{id}", |context, call| {
        Box::pin(task_page::show(context, call))
    }),
    Endpoint::form("/agents/tasks/{id}/{verb}", |context, call| {
        Box::pin(task_page::act(context, call))
    }),
];
