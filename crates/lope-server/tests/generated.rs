//! Thousands of requests made from the OpenAPI document, right and wrong ones: none is answered with
//! a bug, none with something that the document does not describe.
//!
//! Dice with a fixed seed throw each of them, so that what was found is found again.

use std::net::SocketAddr;

use serde_json::{Map, Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::fixture::http::{self, HttpAnswer, Request};
use super::fixture::{Ground, described};

/// Requests to each operation.
const EACH: usize = 20;
const SEED: u64 = 0x0010_be00;

const PLAIN: &str = "name: plain
input: { type: object }
steps:
  a: { let: \"${{ input }}\" }
  b: { run: [echo, hello] }
";
const WAITING: &str = "name: waiting\nsteps: { a: { wait: go } }\n";
const FAILING: &str =
    "name: failing\nsteps: { a: { raise: { type: Broken, message: it broke } } }\n";

/// Texts that people, programs and burglars send.
const TEXTS: [&str; 26] = [
    "",
    "a",
    "0",
    "-1",
    "7",
    "18446744073709551616",
    "true",
    "null",
    "plain",
    "waiting",
    "failing",
    "k",
    "nightly",
    "go",
    "30s",
    "2h",
    "2026-01-01T00:00:00Z",
    "0 9 * * MON-FRI",
    "cancel",
    "retry",
    "\u{0}",
    "🦀 ünï",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "%00%ff",
    "a=b",
];
const FILES: [&str; 6] = [
    PLAIN,
    "name: other\nsteps: { a: { let: 1 } }\n",
    "steps: [",
    "name: x\nsteps: { a: { let: \"${{ nobody }}\" } }\n",
    "",
    "- 1\n- 2\n",
];

/// Dice: the same seed throws the same numbers.
struct Dice(u64);

impl Dice {
    fn throw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.throw() % count as u64).unwrap()
    }

    /// True so many times in a hundred.
    fn often(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn text(&mut self) -> String {
        if self.often(3) {
            return "x".repeat(self.below(3_000));
        }
        TEXTS[self.below(TEXTS.len())].to_owned()
    }

    fn number(&mut self) -> Json {
        let numbers = [0, 1, 2, 3, 9, 50, 1_000, -1, i64::MAX, i64::MIN];
        json!(numbers[self.below(numbers.len())])
    }

    fn anything(&mut self, depth: usize) -> Json {
        match self.below(if depth > 3 { 5 } else { 7 }) {
            0 => Json::Null,
            1 => json!(self.often(50)),
            2 => self.number(),
            3 => json!(1.5e300),
            4 => json!(self.text()),
            5 => (0..self.below(4))
                .map(|_| self.anything(depth + 1))
                .collect(),
            _ => {
                let fields = (0..self.below(4)).map(|_| (self.text(), self.anything(depth + 1)));
                Json::Object(fields.collect::<Map<_, _>>())
            }
        }
    }
}

/// What is made of the document.
struct Generator {
    document: Json,
    dice: Dice,
    /// Ids that exist.
    names: Vec<String>,
}

impl Generator {
    fn name(&mut self) -> String {
        if self.dice.often(60) {
            let at = self.dice.below(self.names.len());
            return self.names[at].clone();
        }
        self.dice.text()
    }

    /// A value of a schema; now and then another one.
    fn value(&mut self, schema: &Json, depth: usize) -> Json {
        if self.dice.often(7) {
            return self.dice.anything(depth);
        }
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.rsplit('/').next().unwrap();
            let schema = self.document["components"]["schemas"][name].clone();
            return self.value(&schema, depth);
        }
        let kind = match &schema["type"] {
            Json::Array(kinds) => kinds[self.dice.below(kinds.len())].clone(),
            other => other.clone(),
        };
        match kind.as_str() {
            Some("string") => json!(self.name()),
            Some("integer") => self.dice.number(),
            Some("boolean") => json!(self.dice.often(50)),
            Some("null") => Json::Null,
            Some("array") => (0..self.dice.below(4))
                .map(|_| self.value(&schema["items"], depth + 1))
                .collect(),
            Some("object") => self.object(schema, depth),
            _ => self.dice.anything(depth),
        }
    }

    fn object(&mut self, schema: &Json, depth: usize) -> Json {
        let required: Vec<&str> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .collect();
        let mut object = Map::new();
        for (name, of) in schema["properties"].as_object().into_iter().flatten() {
            let wanted = if required.contains(&name.as_str()) {
                96
            } else {
                40
            };
            if self.dice.often(wanted) {
                object.insert(name.clone(), self.value(of, depth + 1));
            }
        }
        if self.dice.often(5) {
            object.insert(self.dice.text(), json!(1));
        }
        Json::Object(object)
    }

    fn path(&mut self, template: &str) -> String {
        let mut path = String::new();
        for part in template.split('/').skip(1) {
            path.push('/');
            if part.starts_with('{') {
                path.extend(form_urlencoded::byte_serialize(self.name().as_bytes()));
            } else {
                path.push_str(part);
            }
        }
        path.replace('+', "%20")
    }

    fn query(&mut self, operation: &Json) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            if parameter["in"] != "query" {
                continue;
            }
            let name = parameter["name"].as_str().unwrap();
            if name == "timeout" {
                let spans = ["1ms", "0s", "x", "5ms"];
                query.append_pair(name, spans[self.dice.below(spans.len())]);
                continue;
            }
            let times = if self.dice.often(35) {
                1 + self.dice.below(2)
            } else {
                0
            };
            for _ in 0..times {
                let value = match self.value(&parameter["schema"], 2) {
                    Json::String(text) => text,
                    other => other.to_string(),
                };
                query.append_pair(name, &value);
            }
        }
        if self.dice.often(3) {
            query.append_pair("no_such_parameter", "1");
        }
        query.finish()
    }

    fn request(&mut self, method: &str, template: &str, operation: &Json) -> Request {
        let query = self.query(operation);
        let mut path = self.path(template);
        if !query.is_empty() {
            path = format!("{path}?{query}");
        }
        let mut request = Request::new(&method.to_uppercase(), &path);
        let content = operation["requestBody"]["content"].as_object();
        let Some((content_type, of)) = content.and_then(|content| content.iter().next()) else {
            return request;
        };
        let content_type = if self.dice.often(4) {
            "text/plain"
        } else {
            content_type
        };
        let body = if self.dice.often(3) {
            "{\"cut\": ".to_owned()
        } else if content_type == "application/yaml" {
            FILES[self.dice.below(FILES.len())].to_owned()
        } else {
            self.value(&of["schema"], 0).to_string()
        };
        if self.dice.often(97) {
            request = request.body(content_type, body);
        }
        request
    }
}

/// The answer; of events only how they begin.
async fn answered(address: SocketAddr, request: &Request) -> HttpAnswer {
    let path = request.path.split('?').next().unwrap();
    if !path.ends_with("/events") && !path.starts_with("/api/events/") {
        return http::send(address, request).await;
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = request.head(address);
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece).await.unwrap();
        bytes.extend(&piece[..read]);
        let is_head = bytes.windows(4).any(|four| four == b"\r\n\r\n");
        if is_head {
            let answer = http::parse(&bytes);
            let is_stream = answer.header("content-type") == Some("text/event-stream");
            if is_stream || read == 0 {
                return answer;
            }
        }
        assert!(read > 0 || is_head, "no answer to {}", request.path);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_answered_with_a_bug_or_with_what_is_not_described() {
    let ground = Ground::open().await;
    for yaml in [PLAIN, WAITING, FAILING] {
        ground.deploy(yaml).await;
    }
    let mut names = vec!["plain".to_owned(), "waiting".to_owned(), "7".to_owned()];
    for workflow in ["plain", "failing"] {
        let run = ground
            .start(workflow, json!({ "user": { "plan": "pro" } }))
            .await;
        ground.ended(&run).await;
        names.push(run);
    }
    names.push(ground.start("waiting", json!({})).await);
    let nightly = json!({ "name": "nightly", "workflow": "waiting", "cron": "30 6 * * *" });
    assert_eq!(ground.post("/api/schedules", nightly).await.status, 201);
    ground.dead_letters(7, 2).await;
    let document = lope_server::openapi_document();
    let mut generator = Generator {
        document: document.clone(),
        dice: Dice(SEED),
        names,
    };
    let mut count = 0;
    for (template, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            for _ in 0..EACH {
                let request = generator.request(method, template, operation);
                let answer = answered(ground.server.address(), &request).await;
                let sent = String::from_utf8_lossy(&request.body).into_owned();
                assert!(
                    answer.status < 500,
                    "{} {} {sent}: {} {}",
                    request.method,
                    request.path,
                    answer.status,
                    answer.text()
                );
                described::check(&request, &answer);
                count += 1;
            }
            let odd = Request::new("PATCH", &generator.path(template));
            let answer = answered(ground.server.address(), &odd).await;
            assert!(
                matches!(answer.status, 404 | 405),
                "{odd:?}: {}",
                answer.status
            );
        }
    }
    assert!(count > 2_000, "only {count} requests were sent");
    // It still works.
    let run = ground.start("plain", json!({})).await;
    assert_eq!(ground.ended(&run).await["status"], "completed");
    ground.close().await;
}
