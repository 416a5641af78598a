//! The dashboard without a browser: every page is there, says what it should, and shows what
//! strangers wrote as text.

use lope::tokens::Right;
use serde_json::{Value as Json, json};

use super::fixture::http::{HttpAnswer, Request};
use super::fixture::{Ground, settings};

const HOSTILE: &str = "<script>alert(1)</script>";

async fn page(ground: &Ground, path: &str) -> HttpAnswer {
    let answer = ground.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    let said = answer.header("content-type").unwrap();
    assert!(said.starts_with("text/html"), "{path}: {said}");
    let text = answer.text();
    assert!(!text.contains(" style="), "{path} has an inline style");
    assert!(!text.contains("<style"), "{path} has an inline style");
    let scripts = text.matches("<script").count();
    assert_eq!(scripts, 1, "{path}: the one script is a file");
    assert!(text.len() < 400_000, "{path} has {} bytes", text.len());
    answer
}

fn form(path: &str, body: &str) -> Request {
    let request = Request::post(path).body("application/x-www-form-urlencoded", body);
    request.header("sec-fetch-site", "same-origin")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_starts_a_workflow_from_its_form_reads_the_failure_and_runs_it_again() {
    let ground = Ground::open().await;
    let empty = page(&ground, "/").await.text();
    assert!(
        empty.contains("lope start examples/hello.yaml"),
        "an empty page teaches"
    );
    ground
        .deploy(
            "name: order
input: { type: object, properties: { good: { type: boolean }, count: { type: integer } }, required: [count, good] }
steps:
  check: { run: \"echo looking; test '${{ input.good }}' = true\" }
  done: { return: \"${{ input.count }}\", needs: [check] }
",
        )
        .await;
    assert!(page(&ground, "/workflows").await.text().contains("order"));
    let shown = page(&ground, "/workflows/order").await.text();
    assert!(
        shown.contains("name=\"input.count\"") && shown.contains("type=\"number\""),
        "{shown}"
    );
    let started = ground
        .send(form("/workflows/order/start", "input.count=3"))
        .await;
    assert_eq!(started.status, 303, "{}", started.text());
    let path = started.header("location").unwrap().to_owned();
    let run = path.trim_start_matches("/runs/").to_owned();
    assert_eq!(ground.ended(&run).await["status"], "failed");
    let failed = page(&ground, &path).await.text();
    assert!(failed.contains("Failed at check"), "{failed}");
    assert!(
        failed.contains("ExitStatus") && failed.contains("looking"),
        "error and log, without a click"
    );
    assert!(failed.contains("lope-graph") && failed.contains("class=\"timeline\""));
    for tab in [
        "steps",
        "steps?execution=check",
        "steps?status=failed",
        "logs",
        "journal",
    ] {
        assert!(
            page(&ground, &format!("{path}/{tab}"))
                .await
                .text()
                .contains("check"),
            "{tab}"
        );
    }
    assert!(
        page(&ground, &format!("{path}?at=1"))
            .await
            .text()
            .contains("As it was after row 1")
    );
    let edited = "input=%7B%22good%22%3Atrue%2C%22count%22%3A4%7D";
    let again = ground.send(form(&format!("{path}/again"), edited)).await;
    let again = again.header("location").unwrap().to_owned();
    let run = again.trim_start_matches("/runs/").to_owned();
    assert_eq!(ground.ended(&run).await["result"], 4);
    assert!(page(&ground, &again).await.text().contains("Completed in"));
    let listed = page(&ground, "/?status=failed").await.text();
    assert!(
        listed.contains("failed") && !listed.contains(&again),
        "{listed}"
    );
    let found = ground.get(&format!("/?q={run}")).await;
    assert_eq!(
        (found.status, found.header("location")),
        (303, Some(again.as_str()))
    );
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_run_says_why_and_is_signalled_paused_and_cancelled_by_its_buttons() {
    let ground = Ground::open().await;
    ground
        .deploy("name: approve\nsteps: { approval: { wait: approved } }\n")
        .await;
    let run = ground.start("approve", json!(null)).await;
    ground.until(&run, "waiting").await;
    let shown = page(&ground, &format!("/runs/{run}")).await.text();
    assert!(
        shown.contains("approved") && shown.contains("data-events=\"/api/runs/"),
        "{shown}"
    );
    for (verb, body, status) in [("pause", "", "paused"), ("resume", "", "waiting")] {
        let answer = ground
            .send(form(&format!("/runs/{run}/{verb}"), body))
            .await;
        assert_eq!(answer.status, 303, "{verb}: {}", answer.text());
        ground.until(&run, status).await;
    }
    let signal = form(
        &format!("/runs/{run}/signal"),
        "name=approved&value=%22yes%22",
    );
    assert_eq!(ground.send(signal).await.status, 303);
    assert_eq!(ground.ended(&run).await["result"], "yes");
    let late = ground.send(form(&format!("/runs/{run}/cancel"), "")).await;
    assert_eq!(late.status, 409);
    assert!(late.text().contains("has ended"), "{}", late.text());
    let bad = ground.send(form(&format!("/runs/{run}/explode"), "")).await;
    assert_eq!(bad.status, 404);
    for wanted in ["<title>Not Found · Lope</title>", "aria-label=\"Sections\""] {
        assert!(bad.text().contains(wanted), "{}", bad.text());
    }
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_queues_runners_and_mailboxes_have_pages() {
    let ground = Ground::open().await;
    for path in [
        "/schedules",
        "/queues",
        "/runners",
        "/mailboxes",
        "/mailboxes/7",
    ] {
        page(&ground, path).await;
    }
    assert!(
        page(&ground, "/runners")
            .await
            .text()
            .contains("1 runner is up")
    );
    let mailbox = ground.client.mailbox().await.unwrap();
    let message = lope::mailbox::frame::Message::new(
        lope::mailbox::frame::MessageKind::Command,
        "7".parse().unwrap(),
        b"first",
        HOSTILE.as_bytes(),
    );
    mailbox.send(&message).await.unwrap();
    let shown = page(&ground, "/mailboxes/7").await.text();
    assert!(shown.contains("&lt;script&gt;"), "{shown}");
    assert_eq!(
        ground
            .send(form("/mailboxes/7/replay", "seq=99"))
            .await
            .status,
        404
    );
    assert_eq!(
        ground.send(form("/schedules/none/pause", "")).await.status,
        404
    );
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_strangers_wrote_is_shown_as_text() {
    let ground = Ground::open().await;
    let yaml = format!(
        "name: \"{HOSTILE}\"\nsteps:\n  say: {{ run: \"printf '\\\\033[31m<img src=x onerror=alert(1)>\\\\n'\" }}\n  done: {{ raise: {{ type: Bad, message: \"<b>{HOSTILE}\" }}, needs: [say] }}\n"
    );
    let deployed = ground
        .send(Request::post("/api/workflows").body("application/yaml", yaml))
        .await;
    assert_eq!(deployed.status, 201, "{}", deployed.text());
    let body = json!({ "workflow": HOSTILE, "input": { "x": HOSTILE }, "key": HOSTILE, "tags": { "t": HOSTILE } });
    let run = ground.post("/api/runs", body).await.json();
    let run = run["run_id"].as_str().unwrap().to_owned();
    ground.ended(&run).await;
    let name = "%3Cscript%3Ealert%281%29%3C%2Fscript%3E";
    for path in [
        "/".to_owned(),
        "/workflows".to_owned(),
        format!("/workflows/{name}"),
        format!("/runs/{run}"),
        format!("/runs/{run}/logs"),
        format!("/runs/{run}/steps?execution=say"),
        format!("/runs/{run}/journal"),
        format!("/?q={name}"),
    ] {
        let answer = ground.get(&path).await;
        if answer.status == 303 {
            continue;
        }
        let text = page(&ground, &path).await.text();
        assert!(
            !text.contains(HOSTILE) && !text.contains("<img src=x"),
            "{path}"
        );
    }
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_log_in_with_a_token_and_out_again() {
    let ground = Ground::with(settings("0.0.0.0:0")).await;
    let sent = ground.get("/workflows").await;
    assert_eq!(
        (sent.status, sent.header("location")),
        (303, Some("/login?to=%2Fworkflows"))
    );
    let sent = ground.get("/?status=failed&q=x").await;
    let kept = "/login?to=%2F%3Fstatus%3Dfailed%26q%3Dx";
    assert_eq!(sent.header("location"), Some(kept));
    page(&ground, "/login").await;
    let wrong = form("/login", "token=lope_wrong&to=%2Fworkflows");
    let wrong = ground.send(wrong).await;
    assert_eq!(wrong.status, 403);
    for wanted in [
        "no such token",
        "<input type=\"password\" name=\"token\"",
        "<input type=\"hidden\" name=\"to\" value=\"/workflows\">",
    ] {
        assert!(wrong.text().contains(wanted), "{}", wrong.text());
    }
    let token = ground.token("reader", Right::Read).await;
    let entered = ground
        .send(form("/login", &format!("token={token}&to=%2Fworkflows")))
        .await;
    assert_eq!(
        (entered.status, entered.header("location")),
        (303, Some("/workflows"))
    );
    let cookie = entered.header("set-cookie").unwrap();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"),
        "{cookie}"
    );
    let pair = cookie.split(';').next().unwrap();
    let with = |path: &str| Request::get(path).header("cookie", pair);
    assert_eq!(ground.send(with("/workflows")).await.status, 200);
    // Whoever only reads is offered nothing else, and gets nothing else.
    ground
        .client
        .deploy(&lope::workflows::read("name: w\nsteps: { a: { wait: x } }\n", "w").unwrap())
        .await
        .unwrap();
    let shown = ground.send(with("/workflows/w")).await.text();
    assert!(!shown.contains("Start a run"), "{shown}");
    let post = form("/workflows/w/start", "input=null").header("cookie", pair);
    assert_eq!(ground.send(post).await.status, 403);
    let elsewhere = ground
        .send(form(
            "/login",
            &format!("token={token}&to=%2F%2Fevil.example"),
        ))
        .await;
    assert_eq!(elsewhere.header("location"), Some("/"));
    let left = ground.send(form("/logout", "")).await;
    assert!(left.header("set-cookie").unwrap().contains("Max-Age=0"));
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_every_link_begins_with_the_base() {
    let mut based = settings("127.0.0.1:0");
    based.base = "/lope".to_owned();
    let ground = Ground::with(based).await;
    let answer = ground.get("/lope/").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    for link in text
        .split("href=\"")
        .skip(1)
        .chain(text.split("src=\"").skip(1))
    {
        let link = link.split('"').next().unwrap();
        assert!(
            link.starts_with("/lope/") || link.starts_with('#') || link.starts_with("data:"),
            "{link}"
        );
    }
    assert_eq!(ground.get("/lope/api/runs").await.status, 200);
    assert_eq!(ground.get("/lope/assets/app.css").await.status, 200);
    ground.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_dashboard_there_is_the_api_alone() {
    let mut bare = settings("127.0.0.1:0");
    bare.dashboard = false;
    let ground = Ground::with(bare).await;
    assert_eq!(ground.get("/").await.status, 404);
    assert_eq!(ground.get("/api/runs").await.status, 200);
    ground.close().await;
}

/// The page of a long run reads a bounded part of its history; its journal is read page by page, and
/// says the same as when all of it is folded.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_run_is_shown_without_folding_all_of_its_journal() {
    let ground = Ground::open().await;
    ground
        .deploy(
            "name: long\nsteps:\n  all:\n    each: \"${{ input }}\"\n    as: number\n    parallel: 20\n    steps:\n      one: { js: \"({ n }) => n\", with: { n: \"${{ number }}\" } }\n  inner:\n    if: \"${{ size(all) > 3 }}\"\n    steps:\n      last: { js: \"() => 7\" }\n    needs: [all]\n  done: { return: \"${{ size(all) }}\", needs: [inner] }\n",
        )
        .await;
    let numbers: Vec<u32> = (0..2_500).collect();
    let run = ground.start("long", json!(numbers)).await;
    let ended = ground.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["result"]),
        (&json!("completed"), &json!(2_500))
    );
    let page = ground.get(&format!("/runs/{run}")).await;
    let text = page.text();
    assert_eq!(page.status, 200, "{text}");
    assert!(text.contains("Completed in"), "{text}");
    assert!(page.body.len() < 1_000_000, "{} bytes", page.body.len());
    let answer = ground.get(&format!("/api/runs/{run}")).await;
    assert!(answer.body.len() < 1_000_000, "{} bytes", answer.body.len());
    let shown = answer.json();
    let from = shown["executions_from"].as_u64().unwrap();
    assert!(from > 0, "only what came since a snapshot is read");
    assert_eq!(
        (&shown["steps"], &shown["executions_next"]),
        (&json!(null), &json!(null))
    );
    let executions = shown["executions"].as_array().unwrap();
    assert!((1..=500).contains(&executions.len()));
    assert_eq!(executions.last().unwrap()["step"], "done");
    let steps = ground.get(&format!("/runs/{run}/steps")).await;
    assert_eq!(steps.status, 200, "{}", steps.text());
    let record = ground
        .client
        .run(run.parse().unwrap())
        .await
        .unwrap()
        .unwrap();
    assert!(record.head > 2_500);
    let folded = ground.client.journal(&record).await.unwrap();
    let mut read = Vec::new();
    while let Some(page) = {
        let after = read
            .last()
            .map_or(0, |row: &lope::runs::JournalEntry| row.seq);
        let page = ground
            .client
            .journal_page(&record, after, 700)
            .await
            .unwrap();
        (!page.is_empty()).then_some(page)
    } {
        read.extend(page);
    }
    assert_eq!(read, folded);
    ground.close().await;
}

/// An answer about a run stays small, whatever its steps gave; what was left out is read by itself.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_much_for_an_answer_is_left_out_and_said() {
    let ground = Ground::open().await;
    ground
        .deploy("name: fat\nsteps:\n  all:\n    each: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n    as: number\n    steps:\n      one: { js: \"({ n }) => 'x'.repeat(n < 3 ? 200000 : 60000)\", with: { n: \"${{ number }}\" } }\n  done: { return: 1, needs: [all] }\n")
        .await;
    let run = ground.start("fat", json!(null)).await;
    assert_eq!(ground.ended(&run).await["status"], "completed");
    for path in ["", "/executions"] {
        let answer = ground.get(&format!("/api/runs/{run}{path}")).await;
        assert!(answer.body.len() < 1_000_000, "{} bytes", answer.body.len());
        let shown = answer.json();
        let all = shown["executions"].as_array().unwrap();
        let ones = all.iter().filter(|it| it["step"] == "all/one");
        let ones: Vec<&Json> = ones.collect();
        assert_eq!(ones[0]["output_bytes"], 200_002, "{path}");
        assert!(ones[0].get("output").is_none());
        assert_eq!(ones[2]["output"].as_str().unwrap().len(), 60_000);
    }
    let value = format!("/api/runs/{run}/value?of=output&execution=all/0/one&limit=10");
    let piece = ground.get(&value).await;
    assert_eq!(piece.status, 200, "{}", piece.text());
    ground.close().await;
}
