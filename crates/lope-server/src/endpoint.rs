//! The shape of the table of endpoints: what a path takes, who may use it, what it answers, and
//! who does it. Routes and the OpenAPI document are made from it.

use std::fmt;
use std::sync::Arc;

use axum::http::Method;
use axum::routing::MethodFilter;
use futures_util::future::BoxFuture;
use lope::tokens::Right;

use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::parameter::Parameter;
use crate::reply::Reply;

pub(crate) type ApiResult = Result<Reply, ApiError>;
pub(crate) type EndpointHandler = fn(Arc<ServerContext>, ApiCall) -> BoxFuture<'static, ApiResult>;

/// The methods that endpoints have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    Get,
    Post,
    Delete,
}

/// One method of one path.
#[derive(Clone, Copy)]
pub(crate) struct Endpoint {
    pub(crate) verb: Verb,
    /// With names in braces, as in `/api/runs/{id}`.
    pub(crate) path: &'static str,
    /// Its name in the document, and in the programs that are generated from it.
    pub(crate) name: &'static str,
    /// Absent: anybody may use it.
    pub(crate) right: Option<Right>,
    pub(crate) about: &'static str,
    /// The verbs of the command line that do the same.
    pub(crate) commands: &'static [&'static str],
    pub(crate) query: &'static [Parameter],
    /// The schema of the body, if it takes one.
    pub(crate) body: Option<&'static str>,
    pub(crate) answer: Answer,
    /// May what is there not allow it?
    pub(crate) conflicts: bool,
    /// Is it for people? Then what goes wrong is told as a page.
    pub(crate) page: bool,
    pub(crate) handle: EndpointHandler,
}

/// What an endpoint answers with when all is well.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// JSON of a schema.
    Json(&'static str),
    /// JSON of a schema, with this status.
    Created(&'static str),
    /// One of these types, not described further.
    Text(&'static [&'static str]),
    /// Server-sent events whose data is JSON of a schema.
    Events(&'static str),
}

impl Verb {
    pub(crate) const fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Delete => MethodFilter::DELETE,
        }
    }

    pub(crate) const fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Post => Method::POST,
            Self::Delete => Method::DELETE,
        }
    }
}

impl Endpoint {
    /// A reading endpoint without parameters; the rest is said over it.
    pub(crate) const fn get(
        path: &'static str,
        name: &'static str,
        handle: EndpointHandler,
    ) -> Self {
        Self {
            verb: Verb::Get,
            path,
            name,
            right: Some(Right::Read),
            about: "",
            commands: &[],
            query: &[],
            body: None,
            answer: Answer::Json("Any"),
            conflicts: false,
            page: false,
            handle,
        }
    }

    /// An acting endpoint.
    pub(crate) const fn post(
        path: &'static str,
        name: &'static str,
        handle: EndpointHandler,
    ) -> Self {
        Self {
            verb: Verb::Post,
            right: Some(Right::Act),
            conflicts: true,
            ..Self::get(path, name, handle)
        }
    }

    pub(crate) const fn delete(
        path: &'static str,
        name: &'static str,
        handle: EndpointHandler,
    ) -> Self {
        Self {
            verb: Verb::Delete,
            right: Some(Right::Act),
            conflicts: true,
            ..Self::get(path, name, handle)
        }
    }

    pub(crate) const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// The verbs of the command line that do the same.
    pub(crate) const fn does(self, commands: &'static [&'static str]) -> Self {
        Self { commands, ..self }
    }

    pub(crate) const fn may_conflict(self) -> Self {
        Self {
            conflicts: true,
            ..self
        }
    }

    pub(crate) const fn query(self, query: &'static [Parameter]) -> Self {
        Self { query, ..self }
    }

    pub(crate) const fn takes(self, schema: &'static str) -> Self {
        Self {
            body: Some(schema),
            ..self
        }
    }

    pub(crate) const fn answers(self, answer: Answer) -> Self {
        Self { answer, ..self }
    }

    pub(crate) const fn for_admins(self) -> Self {
        Self {
            right: Some(Right::Admin),
            ..self
        }
    }

    pub(crate) const fn for_all(self) -> Self {
        Self {
            right: None,
            ..self
        }
    }

    /// For people, with a browser.
    pub(crate) const fn as_page(self) -> Self {
        Self { page: true, ..self }
    }

    /// The names in braces, in order.
    pub(crate) fn path_names(&self) -> impl Iterator<Item = &'static str> {
        self.path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({:?} {})", self.verb, self.path)
    }
}
