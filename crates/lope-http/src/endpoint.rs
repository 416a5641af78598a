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

pub type ApiResult = Result<Reply, ApiError>;
pub type EndpointHandler = fn(Arc<ServerContext>, ApiCall) -> BoxFuture<'static, ApiResult>;

/// The methods that endpoints have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndpointMethod {
    Get,
    Post,
    Delete,
}

/// One method of one path.
#[derive(Clone, Copy)]
pub struct Endpoint {
    pub method: EndpointMethod,
    /// With names in braces, as in `/api/runs/{id}`.
    pub path: &'static str,
    /// Its name in the document, and in the programs that are generated from it.
    pub name: &'static str,
    /// Absent: anybody may use it.
    pub right: Option<Right>,
    pub about: &'static str,
    /// The verbs of the command line that do the same.
    pub commands: &'static [&'static str],
    pub query: &'static [Parameter],
    /// The schema of the body, if it takes one.
    pub body: Option<&'static str>,
    pub answer: Answer,
    /// May what is there not allow it?
    pub conflicts: bool,
    /// Is it for people? Then what goes wrong is told as a page.
    pub page: bool,
    pub handle: EndpointHandler,
}

/// What an endpoint answers with when all is well.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// JSON of a schema.
    Json(&'static str),
    /// JSON of a schema, with this status.
    Created(&'static str),
    /// One of these types, not described further.
    Text(&'static [&'static str]),
    /// Server-sent events whose data is JSON of a schema.
    Events(&'static str),
}

impl EndpointMethod {
    pub const fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Delete => MethodFilter::DELETE,
        }
    }

    pub const fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Post => Method::POST,
            Self::Delete => Method::DELETE,
        }
    }
}

impl Endpoint {
    /// A reading endpoint without parameters; the rest is said over it.
    pub const fn get(path: &'static str, name: &'static str, handle: EndpointHandler) -> Self {
        Self {
            method: EndpointMethod::Get,
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
    pub const fn post(path: &'static str, name: &'static str, handle: EndpointHandler) -> Self {
        Self {
            method: EndpointMethod::Post,
            right: Some(Right::Act),
            conflicts: true,
            ..Self::get(path, name, handle)
        }
    }

    pub const fn delete(path: &'static str, name: &'static str, handle: EndpointHandler) -> Self {
        Self {
            method: EndpointMethod::Delete,
            right: Some(Right::Act),
            conflicts: true,
            ..Self::get(path, name, handle)
        }
    }

    /// A page for people.
    pub const fn page(path: &'static str, handle: EndpointHandler) -> Self {
        Self::get(path, path, handle)
            .answers(Answer::Text(&["text/html"]))
            .as_page()
    }

    /// A form that a page sends.
    pub const fn form(path: &'static str, handle: EndpointHandler) -> Self {
        Self::post(path, path, handle)
            .answers(Answer::Text(&["text/html"]))
            .as_page()
    }

    pub const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// The verbs of the command line that do the same.
    pub const fn does(self, commands: &'static [&'static str]) -> Self {
        Self { commands, ..self }
    }

    pub const fn may_conflict(self) -> Self {
        Self {
            conflicts: true,
            ..self
        }
    }

    pub const fn query(self, query: &'static [Parameter]) -> Self {
        Self { query, ..self }
    }

    pub const fn takes(self, schema: &'static str) -> Self {
        Self {
            body: Some(schema),
            ..self
        }
    }

    pub const fn answers(self, answer: Answer) -> Self {
        Self { answer, ..self }
    }

    pub const fn for_admins(self) -> Self {
        Self {
            right: Some(Right::Admin),
            ..self
        }
    }

    /// Whoever may look may ask; what they ask for may take more.
    pub const fn for_readers(self) -> Self {
        Self {
            right: Some(Right::Read),
            ..self
        }
    }

    pub const fn for_all(self) -> Self {
        Self {
            right: None,
            ..self
        }
    }

    /// For people, with a browser.
    pub const fn as_page(self) -> Self {
        Self { page: true, ..self }
    }

    /// The names in braces, in order.
    pub fn path_names(&self) -> impl Iterator<Item = &'static str> {
        self.path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({:?} {})", self.method, self.path)
    }
}
