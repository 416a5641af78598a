//! The OpenAPI document, made from the table of endpoints.

use serde_json::{Map, Value as Json, json};

use crate::api_error::ApiErrorKind;
use crate::endpoint::{Answer, Endpoint};
use crate::parameter::{Parameter, ParameterKind};
use crate::schemas::{self, reference};

/// The document that describes these endpoints.
pub(crate) fn document(endpoints: &[Endpoint]) -> Json {
    let mut paths = Map::new();
    for endpoint in endpoints {
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        path[endpoint.method.method().as_str().to_ascii_lowercase()] = operation(endpoint);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Lope",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A durable runner: workflows, runs, schedules, mailboxes, spaces, agents.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas::all(),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{}, { "token": [] }],
    })
}

fn operation(endpoint: &Endpoint) -> Json {
    let mut operation = json!({
        "operationId": endpoint.name,
        "summary": endpoint.about,
        "parameters": parameters(endpoint),
        "responses": responses(endpoint),
    });
    if let Some(right) = endpoint.right {
        operation["x-right"] = json!(right.as_str());
    }
    if !endpoint.commands.is_empty() {
        operation["x-commands"] = json!(endpoint.commands);
    }
    if let Some(schema) = endpoint.body {
        let content_type = if schema == "WorkflowFile" {
            "application/yaml"
        } else {
            "application/json"
        };
        operation["requestBody"] =
            json!({ "content": { content_type: { "schema": reference(schema) } } });
    }
    operation
}

fn parameters(endpoint: &Endpoint) -> Vec<Json> {
    let of_path = endpoint.path_names().map(
        |name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }),
    );
    let of_query = endpoint.query.iter().map(
        |it| json!({ "name": it.name, "in": "query", "description": it.about, "schema": parameter(it) }),
    );
    of_path.chain(of_query).collect()
}

fn parameter(parameter: &Parameter) -> Json {
    match parameter.kind {
        ParameterKind::Text => json!({ "type": "string" }),
        ParameterKind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        ParameterKind::Count => json!({ "type": "integer", "minimum": 0 }),
        ParameterKind::Flag => json!({ "type": "boolean" }),
    }
}

fn responses(endpoint: &Endpoint) -> Map<String, Json> {
    let mut responses = Map::new();
    let done = |content: Json| json!({ "description": "Done.", "content": content });
    let of = |schema: &str| json!({ "application/json": { "schema": reference(schema) } });
    match endpoint.answer {
        Answer::Json(schema) => responses.insert("200".to_owned(), done(of(schema))),
        Answer::Created(schema) => {
            responses.insert("200".to_owned(), done(of(schema)));
            responses.insert("201".to_owned(), done(of(schema)))
        }
        Answer::Text(types) => {
            let texts = types
                .iter()
                .map(|it| ((*it).to_owned(), json!({ "schema": { "type": "string" } })));
            responses.insert("200".to_owned(), done(Json::Object(texts.collect())))
        }
        Answer::Events(schema) => {
            // Whoever has seen the end and comes back is told that there is no more.
            responses.insert(
                "204".to_owned(),
                json!({ "description": "There is no more.", "content": { "text/event-stream": {} } }),
            );
            let content = json!({ "text/event-stream": { "schema": reference(schema) } });
            responses.insert("200".to_owned(), done(content))
        }
    };
    for kind in failures(endpoint) {
        let error = json!({ "description": kind.about(), "content": of("Error") });
        responses.insert(kind.status().as_u16().to_string(), error);
    }
    // A server that is not ready says so in the shape of its readiness.
    if endpoint.path == "/readyz" {
        responses.insert("503".to_owned(), done(of("Readiness")));
    }
    responses
}

/// How an endpoint may fail.
fn failures(endpoint: &Endpoint) -> impl Iterator<Item = ApiErrorKind> {
    let open = endpoint.right.is_none();
    let named = endpoint.path.contains('{');
    let bodied = endpoint.body.is_some();
    let conflicts = endpoint.conflicts;
    let names_other = endpoint
        .query
        .iter()
        .any(|given| ["parent", "project"].contains(&given.name));
    ApiErrorKind::ALL
        .into_iter()
        .filter(move |kind| match kind {
            ApiErrorKind::BadRequest
            | ApiErrorKind::Forbidden
            | ApiErrorKind::TooLarge
            | ApiErrorKind::Unavailable
            | ApiErrorKind::Bug => true,
            ApiErrorKind::Unauthorized | ApiErrorKind::TooManyRequests => !open,
            ApiErrorKind::NotFound => named || bodied || names_other,
            ApiErrorKind::Conflict => conflicts || named,
            ApiErrorKind::UnsupportedMediaType => bodied,
            ApiErrorKind::MethodNotAllowed => false,
        })
}
