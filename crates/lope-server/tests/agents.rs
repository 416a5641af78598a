//! Agents over HTTP: projects, tasks, what people decide, logs while they are written; and their
//! pages.

use std::io::Write;

use lope::agents::law::select::TaskQuery;
use lope::agents::{
    AttemptStart, ClaimOutcome, LocalMachine, RunnerEntry, settings::RunnerSettings,
};
use lope::tokens::Right;
use lope_model::{RunnerId, Span};
use serde_json::{Value as Json, json};

use super::events::Listener;
use super::fixture::http::Request;
use super::fixture::{Ground, settings};

/// A project in the ground's folder; its path.
pub(super) async fn project(ground: &Ground) -> String {
    let path = ground.folder.path().join("shop");
    std::fs::create_dir_all(&path).unwrap();
    let body = json!({ "path": path.display().to_string() });
    let added = ground.post("/api/projects", body).await;
    assert_eq!(added.status, 201, "{}", added.text());
    added.json()["path"].as_str().unwrap().to_owned()
}

/// A task of the project; its id.
pub(super) async fn task(ground: &Ground, title: &str, more: Json) -> String {
    let mut body = json!({ "project": "shop", "title": title });
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    let added = ground.post("/api/tasks", body).await;
    assert_eq!(added.status, 201, "{}", added.text());
    added.json()["id"].as_str().unwrap().to_owned()
}

/// Somebody begins to work on the next task; the log of the attempt, below the folder of logs.
pub(super) async fn begun(ground: &Ground, path: &str) -> String {
    let board = ground.client.agents(&RunnerSettings::default());
    let query = TaskQuery {
        project: Some(path),
        ..TaskQuery::default()
    };
    let me = RunnerId::from_uuid(uuid());
    let claimed = board.claim(&query, me, Span::from_secs(3_600)).await;
    let ClaimOutcome::Claimed(held) = claimed.unwrap() else {
        panic!("no task can be claimed");
    };
    let name = |number: i64| Some(format!("{}/work.{number}.log", held.task.id));
    let started = board
        .begin_attempt(&held, &AttemptStart::alone(held.role, "default"), name)
        .await
        .unwrap();
    let name = started.unwrap().attempt.log.unwrap();
    let file = ground.folder.path().join("logs/tasks").join(&name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "").unwrap();
    file.display().to_string()
}

fn uuid() -> uuid::Uuid {
    uuid::Uuid::now_v7()
}

pub(super) fn write(file: &str, text: &str) {
    let mut file = std::fs::OpenOptions::new().append(true).open(file).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

async fn decide(ground: &Ground, id: &str, verb: &str, body: Json) -> (u16, Json) {
    let answer = ground.post(&format!("/api/tasks/{id}/{verb}"), body).await;
    (answer.status, answer.json())
}

#[tokio::test(flavor = "multi_thread")]
async fn projects_and_tasks_are_added_listed_and_removed() {
    let ground = Ground::open().await;
    assert_eq!(
        ground.get("/api/projects").await.json()["projects"],
        json!([])
    );
    let path = project(&ground).await;
    let again = ground.post("/api/projects", json!({ "path": path })).await;
    assert_eq!(again.status, 200, "one that is known stays as it is");
    let bad = ground
        .post("/api/projects", json!({ "path": "/no/such/folder" }))
        .await;
    assert_eq!(bad.status, 400);
    let first = task(&ground, "first", json!({ "priority": 2, "section": "a" })).await;
    let second = task(
        &ground,
        "second",
        json!({ "needs": [first], "priority": 9 }),
    )
    .await;
    let listed = ground.get("/api/tasks?project=shop").await.json();
    let titles: Vec<&Json> = listed["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["title"])
        .collect();
    assert_eq!(titles, [&json!("first"), &json!("second")]);
    let next = ground.get("/api/projects/shop/next").await.json();
    assert_eq!(next["task"]["title"], "first", "the other one waits for it");
    let counted = ground.get("/api/projects").await.json();
    assert_eq!(counted["projects"][0]["tasks"]["pending"], 2);
    let some = ground
        .get("/api/tasks?status=completed&section=a")
        .await
        .json();
    assert_eq!(some["tasks"], json!([]));
    assert_eq!(ground.get("/api/tasks?status=odd").await.status, 400);
    assert_eq!(ground.get("/api/tasks?project=nowhere").await.status, 404);
    let untitled = ground
        .post("/api/tasks", json!({ "project": "shop", "title": " " }))
        .await;
    assert_eq!(untitled.status, 400);
    for (verb, enabled) in [("disable", false), ("enable", true)] {
        let answer = ground
            .send(Request::post(&format!("/api/projects/shop/{verb}")))
            .await;
        assert_eq!(answer.json()["enabled"], enabled);
    }
    let gone = ground
        .send(Request::new("DELETE", &format!("/api/tasks/{second}")))
        .await;
    assert_eq!(gone.status, 200, "{}", gone.text());
    assert_eq!(
        ground.get(&format!("/api/tasks/{second}")).await.status,
        404
    );
    let refused = ground
        .send(Request::new("DELETE", "/api/projects/shop"))
        .await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    let forced = ground
        .send(Request::new("DELETE", "/api/projects/shop?force=true"))
        .await;
    assert_eq!(forced.status, 200);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_answer_approve_reject_skip_and_reset() {
    let ground = Ground::open().await;
    project(&ground).await;
    let id = task(&ground, "paint it", json!({ "review": "person" })).await;
    let (status, asked) = decide(&ground, &id, "ask", json!({ "text": "Which colour?" })).await;
    assert_eq!((status, &asked["status"]), (200, &json!("blocked")));
    let (status, _) = decide(&ground, &id, "answer", json!({})).await;
    assert_eq!(status, 400, "an answer says something");
    let (_, answered) = decide(&ground, &id, "answer", json!({ "text": "blue" })).await;
    assert_eq!(
        (&answered["status"], &answered["answer"]),
        (&json!("pending"), &json!("blue"))
    );
    let (status, refused) = decide(&ground, &id, "approve", json!({})).await;
    assert_eq!(status, 409, "{refused}");
    let (_, done) = decide(&ground, &id, "done", json!({ "text": "painted" })).await;
    assert_eq!(done["status"], "review");
    let (_, back) = decide(&ground, &id, "reject", json!({ "notes": "not that blue" })).await;
    assert_eq!(
        (&back["status"], &back["rejections"]),
        (&json!("pending"), &json!(1))
    );
    decide(&ground, &id, "done", json!({ "text": "painted again" })).await;
    let (_, approved) = decide(&ground, &id, "approve", json!({ "notes": "fine" })).await;
    assert_eq!(approved["status"], "completed");
    let (_, reset) = decide(&ground, &id, "reset", json!({})).await;
    assert_eq!(reset["status"], "pending");
    let (_, noted) = decide(&ground, &id, "note", json!({ "text": "hurry" })).await;
    assert_eq!(noted["id"], id);
    let (_, parts) = decide(&ground, &id, "split", json!({ "titles": ["one", "two"] })).await;
    assert_eq!(parts["tasks"].as_array().unwrap().len(), 2);
    let (_, skipped) = decide(&ground, &id, "skip", json!({ "notes": "no time" })).await;
    assert_eq!(skipped["status"], "skipped");
    let shown = ground
        .get(&format!("/api/tasks/{}", &id[..13]))
        .await
        .json();
    let said: Vec<&str> = shown["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect();
    for kind in [
        "question", "answer", "rejected", "approved", "reset", "note", "split", "skipped",
    ] {
        assert!(said.contains(&kind), "{kind}: {said:?}");
    }
    assert_eq!(decide(&ground, "none", "approve", json!({})).await.0, 404);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_read_by_range_and_followed_through_a_cut() {
    let ground = Ground::open().await;
    let path = project(&ground).await;
    let id = task(&ground, "talk", json!({})).await;
    assert_eq!(
        ground.get(&format!("/api/tasks/{id}/log")).await.status,
        404
    );
    let file = begun(&ground, &path).await;
    write(&file, "first line\n");
    let whole = ground.get(&format!("/api/tasks/{id}/log")).await.json();
    assert_eq!(
        (&whole["text"], &whole["size"]),
        (&json!("first line\n"), &json!(11))
    );
    let part = ground
        .get(&format!("/api/tasks/{id}/log?from=6&limit=4"))
        .await
        .json();
    assert_eq!((&part["text"], &part["to"]), (&json!("line"), &json!(10)));
    let far = ground
        .get(&format!("/api/tasks/{id}/log?from=99"))
        .await
        .json();
    assert_eq!(far["text"], "");
    let events = format!("/api/tasks/{id}/log/events");
    let mut listener = Listener::open(&ground, Request::get(&events)).await;
    let first = listener.next().await.unwrap();
    assert_eq!(
        (&first.data["text"], &*first.id),
        (&json!("first line\n"), "11")
    );
    write(&file, "second\n");
    assert_eq!(listener.next().await.unwrap().data["text"], "second\n");
    drop(listener);
    write(&file, "third\n");
    let back = Request::get(&events).header("last-event-id", "18");
    let mut listener = Listener::open(&ground, back).await;
    assert_eq!(listener.next().await.unwrap().data["text"], "third\n");
    // A lock that was taken away ends the attempt when the next one looks; a person may do both.
    let locks = ground.get("/api/locks").await.json();
    assert_eq!(locks["locks"][0]["taskId"], id);
    let freed = ground
        .post(
            &format!("/api/locks/{id}/release"),
            json!({ "force": true }),
        )
        .await;
    assert_eq!(freed.status, 200, "{}", freed.text());
    assert_eq!(ground.get("/api/locks").await.json()["locks"], json!([]));
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_told_as_they_change_and_a_task_once_for_each_change() {
    let ground = Ground::open().await;
    project(&ground).await;
    let mut board = Listener::open(&ground, Request::get("/api/tasks/events")).await;
    let id = task(&ground, "watched", json!({})).await;
    let told = board.next().await.unwrap();
    assert_eq!((&*told.event, &told.data["id"]), ("task", &json!(id)));
    let one = format!("/api/tasks/{id}/events");
    let mut own = Listener::open(&ground, Request::get(&one)).await;
    let now = own.next().await.unwrap();
    assert_eq!(now.data["status"], "pending");
    decide(&ground, &id, "skip", json!({})).await;
    assert_eq!(own.next().await.unwrap().data["status"], "skipped");
    assert_eq!(board.next().await.unwrap().data["status"], "skipped");
    drop(own);
    decide(&ground, &id, "reset", json!({})).await;
    let back = Request::get(&one).header("last-event-id", &now.id);
    let mut own = Listener::open(&ground, back).await;
    assert_eq!(own.next().await.unwrap().data["status"], "pending");
    let back = Request::get("/api/tasks/events").header("last-event-id", "7");
    let mut board = Listener::open(&ground, back).await;
    assert_eq!(
        board.next().await.unwrap().event,
        "reset",
        "read the list anew"
    );
    ground
        .send(Request::new("DELETE", &format!("/api/tasks/{id}")))
        .await;
    assert_eq!(board.next().await.unwrap().event, "removed");
    assert_eq!(ground.get("/api/tasks/none/events").await.status, 404);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_the_board_decides_nothing_and_projects_are_for_admins() {
    let mut guarded = settings("127.0.0.1:0");
    guarded.authentication = lope_server::Authentication::Always;
    let ground = Ground::with(guarded).await;
    let reader = ground.token("reader", Right::Read).await;
    let actor = ground.token("actor", Right::Act).await;
    let add = |token: &str| {
        Request::post("/api/projects")
            .json(&json!({ "path": "/srv" }))
            .token(token)
    };
    assert_eq!(ground.send(add(&reader)).await.status, 403);
    assert_eq!(
        ground.send(add(&actor)).await.status,
        403,
        "it lets agents into a folder"
    );
    for verb in ["approve", "answer", "reset", "note"] {
        let request = Request::post(&format!("/api/tasks/x/{verb}")).json(&json!({ "text": "x" }));
        assert_eq!(ground.send(request.token(&reader)).await.status, 403);
    }
    let page = ground.send(Request::get("/agents").token(&reader)).await;
    assert_eq!(page.status, 200);
    assert!(!page.text().contains("Add a task"));
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_agents_teach_show_the_board_and_take_decisions() {
    let ground = Ground::open().await;
    let empty = ground.get("/agents").await.text();
    assert!(empty.contains("lope projects add"), "an empty page teaches");
    let path = project(&ground).await;
    let hostile = "<script>alert(1)</script>";
    let id = task(
        &ground,
        hostile,
        json!({ "review": "person", "description": hostile }),
    )
    .await;
    let file = begun(&ground, &path).await;
    write(&file, &format!("working on {hostile}\n"));
    let board = ground.get("/agents").await.text();
    assert!(board.contains("&lt;script&gt;") && !board.contains(hostile));
    assert!(board.contains("1 in progress") && board.contains("data-events=\"/api/tasks/events"));
    let page = format!("/agents/tasks/{id}");
    let shown = ground.get(&page).await.text();
    assert!(
        shown.contains("working on &lt;script&gt;") && !shown.contains(hostile),
        "{shown}"
    );
    assert!(shown.contains("data-log=\"/api/tasks/"), "{shown}");
    let form = |path: &str, body: &str| {
        Request::post(path)
            .body("application/x-www-form-urlencoded", body)
            .header("sec-fetch-site", "same-origin")
    };
    let approved = ground.send(form(&format!("{page}/approve"), "text=")).await;
    assert_eq!(approved.status, 303, "{}", approved.text());
    let shown = ground
        .get(approved.header("location").unwrap())
        .await
        .text();
    assert!(shown.contains("The task is approved.") && shown.contains("Completed"));
    let add = format!(
        "title=Second&project={}&review=none",
        path.replace('/', "%2F")
    );
    let added = ground.send(form("/agents/tasks", &add)).await;
    assert_eq!(added.status, 303, "{}", added.text());
    assert!(
        ground
            .get(added.header("location").unwrap())
            .await
            .text()
            .contains("Waits for a runner")
    );
    assert_eq!(ground.get("/agents/tasks/none").await.status, 404);
    assert_eq!(
        ground
            .send(form(&format!("{page}/explode"), ""))
            .await
            .status,
        404
    );
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_of_agents_is_asked_to_stop_from_its_page_by_those_who_may() {
    let mut guarded = settings("127.0.0.1:0");
    guarded.authentication = lope_server::Authentication::Always;
    let ground = Ground::with(guarded).await;
    let board = ground.client.agents(&RunnerSettings::default());
    let place = ground.folder.path().display().to_string();
    board.add_project(&place, None).await.unwrap();
    // It lives: one that is dead is not asked.
    let process = LocalMachine::own_process();
    let entry = RunnerEntry {
        id: RunnerId::from_uuid(uuid()),
        pid: process.pid,
        pid_started: process.start_time.to_string(),
        boot_id: process.scope,
        host: "here".to_owned(),
        project: place,
        section: None,
        places: 1,
    };
    board.enter_runner(&entry).await.unwrap();
    let (read, act) = (
        ground.token("r", Right::Read).await,
        ground.token("a", Right::Act).await,
    );
    let page = async |token: &str| {
        let shown = ground.send(Request::get("/agents").token(token)).await;
        assert_eq!(shown.status, 200, "{}", shown.text());
        shown.text()
    };
    let path = format!("/agents/runners/{}/stop", entry.id);
    assert!(page(&act).await.contains(&path));
    assert!(
        !page(&read).await.contains(&path),
        "a reader sees no button"
    );
    let stop = |token: &str| {
        Request::post(&path)
            .body("application/x-www-form-urlencoded", "")
            .token(token)
    };
    assert_eq!(ground.send(stop(&read)).await.status, 403);
    let runner = || board.runner(path.split('/').nth(3).unwrap());
    assert_eq!(runner().await.unwrap().stop, None);
    let asked = ground.send(stop(&act)).await;
    assert_eq!(asked.status, 303, "{}", asked.text());
    assert!(runner().await.unwrap().stop.is_some());
    let after = page(&act).await;
    assert!(
        after.contains("stopping") && !after.contains(&path),
        "{after}"
    );
    ground.close().await;
}
