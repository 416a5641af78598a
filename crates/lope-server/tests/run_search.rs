//! The box and the presets above the list of runs: what they are asked for is what is listed.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::fixture::Ground;

const ECHO: &str = "name: echo\nsteps: { done: { return: \"${{ input }}\" } }\n";
const FAILING: &str =
    "name: failing\nsteps: { broken: { raise: { type: Broken, message: it broke } } }\n";
const APPROVE: &str = "name: approve\nsteps: { approval: { wait: approved } }\n";

/// The runs that a page lists.
async fn listed(ground: &Ground, path: &str) -> BTreeSet<String> {
    let answer = ground.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    let text = answer.text();
    let links = text.split("href=\"/runs/").skip(1);
    links
        .map(|link| link.split('"').next().unwrap().to_owned())
        .collect()
}

async fn begun(ground: &Ground, body: Json) -> String {
    let answer = ground.post("/api/runs", body).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["run_id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_box_takes_a_key_and_words_and_each_preset_lists_what_it_says() {
    let ground = Ground::open().await;
    for yaml in [ECHO, FAILING, APPROVE] {
        ground.deploy(yaml).await;
    }
    let echo = |plan: &str, key: &str| json!({ "workflow": "echo", "key": key, "tags": { "plan": plan }, "input": { "user": { "plan": plan } } });
    let pro = begun(&ground, echo("pro", "order-7")).await;
    let free = begun(&ground, echo("free", "order-8")).await;
    let failed = ground.start("failing", json!(null)).await;
    for run in [&pro, &free, &failed] {
        ground.ended(run).await;
    }
    let waiting = ground.start("approve", json!(null)).await;
    ground.until(&waiting, "waiting").await;

    let found = ground.get("/?q=order-7").await;
    let wanted = format!("/runs/{pro}");
    assert_eq!(
        (found.status, found.header("location")),
        (303, Some(wanted.as_str()))
    );
    for (words, wanted) in [
        ("status:failed", vec![&failed]),
        ("failing", vec![&failed]),
        ("error:Broken", vec![&failed]),
        ("key:order-8", vec![&free]),
        ("tag:plan=pro", vec![&pro]),
        ("input.user.plan:free", vec![&free]),
        ("workflow:echo status:completed", vec![&pro, &free]),
        ("workflow:echo status:failed", vec![]),
        (
            "since:1h queue:default",
            vec![&pro, &free, &failed, &waiting],
        ),
        ("queue:other", vec![]),
    ] {
        let query: String = form_urlencoded::Serializer::new(String::new())
            .append_pair("q", words)
            .finish();
        let wanted: BTreeSet<String> = wanted.into_iter().cloned().collect();
        assert_eq!(
            listed(&ground, &format!("/?{query}")).await,
            wanted,
            "{words}"
        );
    }

    let all = ground.get("/").await.text();
    let presets = all.split("class=\"presets\"").nth(1).unwrap();
    let presets = presets.split("</div>").next().unwrap();
    for (word, wanted) in [
        ("All", vec![&pro, &free, &failed, &waiting]),
        ("In flight", vec![&waiting]),
        ("Failed", vec![&failed]),
        ("Waiting", vec![&waiting]),
        ("Paused", vec![]),
    ] {
        let link = presets
            .split("<a href=\"")
            .find(|it| it.contains(&format!(">{word}<")));
        let path = link
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .replace("&amp;", "&");
        let wanted: BTreeSet<String> = wanted.into_iter().cloned().collect();
        assert_eq!(listed(&ground, &path).await, wanted, "{word}");
        // The one that is asked for is marked, and no other.
        let shown = ground.get(&path).await.text();
        assert!(
            shown.contains(&format!("aria-current=\"true\">{word}<")),
            "{shown}"
        );
        assert_eq!(shown.matches("aria-current=\"true\"").count(), 1, "{word}");
    }
    ground.close().await;
}
