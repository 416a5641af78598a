//! What a workflow says must not be shown is in no response, page, event or log, whatever is asked.

use std::collections::BTreeSet;

use lope_server::openapi_document;
use serde_json::{Value as Json, json};

use super::events::Listener;
use super::fixture::Ground;
use super::fixture::http::Request;

const PAY: &str = "name: pay
redact: [input.card, input.pins.*.code, charge.token, result.receipt]
steps:
  charge: { run: \"printf '{\\\"token\\\": \\\"tok-%d\\\", \\\"ok\\\": true}' $((7000000 + 654321))\" }
  tell:
    run: \"echo paying with ${{ input.card.number }} and ${{ charge.token }} for ${{ input.user }}\"
    needs: [charge]
  kept: { let: \"${{ input.pins }}\" }
  check:
    if: \"${{ input.user == 'eve' }}\"
    steps:
      stolen:
        raise: { type: Stolen, message: \"card ${{ input.card.number }} of ${{ input.user }} is stolen\" }
    needs: [tell]
  done:
    return: \"${{ {'receipt': 'rcpt-' + string(size(tell) * 0 + 4999 + 5000), 'told': tell, 'user': input.user, 'pins': kept} }}\"
    needs: [check, kept]
";

/// Everything that is to be hidden.
const SECRETS: [&str; 5] = [
    "4111222233334444",
    "tok-7654321",
    "rcpt-9999",
    "08/29",
    "73591",
];

fn input(user: &str) -> Json {
    json!({
        "user": user,
        "card": { "number": "4111222233334444", "until": "08/29" },
        "pins": [{ "code": 73591, "name": "first" }],
    })
}

/// Every path that tells something about one run, and the lists that have it.
fn paths(run: &str) -> Vec<String> {
    let document = openapi_document();
    let reading = document["paths"].as_object().unwrap().iter();
    let reading = reading.filter(|(_, of)| !of["get"].is_null());
    let reading = reading.map(|(path, _)| path.clone());
    let mut paths: Vec<String> = reading
        .filter(|path| path.starts_with("/api/runs") && !path.ends_with("/events"))
        .map(|path| path.replace("{id}", run))
        .collect();
    for of in ["input", "result", "error"] {
        paths.push(format!("/api/runs/{run}/value?of={of}"));
    }
    for step in ["charge", "tell", "kept", "done"] {
        paths.push(format!("/api/runs/{run}/value?of=output&execution={step}"));
        paths.push(format!("/api/runs/{run}/value?of=input&execution={step}"));
        paths.push(format!("/runs/{run}/steps?execution={step}"));
    }
    for tab in ["", "/steps", "/logs", "/journal", "/compare"] {
        paths.push(format!("/runs/{run}{tab}"));
    }
    paths.push(format!("/runs/{run}/compare?with={run}"));
    paths.push(format!("/runs/{run}?at=3"));
    paths.push("/".to_owned());
    paths.push("/api/workflows/pay".to_owned());
    paths
}

fn check(place: &str, text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{place} shows {secret}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_redacted_is_shown_nowhere() {
    let ground = Ground::open().await;
    ground.deploy(PAY).await;
    let mut feed = Listener::open(&ground, Request::get("/api/events")).await;
    let good = ground.start("pay", input("ada")).await;
    let bad = ground.start("pay", input("eve")).await;
    assert_eq!(ground.ended(&good).await["status"], "completed");
    assert_eq!(ground.ended(&bad).await["status"], "failed");
    for run in [&good, &bad] {
        for path in paths(run) {
            let answer = ground.get(&path).await;
            check(&path, &answer.text());
        }
        for events in [
            format!("/api/runs/{run}/events"),
            format!("/api/runs/{run}/logs/events?execution=charge"),
            format!("/api/runs/{run}/logs/events?execution=tell"),
        ] {
            let answer = ground.get(&events).await;
            check(&events, &answer.text());
            assert!(answer.text().contains("event: end"), "{events}");
        }
    }
    // Nor does the feed of all runs show it, up to the end of both.
    let mut over = BTreeSet::new();
    while over.len() < 2 {
        let told = feed.next().await.unwrap();
        check("/api/events", &told.data.to_string());
        if ["completed", "failed"]
            .iter()
            .any(|it| told.data["status"] == **it)
        {
            over.insert(told.data["run_id"].to_string());
        }
    }
    // What is not hidden is there.
    let shown = ground.get(&format!("/api/runs/{good}")).await.json();
    assert_eq!(shown["result"]["user"], "ada");
    assert_eq!(shown["result"]["receipt"], "***");
    assert_eq!(shown["result"]["told"], "paying with *** and *** for ada");
    assert_eq!(
        shown["result"]["pins"],
        json!([{ "code": "***", "name": "first" }])
    );
    let failed = ground.get(&format!("/api/runs/{bad}")).await.json();
    assert_eq!(failed["error"]["message"], "card *** of eve is stolen");
    let logs = ground.get(&format!("/api/runs/{good}/logs")).await.text();
    assert!(
        logs.contains("paying with *** and *** for ada") && logs.contains("not shown"),
        "{logs}"
    );
    let given = format!("/api/runs/{good}/value?of=input&execution=tell");
    let given = ground.get(&given).await.text();
    assert!(given.contains("paying with *** and *** for ada"), "{given}");
    let page = ground.get(&format!("/runs/{good}")).await.text();
    assert!(page.contains("ada") && page.contains("***"), "{page}");
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_finds_out_by_searching_or_by_running_again() {
    let ground = Ground::open().await;
    ground.deploy(PAY).await;
    let run = ground.start("pay", input("ada")).await;
    ground.ended(&run).await;
    let found = |search: &'static str| {
        let ground = &ground;
        async move {
            let page = ground
                .get(&format!("/api/runs?input={search}"))
                .await
                .json();
            page["runs"].as_array().unwrap().len()
        }
    };
    assert_eq!(found("user:ada").await, 1);
    for search in [
        "card.number:4111222233334444",
        "card.until:08/29",
        "pins.code:73591",
        "pins.0.code:73591",
    ] {
        assert_eq!(found(search).await, 0, "{search}");
    }
    // The form has the hidden input; sent back, the new run has what the old one had, edited where
    // it was edited.
    let edited =
        json!({ "user": "bob", "card": "***", "pins": [{ "code": "***", "name": "first" }] });
    let body: String = form_urlencoded::Serializer::new(String::new())
        .append_pair("input", &edited.to_string())
        .finish();
    let again = Request::post(&format!("/runs/{run}/again"))
        .body("application/x-www-form-urlencoded", body);
    let answer = ground.send(again).await;
    let next = answer.header("location").unwrap();
    let next = next.trim_start_matches("/runs/").to_owned();
    ground.ended(&next).await;
    let record = ground.client.run(next.parse().unwrap()).await.unwrap();
    let given = ground.client.input(&record.unwrap()).await.unwrap();
    assert_eq!(json!(given), input("bob"));
    // A fork has no input of its own to tell what is to be hidden, so nothing of it is shown.
    let fork = ground
        .post(&format!("/api/runs/{run}/fork"), json!({ "at": 1 }))
        .await
        .json();
    let fork = fork["run_id"].as_str().unwrap().to_owned();
    ground.ended(&fork).await;
    for path in paths(&fork) {
        let answer = ground.get(&path).await;
        check(&path, &answer.text());
    }
    ground.close().await;
}

const LEAKS: &str = "name: leaks
redact: [input.users.secret]
steps:
  tell: { run: \"echo ${{ input.users[0].secret }} >&2; exit 4\" }
";

/// A name leads through lists; what a failed step wrote is not in the export either; and whoever
/// edits a list with hidden values in it gives nobody the value of another.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_hidden_in_a_list_stays_with_its_owner() {
    let ground = Ground::open().await;
    ground.deploy(LEAKS).await;
    let user = |name: &str, secret: &str| json!({ "name": name, "secret": secret });
    let users = json!({ "users": [user("ann", "ann-secret"), user("bob", "bob-secret")] });
    let run = ground.start("leaks", users).await;
    assert_eq!(ground.ended(&run).await["status"], "failed");
    for path in paths(&run) {
        let text = ground.get(&path).await.text();
        assert!(!text.contains("-secret"), "{path} shows it: {text}");
    }
    let again = |users: Json| {
        let body: String = form_urlencoded::Serializer::new(String::new())
            .append_pair("input", &json!({ "users": users }).to_string())
            .finish();
        let kind = "application/x-www-form-urlencoded";
        Request::post(&format!("/runs/{run}/again")).body(kind, body)
    };
    for users in [
        json!([user("bob", "***")]),
        json!([user("ann", "***"), user("bob", "***"), user("eve", "***")]),
    ] {
        let refused = ground.send(again(users)).await;
        assert_eq!(refused.status, 400, "{}", refused.text());
    }
    let edited = json!([user("ann", "new"), user("bob", "***")]);
    let next = ground.send(again(edited)).await;
    let next = next.header("location").unwrap();
    let next = next.trim_start_matches("/runs/").parse().unwrap();
    let record = ground.client.run(next).await.unwrap();
    let given = ground.client.input(&record.unwrap()).await.unwrap();
    let expected = json!({ "users": [user("ann", "new"), user("bob", "bob-secret")] });
    assert_eq!(json!(given), expected);
    let found = ground.get("/api/runs?input=users.secret:bob-secret").await;
    assert_eq!(found.json()["runs"], json!([]));
    ground.close().await;
}

/// Steps whose names say less than they seem to as names of files.
fn odd_names(long: &str) -> String {
    let gives = |word: &str| {
        format!(
            "run: \"echo pla''in words of {word} >&2; printf '{{\\\"token\\\": \\\"tok-1234567\\\"}}'\""
        )
    };
    let says = |word: &str| format!("run: \"echo shown words of {word} >&2\"");
    format!(
        "name: odd\nredact: [schlüssel.token, {long}.token, pay.v2.token, check/inner.token]\nsteps:\n  \
         schlüssel: {{ {} }}\n  {long}: {{ {} }}\n  pay.v2: {{ {} }}\n  \
         check:\n    if: \"${{{{ 1 > 2 }}}}\"\n    steps: {{ inner: {{ let: {{ token: 1 }} }} }}\n    else: {{ inner: {{ {} }} }}\n  \
         schritt_ä: {{ {} }}\n  schritt_ö: {{ {} }}\n  \
         kaputt_ü:\n    run: \"echo broken words >&2; exit 3\"\n    \
         needs: [schlüssel, {long}, pay.v2, check, schritt_ä, schritt_ö]\n",
        gives("one"),
        gives("two"),
        gives("three"),
        gives("four"),
        says("a"),
        says("o"),
    )
}

/// "The log of a step whose own output is redacted is not shown at all", whatever its name; and each
/// log is that of its own step, found by its own path.
#[tokio::test(flavor = "multi_thread")]
async fn logs_of_steps_with_odd_names_are_hidden_and_found_like_all_others() {
    let ground = Ground::open().await;
    let long = format!("long_{}", "z".repeat(160));
    ground.deploy(&odd_names(&long)).await;
    let run = ground.start("odd", json!({})).await;
    assert_eq!(ground.ended(&run).await["status"], "failed");
    let all = ground.get(&format!("/api/runs/{run}/logs")).await.json();
    let all = all["logs"].as_array().unwrap().iter();
    let mut told: Vec<(&str, bool)> = Vec::new();
    for log in all.clone() {
        let text = log["text"].as_str().unwrap();
        told.push((
            log["execution"].as_str().unwrap(),
            text.contains("not shown"),
        ));
    }
    told.sort_unstable();
    let mut wanted = vec![
        ("check/:else/inner", true),
        ("kaputt_ü", false),
        (&*long, true),
        ("pay.v2", true),
        ("schlüssel", true),
        ("schritt_ä", false),
        ("schritt_ö", false),
    ];
    wanted.sort_unstable();
    assert_eq!(told, wanted);
    let mut places = [
        "/api/runs/{}/logs",
        "/api/runs/{}/logs/text",
        "/runs/{}/logs",
    ]
    .map(|place| place.replace("{}", &run))
    .to_vec();
    for (execution, is_hidden) in &wanted {
        let named: String = form_urlencoded::byte_serialize(execution.as_bytes()).collect();
        let path = format!("/api/runs/{run}/logs?execution={named}");
        let found = ground.get(&path).await.json();
        let found = found["logs"].as_array().unwrap();
        assert_eq!(found.len(), 1, "{execution}");
        assert_eq!(found[0]["execution"], *execution);
        let text = found[0]["text"].as_str().unwrap();
        let lines = text.matches("words").count();
        assert_eq!(lines, usize::from(!is_hidden), "{execution}: {text}");
        for place in ["logs/text", "logs/events"] {
            let path = format!("/api/runs/{run}/{place}?execution={named}&attempt=1");
            let text = ground.get(&path).await.text();
            assert_eq!(text.contains("words"), !is_hidden, "{path}: {text}");
            places.push(path);
        }
        places.push(format!("/runs/{run}/steps?execution={named}"));
    }
    for place in places {
        let text = ground.get(&place).await.text();
        assert!(!text.contains("plain words"), "{place}: {text}");
    }
    let page = ground.get(&format!("/runs/{run}")).await.text();
    let beside = "Last lines of its log";
    assert!(
        page.contains(beside) && page.contains("broken words"),
        "{page}"
    );
    ground.close().await;
}
