//! The shapes of bodies and answers, for the OpenAPI document. Shapes may have more fields than are
//! written here, never fewer.
//!
//! A field is a name (with `?` behind it if it may be absent) and a type: `string`, `integer`,
//! `boolean`, `time`, `any`, `object`, the name of another shape; `[…]` is a list, `…|null` may be
//! null.

mod stored;

use serde_json::{Map, Value as Json, json};

type ShapeFields = &'static [(&'static str, &'static str)];

const SHAPES: &[(&str, ShapeFields)] = &[
    ("Error", &[("error", "ErrorBody")]),
    (
        "ErrorBody",
        &[
            ("kind", "string"),
            ("message", "string"),
            ("hint?", "string"),
        ],
    ),
    ("Run", RUN),
    (
        "RunPage",
        &[
            ("runs", "[Run]"),
            ("next", "string|null"),
            ("searched", "integer|null"),
        ],
    ),
    ("RunCount", &[("count", "integer"), ("more", "boolean")]),
    (
        "Execution",
        &[
            ("id", "string"),
            ("path", "string"),
            ("step", "string"),
            ("status", "string"),
            ("attempt", "integer|null"),
            ("started_at", "time"),
            ("finished_at", "time|null"),
            ("worker?", "string"),
            ("error?", "any"),
            ("output?", "any"),
            ("output_bytes?", "integer"),
            ("error_bytes?", "integer"),
            ("attempts?", "[Attempt]"),
            ("attempts_bytes?", "integer"),
            ("source?", "string"),
        ],
    ),
    (
        "Attempt",
        &[
            ("attempt", "integer"),
            ("action", "string"),
            ("status", "string"),
            ("dispatched_at", "time"),
            ("started_at", "time|null"),
            ("finished_at", "time|null"),
        ],
    ),
    (
        "ExecutionPage",
        &[("executions", "[Execution]"), ("next", "integer|null")],
    ),
    (
        "Start",
        &[
            ("workflow", "string"),
            ("input?", "any"),
            ("key?", "string"),
            ("at?", "string"),
            ("queue?", "string"),
            ("priority?", "integer"),
            ("tags?", "object"),
            ("open?", "boolean"),
        ],
    ),
    (
        "StartedRun",
        &[
            ("run_id", "string"),
            ("workflow", "string"),
            ("status", "string"),
            ("existed", "boolean"),
        ],
    ),
    ("Signal", &[("name", "string"), ("value?", "any")]),
    ("Feed", &[("input", "any")]),
    ("Cancel", &[("force?", "boolean")]),
    ("Pause", &[("reason?", "string|null")]),
    (
        "Fork",
        &[
            ("at?", "integer|null"),
            ("key?", "string|null"),
            ("execution?", "string|null"),
        ],
    ),
    ("Sent", &[("run_id", "string"), ("sent", "string")]),
    (
        "ForkedRun",
        &[
            ("run_id", "string"),
            ("forked_from", "string"),
            ("at", "integer"),
            ("status", "string"),
        ],
    ),
    (
        "Reasons",
        &[
            ("run_id", "string"),
            ("status", "string"),
            ("reasons", "[Reason]"),
        ],
    ),
    (
        "Reason",
        &[
            ("why", "string"),
            ("message", "string"),
            ("hint?", "string"),
            ("path?", "string"),
            ("until?", "time"),
        ],
    ),
    (
        "JournalPage",
        &[("rows", "[JournalRow]"), ("next", "integer|null")],
    ),
    (
        "JournalRow",
        &[
            ("seq", "integer"),
            ("at", "time"),
            ("event", "string"),
            ("step?", "string"),
            ("execution?", "string"),
            ("path?", "string"),
            ("attempt?", "integer"),
        ],
    ),
    (
        "RunEvent",
        &[
            ("seq", "integer"),
            ("at", "time"),
            ("event", "string"),
            ("status", "string"),
            ("changes", "[StepChange]"),
        ],
    ),
    (
        "StepChange",
        &[("path", "string"), ("step", "string"), ("status", "string")],
    ),
    ("LogPiece", &[("text", "string"), ("to", "integer")]),
    ("Results", &[("results", "[InputOutcome]")]),
    (
        "InputOutcome",
        &[
            ("input", "string"),
            ("status", "string"),
            ("result", "any"),
            ("error", "any"),
        ],
    ),
    ("Logs", &[("logs", "[Log]")]),
    (
        "Log",
        &[
            ("execution", "string"),
            ("attempt", "integer"),
            ("text", "string"),
            ("from", "integer"),
        ],
    ),
    (
        "Export",
        &[
            ("format", "integer"),
            ("run", "any"),
            ("definition", "any"),
            ("journal", "[JournalRow]"),
            ("snapshot", "any"),
            ("mail", "[Any]"),
            ("results", "[InputOutcome]"),
        ],
    ),
    (
        "Workflow",
        &[
            ("workflow", "string"),
            ("version", "string"),
            ("deployed_at", "time"),
        ],
    ),
    ("WorkflowPage", &[("workflows", "[Workflow]")]),
    (
        "WorkflowWithDefinition",
        &[
            ("workflow", "string"),
            ("version", "string"),
            ("deployed_at", "time"),
            ("definition", "object"),
        ],
    ),
    (
        "DeployedWorkflow",
        &[
            ("workflow", "string"),
            ("version", "string"),
            ("dry_run", "boolean"),
        ],
    ),
    (
        "Schedule",
        &[
            ("name", "string"),
            ("workflow", "string"),
            ("cron", "string|null"),
            ("every", "string|null"),
            ("in_words", "string|null"),
            ("status", "string"),
            ("next_at", "time|null"),
            ("running", "boolean"),
        ],
    ),
    ("SchedulePage", &[("schedules", "[Schedule]")]),
    (
        "ScheduledRun",
        &[("schedule", "string"), ("run_id", "string")],
    ),
    (
        "RemovedSchedule",
        &[("name", "string"), ("removed", "boolean")],
    ),
    (
        "Runner",
        &[
            ("id", "string"),
            ("name", "string"),
            ("host", "string"),
            ("pid", "integer"),
            ("live", "boolean"),
            ("startedAt", "time"),
            ("heartbeatAt", "time"),
            ("owns", "integer"),
        ],
    ),
    ("RunnerPage", &[("runners", "[Runner]")]),
    (
        "Queue",
        &[
            ("queue", "string"),
            ("due", "integer"),
            ("later", "integer"),
            ("owned", "integer"),
            ("parked", "integer"),
            ("oldest_due_since", "time|null"),
        ],
    ),
    ("QueuePage", &[("queues", "[Queue]")]),
    (
        "Readiness",
        &[
            ("ready", "boolean"),
            ("store", "string"),
            ("runner", "string"),
        ],
    ),
];

const RUN: ShapeFields = &[
    ("run_id", "string"),
    ("workflow", "string"),
    ("version", "string"),
    ("key", "string|null"),
    ("status", "Status"),
    ("result?", "any"),
    ("result_bytes?", "integer"),
    ("error?", "any"),
    ("error_bytes?", "integer"),
    ("admitted_at", "time"),
    ("started_at", "time|null"),
    ("finished_at", "time|null"),
    ("queue", "string"),
    ("priority", "integer"),
    ("realm", "string"),
    ("tags", "object"),
    ("parent", "any"),
    ("due_at", "time|null"),
    ("parked", "string|null"),
    ("owner", "string|null"),
    ("epoch", "integer"),
    ("head", "integer"),
];

/// What comes with a run beside its record.
const RUN_MORE: ShapeFields = &[
    ("steps", "integer|null"),
    ("executions", "[Execution]"),
    ("executions_from", "integer"),
    ("executions_next", "integer|null"),
];

/// All shapes, by name.
pub(crate) fn all() -> Map<String, Json> {
    let mut schemas = Map::new();
    let mut put = |name: &str, schema: Json| schemas.insert(name.to_owned(), schema);
    put("Any", json!({ "description": "Any JSON value." }));
    put(
        "Status",
        json!({ "type": "string", "enum": lope::RunStatus::ALL.map(lope::RunStatus::as_str) }),
    );
    put(
        "WorkflowFile",
        json!({ "type": "string", "description": "A workflow file in YAML." }),
    );
    put("RunWithExecutions", object(RUN.iter().chain(RUN_MORE)));
    for (name, fields) in SHAPES
        .iter()
        .chain(stored::SHAPES)
        .chain(lope_pages::SHAPES)
    {
        put(name, object(fields.iter()));
    }
    schemas
}

fn object<'a>(fields: impl Iterator<Item = &'a (&'static str, &'static str)>) -> Json {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, kind) in fields {
        let bare = name.trim_end_matches('?');
        properties.insert(bare.to_owned(), schema(kind));
        if bare == *name {
            required.push(bare);
        }
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

fn schema(kind: &str) -> Json {
    if let Some(inner) = kind.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        return json!({ "type": "array", "items": schema(inner) });
    }
    if let Some(inner) = kind.strip_suffix("|null") {
        let mut schema = schema(inner);
        schema["type"] = json!([schema["type"], "null"]);
        return schema;
    }
    match kind {
        "any" => json!({}),
        "time" => json!({ "type": "string", "format": "date-time" }),
        "string" | "integer" | "boolean" | "object" => json!({ "type": kind }),
        name => reference(name),
    }
}

pub(crate) fn reference(name: &str) -> Json {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}
