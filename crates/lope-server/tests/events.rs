//! Live events: nothing is missed and nothing is told twice, also by a client that was cut off.

use std::time::Duration;

use lope::tokens::Right;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;

use super::fixture::http::Request;
use super::fixture::{Ground, settings};

const STEPS: &str = "name: steps
steps:
  first: { wait: go }
  many: { each: \"${{ range(5) }}\", as: n, steps: { one: { run: \"echo ${{ n }}\" } }, needs: [first] }
  done: { return: 1, needs: [many] }
";

/// Only a server that hangs needs it.
const PATIENCE: Duration = Duration::from_secs(120);

/// An event as a browser would have it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Told {
    pub(super) id: String,
    pub(super) event: String,
    pub(super) data: Json,
}

/// An open stream.
pub(super) struct Listener {
    lines: Lines<BufReader<TcpStream>>,
}

impl Listener {
    pub(super) async fn open(ground: &Ground, request: Request) -> Self {
        let address = ground.server.address();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = request.head(address);
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        let status = lines.next_line().await.unwrap().unwrap();
        assert!(status.contains(" 200 "), "{status}");
        Self { lines }
    }

    /// The next event; nothing: the stream has ended.
    pub(super) async fn next(&mut self) -> Option<Told> {
        let (mut id, mut event) = (String::new(), String::new());
        loop {
            let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
            let line = line.expect("something comes").ok().flatten()?;
            if let Some(rest) = line.strip_prefix("id: ") {
                rest.clone_into(&mut id);
            } else if let Some(rest) = line.strip_prefix("event: ") {
                rest.clone_into(&mut event);
            } else if let Some(rest) = line.strip_prefix("data: ") {
                let data = serde_json::from_str(rest).unwrap();
                return Some(Told { id, event, data });
            }
        }
    }

    async fn all(mut self) -> Vec<Told> {
        let mut told = Vec::new();
        while let Some(event) = self.next().await {
            told.push(event);
        }
        told
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runs_rows_come_once_each_also_after_a_cut() {
    let ground = Ground::open().await;
    ground.deploy(STEPS).await;
    let run = ground.start("steps", json!(null)).await;
    let path = format!("/api/runs/{run}/events");
    let mut listener = Listener::open(&ground, Request::get(&path)).await;
    let first = listener.next().await.unwrap();
    assert_eq!((first.id.as_str(), first.event.as_str()), ("1", "row"));
    assert_eq!(first.data["event"], "start");
    let signal = json!({ "name": "go" });
    ground
        .post(&format!("/api/runs/{run}/signal"), signal)
        .await;
    let second = listener.next().await.unwrap();
    drop(listener);
    let again = Request::get(&path).header("last-event-id", &second.id);
    let rest = Listener::open(&ground, again).await.all().await;
    let mut told = vec![first, second];
    told.extend(rest);
    let end = told.pop().unwrap();
    assert_eq!(
        (end.event.as_str(), &end.data["status"]),
        ("end", &json!("completed"))
    );
    let ids: Vec<u64> = told.iter().map(|it| it.id.parse().unwrap()).collect();
    let journal = ground.get(&format!("/api/runs/{run}/journal")).await.json();
    let rows: Vec<u64> = journal["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(ids, rows);
    let outcomes = told
        .iter()
        .filter(|it| it.data["event"] == "outcome")
        .count();
    assert_eq!(outcomes, 5);
    // Whoever has seen the end is told that there is no more.
    let seen = Request::get(&path).header("last-event-id", &end.id);
    assert_eq!(ground.send(seen).await.status, 204);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_tells_of_every_run_and_goes_on_after_a_cut() {
    let ground = Ground::open().await;
    ground
        .deploy("name: quick\nsteps: { a: { let: 1 } }\n")
        .await;
    let mut listener = Listener::open(&ground, Request::get("/api/events")).await;
    let run = ground.start("quick", json!(null)).await;
    let done = loop {
        let told = listener.next().await.unwrap();
        assert_eq!(
            (told.event.as_str(), &told.data["run_id"]),
            ("run", &json!(run))
        );
        if told.data["status"] == "completed" {
            break told;
        }
    };
    drop(listener);
    // While nobody watches: what happens then is told to whoever comes back.
    let mut missed = Vec::new();
    for _ in 0..3 {
        let run = ground.start("quick", json!(null)).await;
        ground.ended(&run).await;
        missed.push(run);
    }
    let again = Request::get("/api/events").header("last-event-id", &done.id);
    let mut listener = Listener::open(&ground, again).await;
    let mut ended = Vec::new();
    while ended.len() < 3 {
        let told = listener.next().await.unwrap();
        assert_eq!(told.event, "run");
        if told.data["status"] == "completed" {
            ended.push(told.data["run_id"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(ended, missed);
    // A number of another process means that everything must be read anew.
    let strange = Request::get("/api/events").header("last-event-id", "abc-7");
    let mut listener = Listener::open(&ground, strange).await;
    assert_eq!(listener.next().await.unwrap().event, "reset");
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_told_as_it_is_written_and_from_any_byte_on() {
    let ground = Ground::open().await;
    ground
        .deploy(
            "name: talks\nsteps: { say: { run: \"for n in 1 2 3; do echo zürich $n; done\" } }\n",
        )
        .await;
    let run = ground.start("talks", json!(null)).await;
    let path = format!("/api/runs/{run}/logs/events?execution=say");
    let told = Listener::open(&ground, Request::get(&path))
        .await
        .all()
        .await;
    let text: String = told
        .iter()
        .map(|it| it.data["text"].as_str().unwrap())
        .collect();
    assert_eq!(text.matches("zürich").count(), 3, "{text}");
    assert_eq!(told.last().unwrap().event, "end");
    let half = text.len() as u64 / 2;
    let again = Request::get(&path).header("last-event-id", &half.to_string());
    let told = Listener::open(&ground, again).await.all().await;
    let rest: String = told
        .iter()
        .map(|it| it.data["text"].as_str().unwrap())
        .collect();
    assert_eq!(
        rest,
        String::from_utf8_lossy(&text.as_bytes()[half as usize..])
    );
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_bounded_in_number_and_end_with_the_server() {
    let mut few = settings("127.0.0.1:0");
    few.streams_max = 2;
    let ground = Ground::with(few).await;
    let first = Listener::open(&ground, Request::get("/api/events")).await;
    let second = Listener::open(&ground, Request::get("/api/events")).await;
    let refused = ground.get("/api/events").await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    drop(second);
    // A client that hangs up gives its place back.
    loop {
        let request = Request::get("/api/events");
        let address = ground.server.address();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(request.head(address).as_bytes())
            .await
            .unwrap();
        let mut lines = BufReader::new(stream).lines();
        if lines.next_line().await.unwrap().unwrap().contains(" 200 ") {
            break;
        }
    }
    ground.server.stop().await;
    assert_eq!(first.all().await, Vec::new());
    ground
        .runner
        .shutdown(Duration::from_secs(20))
        .await
        .unwrap();
}

/// Until all of these were told, as event and name; none of it twice, nothing that was told before.
async fn told_until(listener: &mut Listener, named: &str, wanted: &[(&str, Json)]) -> Vec<Told> {
    let is_told = |told: &[Told], (event, name): &(&str, Json)| {
        told.iter()
            .any(|it| it.event == *event && it.data[named] == *name)
    };
    let mut told: Vec<Told> = Vec::new();
    while !wanted.iter().all(|it| is_told(&told, it)) {
        let next = listener.next().await.unwrap();
        assert!(
            told.iter().all(|it| it.id != next.id),
            "{next:?} came twice"
        );
        told.push(next);
    }
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_are_told_as_they_change_also_after_a_cut() {
    let ground = Ground::open().await;
    ground.deploy(STEPS).await;
    let add = |name: &str| json!({ "name": name, "workflow": "steps", "cron": "30 6 * * *" });
    ground.post("/api/schedules", add("before")).await;
    let path = "/api/events/schedules";
    let mut listener = Listener::open(&ground, Request::get(path)).await;
    assert_eq!(
        ground.post("/api/schedules", add("nightly")).await.status,
        201
    );
    let told = told_until(&mut listener, "name", &[("schedule", json!("nightly"))]).await;
    assert_eq!(told.len(), 1, "what was there before is no news: {told:?}");
    let last = told[0].clone();
    drop(listener);
    ground.post("/api/schedules/before/pause", json!({})).await;
    ground.post("/api/schedules", add("weekly")).await;
    ground
        .send(Request::new("DELETE", "/api/schedules/nightly"))
        .await;
    let back = Request::get(path).header("last-event-id", &last.id);
    let mut listener = Listener::open(&ground, back).await;
    let wanted = [
        ("schedule", json!("before")),
        ("schedule", json!("weekly")),
        ("removed", json!("nightly")),
    ];
    let rest = told_until(&mut listener, "name", &wanted).await;
    assert!(rest.iter().all(|it| it.id != last.id && *it != last));
    let paused = rest.iter().find(|it| it.data["name"] == "before").unwrap();
    assert_eq!(paused.data["status"], "paused");
    // An id of another server: what came after it is not known.
    let strange = Request::get(path).header("last-event-id", "elsewhere-7");
    let first = Listener::open(&ground, strange).await.next().await.unwrap();
    assert_eq!(first.event, "reset");
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mailboxes_are_told_as_they_fill_and_empty_also_after_a_cut() {
    let ground = Ground::open().await;
    let path = "/api/events/mailboxes";
    let send = || ground.post("/api/mailboxes/7/messages", json!({ "payload": "hello" }));
    let mut listener = Listener::open(&ground, Request::get(path)).await;
    assert_eq!(send().await.status, 201);
    let wanted = [("mailbox", json!(7)), ("mailbox", json!(null))];
    let told = told_until(&mut listener, "worker", &wanted).await;
    let of_7 = told.iter().find(|it| it.data["worker"] == 7).unwrap();
    assert_eq!(of_7.data["inbox"], 1);
    let last = told.last().unwrap().clone();
    drop(listener);
    assert_eq!(send().await.status, 201);
    let back = Request::get(path).header("last-event-id", &last.id);
    let mut listener = Listener::open(&ground, back).await;
    let rest = told_until(&mut listener, "worker", &wanted).await;
    let of_7 = rest.iter().find(|it| it.data["worker"] == 7).unwrap();
    assert_eq!(of_7.data["inbox"], 2, "{rest:?}");
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_its_token_is_taken_away() {
    let ground = Ground::open().await;
    let taken = ground.token("taken", Right::Read).await;
    let kept = ground.token("kept", Right::Read).await;
    let request = |token: &str| Request::get("/api/events").token(token);
    let mut ends = Listener::open(&ground, request(&taken)).await;
    let mut goes_on = Listener::open(&ground, request(&kept)).await;
    ground.client.revoke_token("taken").await.unwrap();
    while ends.next().await.is_some() {}
    ground.deploy(STEPS).await;
    let run = ground.start("steps", json!(null)).await;
    while goes_on.next().await.unwrap().data["run_id"] != run {}
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_seen_the_end_of_a_log_is_not_told_it_again() {
    let ground = Ground::open().await;
    ground
        .deploy("name: says\nsteps:\n  tell: { run: \"echo hello\" }\n")
        .await;
    let run = ground.start("says", json!(null)).await;
    ground.ended(&run).await;
    let path = format!("/api/runs/{run}/logs/events?execution=tell");
    let mut listener = Listener::open(&ground, Request::get(&path)).await;
    let mut last = listener.next().await.unwrap();
    while last.event != "end" {
        last = listener.next().await.unwrap();
    }
    let back = Request::get(&path).header("last-event-id", &last.id);
    assert_eq!(ground.send(back).await.status, 204);
    ground.close().await;
}
