//! What stands around every page: title, navigation, style, script.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::call::Caller;
use crate::context::ServerContext;
use crate::reply::{self, Reply};

const SECTIONS: [(&str, &str); 8] = [
    ("/", "Runs"),
    ("/workflows", "Workflows"),
    ("/schedules", "Schedules"),
    ("/queues", "Queues"),
    ("/runners", "Runners"),
    ("/mailboxes", "Mailboxes"),
    ("/spaces", "Spaces"),
    ("/agents", "Agents"),
];

/// Links name the version, so that a browser may keep what it has.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The mark of Lope: a stride.
const MARK: &str = "<svg viewBox=\"0 0 24 24\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2.4\" \
     stroke-linecap=\"round\" aria-hidden=\"true\"><path d=\"M3 17c4 0 4-10 9-10s4 10 9 10\"/>\
     <circle cx=\"12\" cy=\"17\" r=\"1.6\" fill=\"currentColor\" stroke=\"none\"/></svg>";

/// A page of a section.
#[derive(Debug)]
pub struct Page<'a> {
    pub title: &'a str,
    /// The path of its section.
    pub section: &'a str,
    /// Where its events come from, if it is live.
    pub events: Option<String>,
}

pub fn show(context: &ServerContext, caller: &Caller, page: &Page<'_>, body: &Markup) -> Reply {
    let main = html! {
        (sections(context, page.section, &html! { div.foot { (foot(context, caller)) } }))
        main id="main" data-events=[page.events.as_ref()] { (body) }
        div.foot.below { (foot(context, caller)) }
    };
    document(context, page.title, &main)
}

/// The way to every section, from a page of one of them or of none.
fn sections(context: &ServerContext, current: &str, below: &Markup) -> Markup {
    html! {
        nav.side aria-label="Sections" {
            a.name href=(context.path("/")) { (PreEscaped(MARK)) "Lope" }
            @for (path, word) in SECTIONS {
                a.to href=(context.path(path)) aria-current=[(current == path).then_some("page")] { (word) }
            }
            (below)
        }
    }
}

/// Who looks, and what belongs to no section: below the navigation, or below the page on a phone.
fn foot(context: &ServerContext, caller: &Caller) -> Markup {
    html! {
        @if let Some(token) = &caller.token {
            (token) " · " (caller.right)
            form.inline method="post" action=(context.path("/logout")) { " " button.copy { "Log out" } }
        } @else { "on this machine" }
        " " br;
        a href=(context.path("/api/openapi.json")) { "API" } " · " a href=(context.path("/bulk")) { "Bulk" } " · " (VERSION) " "
        button.copy.zone type="button" hidden {}
    }
}

/// A page about something that is not there, or was not done: the sections are.
pub fn astray(context: &ServerContext, title: &str, body: &Markup) -> Reply {
    let main = html! { (sections(context, "", &html! {})) main id="main" { (body) } };
    document(context, title, &main)
}

/// A page that is no part of a section.
pub fn plain(context: &ServerContext, title: &str, body: &Markup) -> Reply {
    document(context, title, &html! { main.login { (body) } })
}

fn document(context: &ServerContext, title: &str, body: &Markup) -> Reply {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Lope" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href=(format!("{}?v={VERSION}", context.path("/assets/app.css")));
                script src=(format!("{}?v={VERSION}", context.path("/assets/app.js"))) defer {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                (body)
            }
        }
    };
    reply::text("text/html; charset=utf-8", page.into_string())
}
