//! Recipes: what runs into which cell, why its nodes ran or do not; run, stopped, drawn.

use std::sync::Arc;

use lope::reactive::{ProcessReport, SpaceAction, SpaceName, read_recipe};
use lope::workflows::{Format, ProblemReport, draw_boxes};
use lope_http::api_error::ApiError;
use lope_http::call::ApiCall;
use lope_http::context::ServerContext;
use lope_http::endpoint::{Answer, ApiResult, Endpoint};
use lope_http::parameter::text;
use lope_http::reply;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{cell, commanded, drawing, message_id, naming, receipt_json, stored};

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get(
        "/api/spaces/{space}/recipes",
        "listRecipes",
        |context, call| Box::pin(list(context, call)),
    )
    .about("What runs in a space: each process with its nodes, why they ran, their errors.")
    .does(&["recipes list"])
    .answers(Answer::Json("ProcessPage")),
    Endpoint::get(
        "/api/spaces/{space}/recipes/{document}",
        "getRecipe",
        |context, call| Box::pin(show(context, call)),
    )
    .about("What runs into a cell: its nodes, what made them run, what they read and write, their errors.")
    .does(&["recipes show", "recipes why"])
    .answers(Answer::Json("Process")),
    Endpoint::get(
        "/api/spaces/{space}/recipes/{document}/graph",
        "drawRecipe",
        |context, call| Box::pin(graph(context, call)),
    )
    .about("The nodes of a recipe and the cells between them, drawn.")
    .does(&["recipes graph"])
    .query(&[text("format", "svg, mermaid, dot or text; svg unless it is said")])
    .answers(Answer::Text(&["image/svg+xml", "text/plain"])),
    Endpoint::post(
        "/api/spaces/{space}/recipes/{document}/run",
        "runRecipe",
        |context, call| Box::pin(run(context, call)),
    )
    .about("Run a recipe into a cell; without a recipe the cell's own goes on.")
    .does(&["recipes run"])
    .takes("RecipeRun")
    .answers(Answer::Json("Receipt")),
    Endpoint::post(
        "/api/spaces/{space}/recipes/{document}/stop",
        "stopRecipe",
        |context, call| Box::pin(stop(context, call)),
    )
    .about("Stop what runs into a cell, and what it started. Its cells stay.")
    .does(&["recipes stop"])
    .answers(Answer::Json("Receipt")),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeRunRequest {
    /// A recipe as an object, or the text of a file in JSON or YAML.
    recipe: Option<Json>,
    argument: Option<Json>,
    #[serde(default)]
    strict: bool,
    id: Option<String>,
}

/// What runs in a space; nothing is run.
pub(crate) async fn reports(
    context: &ServerContext,
    space: &SpaceName,
) -> Result<Vec<ProcessReport>, ApiError> {
    if context.client.spaces().await?.is_none() {
        return Ok(Vec::new());
    }
    Ok(context.spaces().await?.report(space).await?)
}

async fn report(context: &ServerContext, call: &ApiCall) -> Result<ProcessReport, ApiError> {
    let (at, text) = cell(call, None)?;
    let names = [at.to_string(), text];
    let all = reports(context, &at.space).await?;
    let mut all = all.into_iter();
    let found = all.find(|report| names.contains(&report.result) || names.contains(&report.id));
    found.ok_or_else(|| ApiError::missing(format!("nothing runs into {}", names[1])))
}

async fn list(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let space = super::space(&call)?;
    super::list::found(&context, &space).await?;
    let reports = reports(&context, &space).await?;
    Ok(reply::json(&json!({ "processes": reports })))
}

async fn show(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    Ok(reply::json(&json!(report(&context, &call).await?)))
}

async fn graph(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let format = call.parsed("format")?.unwrap_or(Format::Svg);
    let report = report(&context, &call).await?;
    let drawn = draw_boxes(&drawing::of_process(&report), format);
    let drawn = drawn.map_err(|error| ApiError::conflict(error.to_string()))?;
    Ok(reply::drawing(format == Format::Svg, drawn))
}

/// The document of a recipe that came as an object or as the text of a file.
fn recipe_document(recipe: &Json) -> Result<lope::reactive::Json, ApiError> {
    let text = match recipe {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let read = read_recipe(&text).map_err(|problems| {
        let report = ProblemReport {
            file_name: "recipe",
            text: &text,
            problems: &problems,
        };
        ApiError::bad(report.to_string().trim_end().to_owned())
    })?;
    Ok(read.recipe.document.clone())
}

async fn run(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let request: RecipeRunRequest = call.body()?;
    let (at, text) = cell(&call, None)?;
    let recipe = request.recipe.as_ref().map(recipe_document).transpose()?;
    let run = SpaceAction::Run {
        result: at.clone(),
        recipe,
        argument: request.argument.map(stored),
        strict: request.strict,
    };
    let actions = naming(&text, &at).into_iter().chain([run]).collect();
    let id = message_id(&call, request.id);
    let action = SpaceAction::All(actions);
    let receipt = commanded(&context, &at.space, Arc::clone(&id), action).await?;
    Ok(reply::json(&receipt_json(&id, receipt.as_ref())))
}

async fn stop(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let (at, _) = cell(&call, None)?;
    let id = message_id(&call, None);
    let action = SpaceAction::Stop { result: at.clone() };
    let receipt = commanded(&context, &at.space, Arc::clone(&id), action).await?;
    Ok(reply::json(&receipt_json(&id, receipt.as_ref())))
}
