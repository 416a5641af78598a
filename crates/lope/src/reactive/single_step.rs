//! Effects that are one step of work: an HTTP request, or an action of a worker, in Python or
//! anything else. Each is a durable run of a workflow that has this step and nothing else, so that
//! it is tried, fenced and shown like any other step.

use std::sync::Arc;

use lope_cells::Json;
use lope_cells::json::Object;
use lope_flow::law::Plan;
use lope_model::Failure;

use crate::workflows;

/// What the fields of a request are, if it does not say.
const HTTP_DEFAULTS: [(&str, &str); 4] = [
    ("method", "\"GET\""),
    ("headers", "{}"),
    ("body", "null"),
    ("accept", "[]"),
];

type Step = fn(&Json) -> Result<SingleStep, Failure>;

/// A workflow of one step, and the input of the run that does the effect.
pub(super) struct SingleStep {
    pub(super) plan: Arc<Plan>,
    pub(super) input: Json,
}

impl SingleStep {
    /// The step that the effect `name` stands for; none if it stands for none.
    pub(super) fn of(name: &str, request: &Json) -> Option<Result<Self, Failure>> {
        let (fields, step): (_, Step) = match name {
            "http" => ("url, method, headers, body, accept", http),
            "action" => ("action, with", action),
            _ => return None,
        };
        // A field that is misspelt asks for something else.
        let mut given = request.as_object().into_iter().flat_map(Object::keys);
        let other = given.find(|given| !fields.split(", ").any(|field| *field == ***given));
        let refused = |other| format!("a request has no '{other}'; it has {fields}");
        let refused = other.map(|other| Err(Failure::new("BadInput", refused(other))));
        Some(refused.unwrap_or_else(|| step(request)))
    }
}

/// `{url, method?, headers?, body?, accept?}`, or the URL alone.
fn http(request: &Json) -> Result<SingleStep, Failure> {
    let url = request.child("url").unwrap_or(request);
    if url.as_str().is_none() {
        let message = "an http effect has {url, method?, headers?, body?, accept?}";
        return Err(Failure::new("BadInput", message));
    }
    let field = |(key, default): (&'static str, &str)| {
        let given = request.child(key).cloned();
        let default = || Json::parse(default).unwrap_or_default();
        (key, given.unwrap_or_else(default))
    };
    let fields = HTTP_DEFAULTS.into_iter().map(field);
    let input = Json::object(fields.chain([("url", url.clone())]));
    let of_input = |key: &str| {
        let value = format!("${{{{ input.{key} }}}}");
        (key.to_owned(), Json::from(value))
    };
    let keys = ["url"].into_iter().chain(HTTP_DEFAULTS.map(|(key, _)| key));
    let step = Json::object([("http", Json::object(keys.map(of_input)))]);
    let plan = plan("effect-http", step)?;
    Ok(SingleStep { plan, input })
}

/// `{action, with?}`.
fn action(request: &Json) -> Result<SingleStep, Failure> {
    let name = request.child("action").and_then(Json::as_str);
    let name = name.filter(|name| !name.is_empty() && !name.contains("${{"));
    let Some(name) = name else {
        let message = "an action effect has {action: NAME, with?}";
        return Err(Failure::new("BadInput", message));
    };
    let with = request.child("with").cloned();
    let step = Json::object([
        ("action", Json::from(name)),
        ("with", Json::from("${{ input }}")),
    ]);
    Ok(SingleStep {
        plan: plan(&format!("effect-{name}"), step)?,
        input: with.unwrap_or_else(|| Json::object::<&str>([])),
    })
}

fn plan(name: &str, step: Json) -> Result<Arc<Plan>, Failure> {
    let document = Json::object([
        ("name", Json::from(name)),
        ("steps", Json::object([("effect", step)])),
    ]);
    workflows::read(&document.to_string(), name).map_err(|problems| {
        let problem = problems.into_iter().next();
        let message = problem.map_or_else(String::new, |problem| problem.message);
        Failure::new("BadInput", message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str, request: serde_json::Value) -> Result<SingleStep, Failure> {
        SingleStep::of(name, &request.into()).unwrap()
    }

    #[test]
    fn the_same_kind_of_effect_is_the_same_workflow_whatever_it_asks_for() {
        let one = step("http", serde_json::json!({"url": "http://a/${{ 1 }}"})).unwrap();
        let other = step(
            "http",
            serde_json::json!({"url": "http://b", "method": "POST", "body": 5}),
        );
        let other = other.unwrap();
        assert_eq!(one.plan.version(), other.plan.version());
        assert_eq!(one.input.child("method"), Some(&"GET".into()));
        assert_eq!(one.input.child("url"), Some(&"http://a/${{ 1 }}".into()));
        assert_eq!(other.input.child("body"), Some(&5.into()));
        let text = step("http", serde_json::json!("http://a")).unwrap();
        assert_eq!(text.input.child("url"), Some(&"http://a".into()));
        let mail = step(
            "action",
            serde_json::json!({"action": "mail", "with": {"to": "a"}}),
        )
        .unwrap();
        assert_eq!(&**mail.plan.name(), "effect-mail");
        assert_eq!(mail.input, serde_json::json!({"to": "a"}).into());
    }

    #[test]
    fn a_request_that_makes_no_step_is_refused() {
        for (name, request) in [
            ("http", serde_json::json!({"method": "GET"})),
            ("http", serde_json::json!(null)),
            (
                "http",
                serde_json::json!({"url": "http://a", "metod": "POST"}),
            ),
            ("action", serde_json::json!({"action": "mail", "wiht": {}})),
            ("action", serde_json::json!({"with": {}})),
            ("action", serde_json::json!({"action": "${{ 1 }}"})),
            ("action", serde_json::json!({"action": ""})),
        ] {
            let refused = step(name, request).map(|_| ()).unwrap_err();
            assert_eq!(&*refused.kind, "BadInput");
        }
        assert!(SingleStep::of("nobody", &Json::Null).is_none());
    }
}
