//! The dashboard: pages for people, made here and complete without a script. A script of our own
//! replaces the parts that change while one looks.

mod assets;
mod bulk;
mod compare;
mod lists;
mod login;
mod mailboxes;
mod past;
mod run;
mod run_actions;
mod run_logs;
mod run_page;
mod run_result;
mod run_tabs;
mod runs;
mod schedules;
mod timeline;
mod versions;
mod workflows;

use std::future::ready;
use std::sync::OnceLock;

use maud::html;

use crate::api_error::{ApiError, ApiErrorKind};
use crate::context::ServerContext;
use crate::endpoint::{Endpoint, EndpointHandler};
use crate::reply::Reply;

pub(crate) use crate::reply::{encoded, to};
use lope_http::{parts, shell};

const fn page(path: &'static str, handle: EndpointHandler) -> Endpoint {
    Endpoint::page(path, handle)
}

const fn form(path: &'static str, handle: EndpointHandler) -> Endpoint {
    Endpoint::form(path, handle)
}

/// Every page, and every form that one sends.
const ENDPOINTS: &[Endpoint] = &[
    page("/", |context, call| Box::pin(runs::show(context, call))),
    page("/runs/{id}", |context, call| {
        Box::pin(run::show(context, call))
    }),
    page("/runs/{id}/steps", |context, call| {
        Box::pin(run_tabs::steps(context, call))
    }),
    page("/runs/{id}/logs", |context, call| {
        Box::pin(run_tabs::logs(context, call))
    }),
    page("/runs/{id}/journal", |context, call| {
        Box::pin(run_tabs::journal(context, call))
    }),
    page("/runs/{id}/compare", |context, call| {
        Box::pin(compare::show(context, call))
    }),
    form("/runs/{id}/{verb}", |context, call| {
        Box::pin(run_actions::act(context, call))
    }),
    page("/bulk", |context, call| Box::pin(bulk::list(context, call))),
    form("/bulk", |context, call| {
        Box::pin(bulk::start(context, call))
    }),
    page("/bulk/ask", |context, call| {
        Box::pin(bulk::ask(context, call))
    }),
    page("/bulk/{id}", |context, call| {
        Box::pin(bulk::show(context, call))
    }),
    form("/bulk/{id}/stop", |context, call| {
        Box::pin(bulk::stop(context, call))
    }),
    page("/workflows", |context, call| {
        Box::pin(workflows::list(context, call))
    }),
    page("/workflows/{name}", |context, call| {
        Box::pin(workflows::show(context, call))
    }),
    page("/workflows/{name}/versions/{version}", |context, call| {
        Box::pin(versions::show(context, call))
    }),
    form("/workflows/{name}/start", |context, call| {
        Box::pin(workflows::start(context, call))
    }),
    page("/schedules", |context, call| {
        Box::pin(schedules::list(context, call))
    }),
    page("/schedules/{name}", |context, call| {
        Box::pin(schedules::show(context, call))
    }),
    form("/schedules/{name}/{verb}", |context, call| {
        Box::pin(schedules::act(context, call))
    }),
    page("/queues", |context, call| {
        Box::pin(lists::queues(context, call))
    }),
    page("/queues/{name}", |context, call| {
        Box::pin(lists::queue(context, call))
    }),
    page("/runners", |context, call| {
        Box::pin(lists::runners(context, call))
    }),
    page("/runners/{id}", |context, call| {
        Box::pin(lists::runner(context, call))
    }),
    page("/mailboxes", |context, call| {
        Box::pin(mailboxes::list(context, call))
    }),
    page("/mailboxes/{worker}", |context, call| {
        Box::pin(mailboxes::show(context, call))
    }),
    form("/mailboxes/{worker}/{verb}", |context, call| {
        Box::pin(mailboxes::act(context, call))
    }),
    page("/login", |context, call| {
        Box::pin(ready(Ok(login::show(&context, &call))))
    })
    .for_all(),
    form("/login", |context, call| {
        Box::pin(login::enter(context, call))
    })
    .for_all(),
    form("/logout", |context, call| {
        Box::pin(ready(Ok(login::leave(&context, &call))))
    })
    .for_all(),
    page("/assets/app.css", |_, _| {
        Box::pin(ready(Ok(assets::style())))
    })
    .for_all(),
    page("/assets/app.js", |_, _| {
        Box::pin(ready(Ok(assets::script())))
    })
    .for_all(),
];

/// Every page of the dashboard, those of spaces and agents too.
pub(crate) fn endpoints() -> &'static [Endpoint] {
    static ALL: OnceLock<Vec<Endpoint>> = OnceLock::new();
    ALL.get_or_init(|| {
        let more = lope_pages::PAGES.concat();
        [ENDPOINTS, &more, lope_pages::FILES].concat()
    })
}

/// What went wrong, as a page; whoever needs a token is led to where it is asked for.
pub(crate) fn error(context: &ServerContext, error: &ApiError, path: &str) -> Reply {
    if error.kind == ApiErrorKind::Unauthorized {
        let path = path.strip_prefix(&context.settings.base).unwrap_or(path);
        return to(&format!("{}?to={}", context.path("/login"), encoded(path)));
    }
    let title = error.kind.status().canonical_reason().unwrap_or("Error");
    let body = html! {
        div.card.bad {
            h1 { (title) }
            pre { (error.message) }
            @if let Some(hint) = &error.hint { p.dim { (hint) } }
            p { a href=(context.path("/")) { "All runs" } }
        }
    };
    let mut reply = shell::astray(context, title, &body);
    *reply.status_mut() = error.kind.status();
    reply
}
