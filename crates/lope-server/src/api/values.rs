//! Values of a run by byte range: its input, its result, the input and output of an execution, as JSON
//! text.

use std::sync::Arc;

use lope::describe;
use serde_json::{Value as Json, json};

use super::find;
use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::parameter::{count, text};
use crate::reply;

/// Bytes of a piece.
const USUAL: usize = 64 * 1024;
const MOST: usize = 512 * 1024;

pub(crate) const ENDPOINTS: &[Endpoint] = &[Endpoint::get(
    "/api/runs/{id}/value",
    "getValue",
    |context, call| Box::pin(value(context, call)),
)
.about("A piece of a value's JSON text: a run's input, result or error, or an execution's input or output. It ends with a whole letter.")
.query(&[
    text("of", "input (the default), result, error or output"),
    text("execution", "Whose input or output, by its path"),
    count("from", "From this byte on"),
    count("limit", "Bytes, 4 to 524288; 65536 unless it is said"),
])
.answers(Answer::Json("ValuePiece"))];

async fn value(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let from: usize = call.number("from")?.unwrap_or(0);
    let limit: usize = call.number("limit")?.unwrap_or(USUAL);
    if !(4..=MOST).contains(&limit) {
        return Err(ApiError::bad(format!("limit: 4 to {MOST}, not {limit}")));
    }
    let found = named(&context, &call).await?;
    let text = found.to_string();
    if from > text.len() || !text.is_char_boundary(from) {
        let message = format!("from: no letter of the {} bytes begins there", text.len());
        return Err(ApiError::bad(message).hint("give the 'to' of the piece before"));
    }
    let to = (from..=text.len().min(from + limit))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(from);
    let piece = json!({ "text": text[from..to], "from": from, "to": to, "total": text.len() });
    Ok(reply::json(&piece))
}

/// The value that is asked for.
async fn named(context: &ServerContext, call: &ApiCall) -> Result<Json, ApiError> {
    let (record, redaction) = find::shown(context, call).await?;
    match (call.query("of").unwrap_or("input"), call.query("execution")) {
        ("input", None) => {
            let input = context.client.input(&record).await?;
            Ok(match (&redaction, &input) {
                (Some(redaction), Some(input)) => json!(redaction.input(input)),
                _ => json!(input),
            })
        }
        ("result", None) => Ok(describe::run(&record)["result"].take()),
        ("error", None) => Ok(describe::run(&record)["error"].take()),
        (of @ ("input" | "output"), Some(path)) => {
            let plan = context.client.plan(&record).await?;
            let history = context.client.history(record.run, &plan, None).await?;
            let execution = history.execution(path);
            let missing = || ApiError::missing(format!("there is no execution '{path}'"));
            let execution = execution.ok_or_else(missing)?;
            let shown = match &redaction {
                Some(redaction) => redaction.execution(execution),
                None => execution.clone(),
            };
            Ok(json!(if of == "input" {
                shown.input
            } else {
                shown.output
            }))
        }
        ("output", None) => Err(ApiError::bad("execution: say whose output")),
        (other, _) => Err(
            ApiError::bad(format!("of: '{other}' cannot be asked for so"))
                .hint("input, result, error, or input and output with 'execution'"),
        ),
    }
}
