//! What people do on the pages, without a browser: forms that mean what they say, the past as it was,
//! words that only the server says, and a page for everything that has a name.

use lope::tokens::Right;
use serde_json::json;

use super::fixture::http::Request;
use super::fixture::{Ground, settings};

fn form(path: &str, body: &str) -> Request {
    let request = Request::post(path).body("application/x-www-form-urlencoded", body);
    request.header("sec-fetch-site", "same-origin")
}

async fn page(ground: &Ground, path: &str) -> String {
    let answer = ground.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text()
}

const FAILING: &str = "name: failing
steps:
  first: { let: 1 }
  broken: { raise: { type: Broken, message: it broke }, needs: [first] }
";

#[tokio::test(flavor = "multi_thread")]
async fn a_tab_that_has_not_read_the_input_starts_the_run_again_with_the_same_one() {
    let ground = Ground::open().await;
    ground
        .deploy("name: echo\nsteps: { say: { return: \"${{ input }}\" } }\n")
        .await;
    let run = ground.start("echo", json!({ "count": 3 })).await;
    ground.ended(&run).await;
    for tab in ["steps", "logs", "journal"] {
        let shown = page(&ground, &format!("/runs/{run}/{tab}")).await;
        assert!(shown.contains("Run again…"), "{tab}");
        assert!(!shown.contains("name=\"input\""), "{tab} offers an input");
    }
    let shown = page(&ground, &format!("/runs/{run}")).await;
    assert!(shown.contains("textarea name=\"input\""), "{shown}");
    let again = ground.send(form(&format!("/runs/{run}/again"), "")).await;
    assert_eq!(again.status, 303, "{}", again.text());
    let again = again.header("location").unwrap();
    let ended = ground.ended(again.trim_start_matches("/runs/")).await;
    assert_eq!(ended["result"], json!({ "count": 3 }));
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_form_of_a_workflow_sends_what_was_chosen_and_nothing_that_was_not() {
    let ground = Ground::open().await;
    ground
        .deploy(
            "name: choose
input:
  type: object
  properties:
    size: { type: integer, enum: [1, 2, 3], default: 2 }
    colour: { enum: [red, green] }
    must: { type: string, enum: [a, b] }
    gift: { type: boolean }
    sure: { type: boolean }
  required: [must, sure]
steps: { say: { return: \"${{ input }}\" } }
",
        )
        .await;
    let shown = page(&ground, "/workflows/choose").await;
    for wanted in [
        "<select name=\"input.size\"><option value=\"\">–</option><option value=\"1\">1</option><option value=\"2\" selected>2</option>",
        "<select name=\"input.colour\"><option value=\"\">–</option><option value=\"&quot;red&quot;\">red</option>",
        "<select name=\"input.must\"><option value=\"&quot;a&quot;\">a</option>",
        "<select name=\"input.gift\"><option value=\"\">–</option><option value=\"true\">true</option>",
        "<input type=\"checkbox\" name=\"input.sure\"",
    ] {
        assert!(shown.contains(wanted), "no {wanted} in {shown}");
    }
    for (sent, wanted) in [
        (
            "input.size=3&input.colour=&input.must=%22b%22&input.gift=",
            json!({ "size": 3, "must": "b", "sure": false }),
        ),
        (
            "input.colour=%22green%22&input.must=a&input.gift=false&input.sure=true",
            json!({ "colour": "green", "must": "a", "gift": false, "sure": true }),
        ),
    ] {
        let started = ground.send(form("/workflows/choose/start", sent)).await;
        assert_eq!(started.status, 303, "{sent}: {}", started.text());
        let run = started.header("location").unwrap();
        let ended = ground.ended(run.trim_start_matches("/runs/")).await;
        assert_eq!(ended["result"], wanted, "{sent}");
    }
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_past_of_a_run_is_shown_as_it_was() {
    let ground = Ground::open().await;
    let waits = FAILING.replace("let: 1", "wait: go");
    ground.deploy(&waits).await;
    let run = ground.start("failing", json!(null)).await;
    ground.until(&run, "waiting").await;
    let go = json!({ "name": "go" });
    ground.post(&format!("/api/runs/{run}/signal"), go).await;
    let head = ground.ended(&run).await["head"].as_u64().unwrap();
    let now = page(&ground, &format!("/runs/{run}")).await;
    assert!(now.contains("Failed at broken") && now.contains("role=\"alert\""));
    let then = page(&ground, &format!("/runs/{run}?at=1")).await;
    for wanted in ["As it was after row 1, at ", "It was waiting; open: first."] {
        assert!(then.contains(wanted), "no {wanted} in {then}");
    }
    for later in [
        "Failed",
        "role=\"alert\"",
        "Finished",
        "data-events",
        "Retry from",
    ] {
        assert!(!then.contains(later), "{later} came later: {then}");
    }
    let last = page(&ground, &format!("/runs/{run}?at={head}")).await;
    assert!(last.contains("It had failed at broken.") && last.contains("it broke"));
    for beyond in [0, head + 1, 99] {
        let refused = ground.get(&format!("/runs/{run}?at={beyond}")).await;
        assert_eq!(refused.status, 400, "{}", refused.text());
        let wanted = format!("at: the run has rows 1 to {head}, not {beyond}");
        assert!(refused.text().contains(&wanted), "{}", refused.text());
    }
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_server_says_what_was_done() {
    let ground = Ground::open().await;
    ground.deploy(FAILING).await;
    let nightly = json!({ "name": "nightly", "workflow": "failing", "cron": "30 6 * * *" });
    assert_eq!(ground.post("/api/schedules", nightly).await.status, 201);
    let forged = page(&ground, "/schedules?said=Call+this+number").await;
    assert!(!forged.contains("Call this number"), "{forged}");
    let paused = ground.send(form("/schedules/nightly/pause", "")).await;
    let shown = page(&ground, paused.header("location").unwrap()).await;
    let wanted = "<div class=\"note\" role=\"status\">It starts nothing until it is resumed.</div>";
    assert!(shown.contains(wanted), "{shown}");
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_name_holds_is_one_word_of_a_command() {
    let ground = Ground::open().await;
    let name = "x'; $(touch y) #";
    let yaml = format!("name: \"{name}\"\nsteps: {{ a: {{ wait: go }} }}\n");
    ground.deploy(&yaml).await;
    let encoded = "x%27%3B%20%24%28touch%20y%29%20%23";
    let shown = page(&ground, &format!("/workflows/{encoded}")).await;
    let wanted = "data-copy=\"lope start 'x'\\''; $(touch y) #'\"";
    assert!(shown.contains(wanted), "{shown}");
    let run = ground.start(name, json!(null)).await;
    ground.until(&run, "waiting").await;
    let asked = page(&ground, &format!("/bulk/ask?workflow={encoded}")).await;
    let wanted = "{&quot;workflow&quot;:[&quot;x'\\''; $(touch y) #&quot;]}}' http://";
    assert!(asked.contains(wanted), "{asked}");
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_be_copied_goes_where_the_person_is_with_a_token() {
    let ground = Ground::with(settings("0.0.0.0:0")).await;
    let token = ground.token("boss", Right::Admin).await;
    let port = ground.server.address().port();
    let asked = Request::get("/bulk").token(&token);
    let asked = asked.header("host", &format!("127.0.0.1:{port}"));
    let shown = ground.send(asked).await.text();
    let wanted = format!(
        "curl -H &quot;authorization: Bearer $LOPE_TOKEN&quot; -H content-type:application/json -d '{{&quot;action&quot;:&quot;retry&quot;,&quot;filter&quot;:{{&quot;status&quot;:&quot;failed&quot;}}}}' http://127.0.0.1:{port}/api/bulk"
    );
    assert!(shown.contains(&wanted), "{wanted}\n{shown}");
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_box_finds_a_run_by_what_the_list_shows_and_says_what_cannot_be() {
    let ground = Ground::open().await;
    ground.deploy(FAILING).await;
    let run = ground.start("failing", json!(null)).await;
    ground.ended(&run).await;
    let end = &run[run.len() - 8..];
    assert!(page(&ground, "/").await.contains(&format!("…{end}")));
    for text in [end.to_owned(), format!("%E2%80%A6{end}")] {
        let found = ground.get(&format!("/?q={text}")).await;
        let wanted = format!("/runs/{run}");
        assert_eq!(found.header("location"), Some(wanted.as_str()), "{text}");
    }
    let shown = ground.get("/?q=other&workflow=failing").await;
    assert_eq!(shown.status, 400);
    let shown = shown.text();
    let wanted = "No run fits: it has one workflow, not both 'failing' and 'other'.";
    assert!(shown.contains(wanted) && !shown.contains(&run), "{shown}");
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_asks_for_nothing_is_answered_with_a_page() {
    let mut behind = settings("127.0.0.1:0");
    behind.base = "/lope".to_owned();
    let ground = Ground::with(behind).await;
    let root = ground.get("/lope").await;
    assert_eq!(
        (root.status, root.header("location")),
        (303, Some("/lope/"))
    );
    let asked = |path: &str| Request::get(path).header("accept", "text/html,*/*");
    let missing = ground.send(asked("/lope/nothing")).await;
    assert_eq!(missing.status, 404);
    assert_eq!(
        missing.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(missing.text().contains("there is no path '/lope/nothing'"));
    for program in [Request::get("/lope/nothing"), asked("/lope/api/nothing")] {
        let answer = ground.send(program).await;
        assert_eq!(answer.status, 404);
        assert_eq!(answer.json()["error"]["kind"], "not_found");
    }
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_runners_schedules_timers_and_versions_have_pages_of_their_own() {
    let ground = Ground::open().await;
    ground.deploy(FAILING).await;
    let run = ground.start("failing", json!(null)).await;
    ground.ended(&run).await;
    ground
        .deploy("name: failing\nsteps: { first: { wait: go } }\n")
        .await;
    let second = ground.start("failing", json!(null)).await;
    ground.until(&second, "waiting").await;
    let queue = page(&ground, "/queues/default").await;
    for wanted in [
        "Queue default",
        "Oldest due",
        "1 of the runs of the last 5 minutes",
    ] {
        assert!(queue.contains(wanted), "no {wanted} in {queue}");
    }
    let unserved = "No runner that is up serves it.";
    assert!(!queue.contains(unserved), "{queue}");
    assert!(page(&ground, "/queues/other").await.contains(unserved));
    assert!(
        page(&ground, "/queues")
            .await
            .contains("href=\"/queues/default\"")
    );
    let runners = page(&ground, "/runners").await;
    assert!(
        runners.contains("data-every=\"5\""),
        "it looks again by itself"
    );
    let path = runners
        .split("href=\"")
        .find(|it| it.starts_with("/runners/"));
    let path = path.unwrap().split('"').next().unwrap();
    assert!(page(&ground, path).await.contains("Heartbeat"));
    assert_eq!(ground.get("/runners/nobody").await.status, 404);
    let nightly = json!({ "name": "nightly", "workflow": "failing", "cron": "30 6 * * *" });
    assert_eq!(ground.post("/api/schedules", nightly).await.status, 201);
    let schedule = page(&ground, "/schedules/nightly").await;
    assert_eq!(
        schedule.matches(" 06:30:00.000Z</time>").count(),
        5,
        "{schedule}"
    );
    assert_eq!(ground.get("/schedules/none").await.status, 404);
    let later = json!({ "payload": "tea", "at": "2h" });
    ground.post("/api/mailboxes/9/messages", later).await;
    let mailbox = page(&ground, "/mailboxes/9").await;
    assert!(
        mailbox.contains("1 timer armed.") && mailbox.contains("tea"),
        "{mailbox}"
    );
    let workflow = page(&ground, "/workflows/failing").await;
    let paths = workflow
        .split("href=\"")
        .filter(|it| it.starts_with("/workflows/failing/versions/"));
    let paths: Vec<&str> = paths.map(|it| it.split('"').next().unwrap()).collect();
    assert_eq!(paths.len(), 2, "{workflow}");
    let changed = page(&ground, paths[0]).await;
    assert!(
        changed.contains("<del>- ") && changed.contains("it broke"),
        "{changed}"
    );
    assert!(
        page(&ground, paths[1])
            .await
            .contains("No version before it is known.")
    );
    assert_eq!(
        ground.get("/workflows/failing/versions/none").await.status,
        404
    );
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_run_is_fed_from_its_page_and_a_time_in_a_sentence_is_one() {
    let ground = Ground::open().await;
    ground
        .deploy(
            "name: wait\nsteps: { a: { wait: go }, b: { return: \"${{ input }}\", needs: [a] } }\n",
        )
        .await;
    let open = json!({ "workflow": "wait", "input": 1, "open": true });
    let open = ground.post("/api/runs", open).await.json();
    let open = open["run_id"].as_str().unwrap();
    let closed = ground.start("wait", json!(1)).await;
    for run in [open, &closed] {
        ground.until(run, "waiting").await;
    }
    let shown = page(&ground, &format!("/runs/{closed}")).await;
    assert!(!shown.contains("Feed…"), "{shown}");
    let sentence = shown.split("class=\"sentence\"").nth(1).unwrap();
    let sentence = sentence.split("</p>").next().unwrap();
    assert!(
        sentence.contains("<time ") && sentence.contains("data-ago"),
        "{sentence}"
    );
    ground
        .deploy("name: nap\nsteps: { rest: { sleep: 2h } }\n")
        .await;
    let napping = ground.start("nap", json!(null)).await;
    ground.until(&napping, "sleeping").await;
    let shown = page(&ground, &format!("/runs/{napping}")).await;
    let sentence = shown.split("class=\"sentence\"").nth(1).unwrap();
    let sentence = sentence.split("</p>").next().unwrap();
    assert!(
        sentence.contains("data-ahead>in 1 h 59 min</time>)"),
        "{sentence}"
    );
    let shown = page(&ground, &format!("/runs/{open}")).await;
    assert!(shown.contains("Feed…"), "{shown}");
    let fed = ground
        .send(form(&format!("/runs/{open}/feed"), "input=7"))
        .await;
    assert_eq!(fed.status, 303, "{}", fed.text());
    let shown = page(&ground, fed.header("location").unwrap()).await;
    assert!(shown.contains("The input was fed to the run."), "{shown}");
    ground.close().await;
}

/// A run whose first stop is a wait says what it waits for, and all of it.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_sentence_is_the_most_telling_reason_and_the_others_are_there() {
    let ground = Ground::open().await;
    let yaml = "name: ask\nsteps: { prep: { let: 1 }, approval: { wait: approved, timeout: 2d, needs: [prep] }, other: { wait: stay, needs: [prep] } }\n";
    ground.deploy(yaml).await;
    let run = ground.start("ask", json!(1)).await;
    ground.until(&run, "waiting").await;
    let shown = page(&ground, &format!("/runs/{run}")).await;
    assert!(!shown.contains("may not begin"), "{shown}");
    let why = shown.split("data-part=\"why\"").nth(1).unwrap();
    let (sentence, rest) = why.split_once("</p>").unwrap();
    let said = "Step approval waits for the signal 'approved' since ";
    assert!(
        sentence.contains(said) && sentence.contains(", at most until "),
        "{sentence}"
    );
    let (others, _) = rest.split_once("</details>").unwrap();
    let list = "</summary><ul><li>Step other waits for the signal 'stay' since ";
    assert!(
        others.starts_with("<details><summary>and ") && others.contains(list),
        "{others}"
    );
    let reasons = ground.get(&format!("/api/runs/{run}/why")).await.json();
    let words = reasons["reasons"].as_array().unwrap().iter();
    let words: Vec<_> = words.map(|reason| reason["why"].clone()).collect();
    assert_eq!(words[..2], ["signal", "signal"]);
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_an_attempt_under_way_is_followed() {
    let ground = Ground::open().await;
    let gate = ground.folder.path().join("gate");
    let yaml = format!(
        "name: slow\nsteps: {{ work: {{ run: \"echo begun; while ! test -e {}; do sleep 0.05; done; echo over\" }} }}\n",
        gate.display()
    );
    ground.deploy(&yaml).await;
    let run = ground.start("slow", json!(null)).await;
    let path = format!("/runs/{run}/logs");
    let shown = loop {
        let shown = page(&ground, &path).await;
        if shown.contains(" out begun\n</pre>") {
            break shown;
        }
    };
    // A time, the word, and the end of the line.
    let after = "2026-11-17T23:45:43.789Z out begun\n".len();
    let wanted = format!(
        "<pre data-log=\"/api/runs/{run}/logs/events?execution=work&amp;attempt=1&amp;after={after}\">"
    );
    assert!(shown.contains(&wanted), "{shown}");
    std::fs::write(&gate, "").unwrap();
    ground.ended(&run).await;
    let shown = page(&ground, &path).await;
    assert!(
        !shown.contains("data-log") && shown.contains(" out over\n"),
        "{shown}"
    );
    ground.close().await;
}
