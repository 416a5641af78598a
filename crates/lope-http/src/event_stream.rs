//! Server-sent events as a response: frames go into a bounded channel, the client reads them at its
//! pace, and a stream whose client has gone ends.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::HeaderValue;
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::Value as Json;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::api_error::{ApiError, ApiErrorKind};
use crate::context::ServerContext;
use crate::event_frame::event_frame;
use crate::reply::{self, Reply};

/// Frames that wait for a client that reads slowly.
const FRAMES: usize = 64;
/// A client that takes nothing for so long is let go; it may come back and go on where it was.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether a stream may go on.
const TOKEN_CHECK: Duration = Duration::from_secs(2);
/// A sign of life when nothing happens, so that proxies do not hang up.
pub const BEAT: Duration = Duration::from_secs(15);

/// The client has gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gone;

/// Where the frames of one stream go.
#[derive(Debug)]
pub struct EventSink {
    frames: mpsc::Sender<Bytes>,
    last: Mutex<Instant>,
    _place: OwnedSemaphorePermit,
}

/// A stream: where frames go, and the response they come out of. Refused: there are too many.
pub fn open(context: &ServerContext) -> Result<(EventSink, Reply), ApiError> {
    let place = context.streams.clone().try_acquire_owned();
    let place = place.map_err(|_| {
        let message = "too many event streams are open";
        ApiError::new(ApiErrorKind::TooManyRequests, message)
            .hint("'server.streams_max' bounds them")
    })?;
    let (frames, received) = mpsc::channel(FRAMES);
    let body = futures_util::stream::unfold(received, |mut received| async move {
        let frame = received.recv().await?;
        Some((Ok::<Bytes, Infallible>(frame), received))
    });
    let mut reply = reply::text("text/event-stream", Body::from_stream(body));
    // Proxies that gather responses would hold events back.
    reply
        .headers_mut()
        .insert("x-accel-buffering", HeaderValue::from_static("no"));
    let sink = EventSink {
        frames,
        last: Mutex::new(Instant::now()),
        _place: place,
    };
    Ok((sink, reply))
}

/// The stream ends when the token that opened it is taken away.
pub fn while_token_lives(reply: Reply, context: Arc<ServerContext>, token: String) -> Reply {
    let (head, body) = reply.into_parts();
    let revoked = Box::pin(async move {
        loop {
            tokio::time::sleep(TOKEN_CHECK).await;
            if matches!(context.client.token(&token).await, Ok(None)) {
                return;
            }
        }
    });
    let frames = body.into_data_stream().take_until(revoked);
    Reply::from_parts(head, Body::from_stream(frames))
}

impl EventSink {
    pub async fn send(&self, id: &str, event: &str, data: &Json) -> Result<(), Gone> {
        self.send_frame(event_frame(id, event, data)).await
    }

    /// An event that was made for many.
    pub async fn send_frame(&self, frame: Bytes) -> Result<(), Gone> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let sent = self.frames.send_timeout(frame, PATIENCE).await;
        sent.map_err(|_| Gone)
    }

    /// A sign of life.
    pub async fn beat(&self) -> Result<(), Gone> {
        self.send_frame(Bytes::from_static(b":\n\n")).await
    }

    /// A sign of life, if nothing was said for long.
    pub async fn keep_alive(&self) -> Result<(), Gone> {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() < BEAT {
            return Ok(());
        }
        self.beat().await
    }

    /// Returns when the client has gone.
    pub async fn gone(&self) {
        self.frames.closed().await;
    }
}
