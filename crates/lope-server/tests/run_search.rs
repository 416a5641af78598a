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

/// What stands between two texts.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let rest = text.split(from).nth(1);
    let rest = rest.unwrap_or_else(|| panic!("no {from} in {text}"));
    rest.split(to).next().unwrap()
}

/// What is written in the box of a page.
fn box_of(page: &str) -> &str {
    between(page, "name=\"q\" value=\"", "\"")
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

    // How many there are, and what was asked for, in the first sentence and in the box.
    for (path, sentence, said) in [
        ("/", "4 runs.", ""),
        (
            "/?workflow=echo&tag=plan%3Dpro",
            "1 run fits <code>workflow:echo tag:plan=pro</code>.",
            "tag:plan=pro",
        ),
        (
            "/?q=status:failed+status:waiting&workflow=",
            "2 runs fit <code>status:failed status:waiting</code>.",
            "status:failed status:waiting",
        ),
        (
            "/?q=nobody",
            "No run fits <code>workflow:nobody</code>.",
            "workflow:nobody",
        ),
    ] {
        let shown = ground.get(path).await.text();
        let told = between(&shown, "class=\"sentence\" data-part=\"sentence\">", "</p>");
        assert_eq!((told, box_of(&shown)), (sentence, said), "{path}");
    }
    let picked = ground.get("/?workflow=echo").await.text();
    let wanted = "<option value=\"echo\" selected>echo</option>";
    assert!(picked.contains(wanted), "{picked}");
    // What cannot be understood is told beside it, on the same page.
    for (words, told) in [
        ("status:FAILED", "status: 'FAILED' is none (queued, "),
        ("tag:x", "tag: 'x' is not NAME=VALUE"),
        ("since:yesterday", "since: "),
        ("parent:nobody", "nobody"),
    ] {
        let answer = ground.get(&format!("/?q={words}")).await;
        let refused = answer.text();
        let status = if words == "parent:nobody" { 404 } else { 400 };
        assert_eq!((answer.status, box_of(&refused)), (status, words));
        let note = between(&refused, "class=\"note bad\"", "</p>");
        assert!(note.contains(told), "{words}: {note}");
        assert!(refused.contains("aria-label=\"Sections\""), "{refused}");
    }

    let all = ground.get("/").await.text();
    let presets = between(&all, "class=\"presets\"", "</div>");
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
        // Whatever else narrows the list stays, and is seen in the box.
        let narrowed = format!("{path}&tag=plan%3Dpro&after=9999999999999.{pro}");
        let shown = ground.get(&narrowed).await.text();
        assert!(box_of(&shown).ends_with("tag:plan=pro"), "{narrowed}");
        let others = between(&shown, "class=\"presets\"", "</div>");
        let links = others.matches("<a href=\"/?tag=plan%3Dpro&amp;").count();
        assert_eq!(links, 5, "{others}");
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
