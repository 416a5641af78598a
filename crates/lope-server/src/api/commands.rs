//! Commands of the command line, done here for those who have no store at hand.
//!
//! An order comes in, the right of its verb is held against its caller's, and the command runs on a
//! thread of its own; what it says goes out line by line. A verb has the right that the endpoint
//! with the same effect has.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use lope::tokens::Right;
use lope_remote::{CommandCall, CommandFrame, CommandHost, CommandOrder, FrameReceiver};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::endpoints;
use crate::api_error::{ApiError, ApiErrorKind};
use crate::call::ApiCall;
use crate::context::{ServerContext, ended};
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::reply;

/// How often somebody who waits is given a sign of life.
const BEAT: Duration = Duration::from_secs(15);
/// The exit code of a bug.
const BUG: u8 = 70;

pub(crate) const ENDPOINTS: &[Endpoint] = &[Endpoint::post(
    "/api/commands",
    "doCommand",
    |context, call| Box::pin(async move { order(&context, &call) }),
)
.about(
    "Do a command of the command line: 'lope --server' sends it. Answers with a line of JSON for \
     each piece of what it says, and its exit code in the last.",
)
.takes("CommandOrder")
.answers(Answer::Text(&["application/x-ndjson"]))
.for_readers()];

/// Verbs that no endpoint has alone.
const MORE: &[(&str, Right)] = &[
    ("run", Right::Act),
    ("runners logs", Right::Read),
    ("tasks claim", Right::Act),
    ("tasks export", Right::Read),
    ("tasks import", Right::Act),
];

/// What a verb of the command line takes. Nothing: no server does it.
pub(crate) fn right_of(verb: &str) -> Option<Right> {
    let of_endpoints = endpoints()
        .iter()
        .filter(|endpoint| endpoint.commands.contains(&verb))
        .filter_map(|endpoint| endpoint.right);
    let more = MORE.iter().filter(|(known, _)| *known == verb);
    of_endpoints.chain(more.map(|(_, right)| *right)).max()
}

fn order(context: &ServerContext, call: &ApiCall) -> ApiResult {
    let order: CommandOrder = call.body()?;
    let Some(host) = context.commands.clone() else {
        return Err(ApiError::missing("this server does no commands"));
    };
    let verb = host.verb(&order.arguments).map_err(ApiError::bad)?;
    let right = right_of(&verb)
        .ok_or_else(|| ApiError::bad(format!("'lope {verb}' is not done by a server")))?;
    if call.caller.right < right {
        let message = format!("'lope {verb}' takes the right '{right}'");
        let error = ApiError::new(ApiErrorKind::Forbidden, message);
        return Err(error.hint(format!("the token has the right '{}'", call.caller.right)));
    }
    let place = context.streams.clone().try_acquire_owned();
    let place = place.map_err(|_| {
        let message = "too many event streams and commands are open";
        ApiError::new(ApiErrorKind::TooManyRequests, message)
            .hint("'server.streams_max' bounds them")
    })?;
    let (call, frames) = CommandCall::new(order, call.caller.right);
    begin(host, &call)?;
    let lines = OpenLines {
        frames,
        ending: context.ending.clone(),
        _place: place,
    };
    let body = futures_util::stream::unfold(lines, |mut lines| async move {
        let line = lines.next().await?;
        Some((Ok::<Bytes, Infallible>(line.into()), lines))
    });
    Ok(reply::text("application/x-ndjson", Body::from_stream(body)))
}

/// The command's own thread. It ends with the command, or when nobody listens any more.
fn begin(host: Arc<dyn CommandHost>, call: &Arc<CommandCall>) -> Result<(), ApiError> {
    let call = Arc::clone(call);
    let runtime = tokio::runtime::Handle::current();
    let work = move || {
        let _runtime = runtime.enter();
        let _working = call.enter();
        let done = std::panic::catch_unwind(AssertUnwindSafe(|| host.run(&call)));
        let exit = done.unwrap_or_else(|_| {
            tracing::error!(?call, "a command panicked");
            let words = "error: this is a bug in Lope; please report it with the server's log\n";
            call.say(&CommandFrame::Err(words.to_owned()));
            BUG
        });
        call.end(exit);
    };
    let thread = std::thread::Builder::new().name("command".to_owned());
    match thread.spawn(work) {
        Ok(_) => Ok(()),
        Err(error) => Err(ApiError::new(
            ApiErrorKind::Unavailable,
            format!("no thread for a command: {error}"),
        )),
    }
}

/// What a command says, as it goes out.
struct OpenLines {
    frames: FrameReceiver,
    ending: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
}

impl OpenLines {
    async fn next(&mut self) -> Option<String> {
        tokio::select! {
            line = self.frames.next() => line,
            () = tokio::time::sleep(BEAT) => Some("\n".to_owned()),
            () = ended(&mut self.ending) => None,
        }
    }
}
