//! What a request is answered with when it was not done: a kind, a message, a hint, a status.

use axum::http::StatusCode;
use lope::agents::BoardError;
use lope::mailbox::{BootError, MailboxError};
use lope::reactive::HostError;
use lope::runs::InputError;
use lope::stores::StoreError;
use serde_json::{Value as Json, json};

/// The kinds of errors that programs rely on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ApiErrorKind {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    Conflict,
    TooLarge,
    UnsupportedMediaType,
    TooManyRequests,
    Unavailable,
    Bug,
}

/// A request that was not done.
#[derive(Clone, Debug)]
pub struct ApiError {
    pub kind: ApiErrorKind,
    pub message: String,
    pub hint: Option<String>,
}

impl ApiErrorKind {
    pub const ALL: [Self; 11] = [
        Self::BadRequest,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::Conflict,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::TooManyRequests,
        Self::Unavailable,
        Self::Bug,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::Conflict => "conflict",
            Self::TooLarge => "too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::TooManyRequests => "too_many_requests",
            Self::Unavailable => "unavailable",
            Self::Bug => "bug",
        }
    }

    pub const fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Conflict => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Bug => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub const fn about(self) -> &'static str {
        match self {
            Self::BadRequest => "The request makes no sense; the message names the place.",
            Self::Unauthorized => "A token is needed, and none that is known was given.",
            Self::Forbidden => {
                "The token does not allow it, or a page of another site asked for it."
            }
            Self::NotFound => "There is no such thing.",
            Self::MethodNotAllowed => "The path has no such method.",
            Self::Conflict => "What is there does not allow it.",
            Self::TooLarge => "The body is larger than the server takes.",
            Self::UnsupportedMediaType => "The body is of another type than the one described.",
            Self::TooManyRequests => "Too much at once; try again later.",
            Self::Unavailable => "The store or the server is out of reach for now.",
            Self::Bug => "A bug in Lope.",
        }
    }
}

impl ApiError {
    pub fn new(kind: ApiErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(ApiErrorKind::BadRequest, message)
    }

    pub fn missing(message: impl Into<String>) -> Self {
        Self::new(ApiErrorKind::NotFound, message)
    }

    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ApiErrorKind::Conflict, message)
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn json(&self) -> Json {
        let mut error = json!({ "kind": self.kind.as_str(), "message": self.message });
        if let Some(hint) = &self.hint {
            error["hint"] = json!(hint);
        }
        json!({ "error": error })
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::Refused { .. } => ApiErrorKind::BadRequest,
            StoreError::ReadOnly { .. } => ApiErrorKind::Conflict,
            StoreError::Corrupt { .. } => ApiErrorKind::Bug,
            StoreError::Unavailable { .. }
            | StoreError::Unknown { .. }
            | StoreError::Full { .. }
            | StoreError::Version { .. }
            | StoreError::Missing { .. }
            | StoreError::Closed => ApiErrorKind::Unavailable,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<InputError> for ApiError {
    fn from(error: InputError) -> Self {
        let (kind, hint) = match error {
            InputError::Store(error) => return error.into(),
            InputError::Unfit { .. } => (
                ApiErrorKind::BadRequest,
                "the workflow's 'input' says what it takes",
            ),
            InputError::OtherWorkflow { .. } => (ApiErrorKind::Conflict, "give another key"),
            InputError::NotOpen { .. } => {
                (ApiErrorKind::Conflict, "start one with 'open' to feed it")
            }
        };
        Self::new(kind, error.to_string()).hint(hint)
    }
}

impl From<BootError> for ApiError {
    fn from(error: BootError) -> Self {
        match error {
            BootError::Store(error) => error.into(),
            other => Self::conflict(other.to_string()),
        }
    }
}

impl From<MailboxError> for ApiError {
    fn from(error: MailboxError) -> Self {
        match error {
            MailboxError::Store(error) => error.into(),
            MailboxError::Message(_) => Self::bad(error.to_string()),
            MailboxError::Exists { .. } | MailboxError::Changed => {
                Self::conflict(error.to_string())
            }
            MailboxError::NotFound { .. } => Self::missing(error.to_string()),
        }
    }
}

impl From<HostError> for ApiError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Store(error) => error.into(),
            HostError::Mailbox(error) => error.into(),
            HostError::Held { .. } | HostError::Lost => {
                Self::conflict(error.to_string()).hint("ask again")
            }
            HostError::OtherContent { .. } => {
                Self::conflict(error.to_string()).hint("give another id")
            }
            HostError::Backlog { .. } => {
                Self::new(ApiErrorKind::TooManyRequests, error.to_string()).hint("try again later")
            }
            HostError::Message(_) => Self::bad(error.to_string()),
            HostError::Circle(_) | HostError::Broken(_) => Self::conflict(error.to_string()),
            HostError::TooManyDocuments | HostError::Beyond(_) => {
                Self::conflict(error.to_string()).hint("ask for a part of it, by a path")
            }
            HostError::Damaged(_) | HostError::Thread(_) => {
                Self::new(ApiErrorKind::Bug, error.to_string())
                    .hint("'lope store check' tells more")
            }
        }
    }
}

impl From<BoardError> for ApiError {
    fn from(error: BoardError) -> Self {
        match error {
            BoardError::Store(error) => error.into(),
            BoardError::Missing { .. } => Self::missing(error.to_string()),
            BoardError::Ambiguous { .. } | BoardError::Bad(_) | BoardError::BadList { .. } => {
                Self::bad(error.to_string())
            }
            BoardError::Refused(_) | BoardError::Partly { .. } => Self::conflict(error.to_string()),
        }
    }
}
