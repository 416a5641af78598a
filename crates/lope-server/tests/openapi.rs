//! The document describes every route, and every route is there.

use lope_server::openapi_document;
use serde_json::Value as Json;

use super::fixture::Ground;
use super::fixture::http::Request;

#[tokio::test(flavor = "multi_thread")]
async fn every_described_operation_has_a_route_and_a_description() {
    let ground = Ground::open().await;
    let document = openapi_document();
    let served = ground.get("/api/openapi.json").await.json();
    assert_eq!(served, document);
    let mut names = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let place = format!("{method} {path}");
            assert!(
                operation["summary"]
                    .as_str()
                    .is_some_and(|it| it.len() > 10),
                "{place} has no description"
            );
            names.push(operation["operationId"].as_str().unwrap().to_owned());
            for parameter in operation["parameters"].as_array().unwrap() {
                let of_query = parameter["in"] == "query";
                assert!(
                    !of_query || parameter["description"].is_string(),
                    "{place}: {parameter}"
                );
            }
            let is_stream = path.ends_with("/events") || path.starts_with("/api/events/");
            if is_stream || path.ends_with("/wait") {
                continue;
            }
            // A name that nothing has: whatever the answer is, it is not "no such path", and the
            // fixture holds it against the document.
            let concrete = path.replace('{', "no-such-").replace('}', "");
            let request = Request::new(&method.to_uppercase(), &concrete);
            let answer = ground.send(request).await;
            assert!(answer.status < 500, "{place}: {}", answer.text());
            if answer.status == 404 {
                let message = answer.json()["error"]["message"].clone();
                assert!(
                    !message.as_str().unwrap().starts_with("there is no path"),
                    "{place}"
                );
            }
            assert_ne!(answer.status, 405, "{place}");
        }
    }
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count, "two operations have one name");
    ground.close().await;
}

/// "every legal name works": what stands beside `{name}` would hide whatever has that name.
#[test]
fn no_word_of_a_path_stands_in_the_way_of_a_name() {
    let document = openapi_document();
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    // Ids of tasks are hexadecimal digits: none is called so.
    let never_names = ["/api/tasks/events"];
    for path in &paths {
        let words: Vec<&str> = path.split('/').collect();
        let hidden = paths.iter().filter(|other| {
            let others: Vec<&str> = other.split('/').collect();
            let same = |(own, other): (&&str, &&str)| own == other || other.starts_with('{');
            others.len() == words.len() && **other != *path && words.iter().zip(&others).all(same)
        });
        let hidden: Vec<_> = hidden.collect();
        let is_known = never_names.contains(&path.as_str());
        assert!(hidden.is_empty() || is_known, "{path} hides {hidden:?}");
    }
}

#[test]
fn every_reference_of_the_document_leads_somewhere() {
    let document = openapi_document();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 50);
    for name in &found {
        assert!(schemas.contains_key(name), "there is no schema {name}");
    }
    let unused: Vec<&String> = schemas.keys().filter(|it| !found.contains(it)).collect();
    assert!(unused.is_empty(), "nothing uses {unused:?}");
}

fn references(value: &Json, found: &mut Vec<String>) {
    match value {
        Json::Object(fields) => {
            if let Some(name) = fields.get("$ref").and_then(Json::as_str) {
                found.push(name.rsplit('/').next().unwrap().to_owned());
            }
            fields.values().for_each(|inner| references(inner, found));
        }
        Json::Array(all) => all.iter().for_each(|inner| references(inner, found)),
        _ => {}
    }
}
