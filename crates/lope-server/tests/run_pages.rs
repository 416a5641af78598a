//! The page of a run without a browser: what failed with its own log, attempts and outputs, the ways to
//! go on, the runs that belong to it and another one beside it.

use serde_json::json;

use super::fixture::Ground;
use super::fixture::http::{HttpAnswer, Request};

/// One step is tried twice, some of many fail and are collected, and the last fails until its flag is
/// there.
const SHAKY: &str = "name: shaky
steps:
  first:
    run: \"echo done >> $COUNT; echo try $LOPE_ATTEMPT; test $LOPE_ATTEMPT = 2\"
    env: { COUNT: \"${{ input.count }}\" }
    retries: 1
    base_delay: 1ms
  many:
    each: \"${{ range(100) }}\"
    as: n
    parallel: 20
    on_error: collect
    needs: [first]
    steps:
      one: { js: \"({ n }) => { if (n == 7) throw new Error('odd'); return n; }\", with: { n: \"${{ n }}\" } }
  forgiven:
    each: [1]
    as: n
    on_error: collect
    needs: [many]
    steps:
      cry: { run: \"echo the wrong lines; exit 4\" }
  broken:
    run: \"echo the right lines; test -e $FLAG\"
    env: { FLAG: \"${{ input.flag }}\" }
    needs: [forgiven]
  done: { return: \"${{ first }}\", needs: [broken] }
";

const APPROVE: &str = "name: approve
steps:
  approval: { wait: approved }
  done: { return: \"${{ approval }}\" }
";

async fn sent(ground: &Ground, path: &str, body: &str) -> HttpAnswer {
    let request = Request::post(path).body("application/x-www-form-urlencoded", body);
    let answer = ground
        .send(request.header("sec-fetch-site", "same-origin"))
        .await;
    assert_eq!(answer.status, 303, "{path}: {}", answer.text());
    answer
}

async fn page(ground: &Ground, path: &str) -> String {
    let answer = ground.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text()
}

/// What stands between two texts.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let rest = text.split(from).nth(1);
    let rest = rest.unwrap_or_else(|| panic!("no {from} in {text}"));
    rest.split(to).next().unwrap()
}

/// A stretch of the timeline alone; blocks of the graph folded, and loops with counts.
async fn a_part_of_the_time_and_of_the_graph(ground: &Ground, run: &str, shown: &str) {
    let graph = |page: &str| between(page, "data-part=\"graph\"", "</svg>").to_owned();
    let whole = graph(shown);
    assert!(whole.contains("✗ one ×100") && whole.contains("data-step=\"many\""));
    for fold in ["many", "*"] {
        let folded = page(ground, &format!("/runs/{run}?fold={fold}&zoom=0-1")).await;
        assert!(folded.contains("data-from=\"0\" data-to=\"1\""), "{folded}");
        assert!(
            folded.contains(&format!("/runs/{run}?fold=")),
            "the other is kept: {folded}"
        );
        let folded = graph(&folded);
        assert!(
            folded.contains("folded failed\" data-step=\"many\"")
                || folded.contains("folded done\" data-step=\"many\""),
            "{folded}"
        );
        assert!(!folded.contains("one ×100"), "{folded}");
    }
    // What came last is not in the first millisecond, and the whole run is a step away.
    let first = page(ground, &format!("/runs/{run}?zoom=0-1")).await;
    let timeline = between(&first, "class=\"timeline\"", "</nav>");
    assert!(!timeline.contains("title=\"broken\"") && timeline.contains("nothing in this time"));
    assert!(
        timeline.contains(&format!("href=\"/runs/{run}\">Whole run<")),
        "{timeline}"
    );
    let wrong = ground.get(&format!("/runs/{run}?zoom=5-2")).await;
    assert_eq!(wrong.status, 400, "{}", wrong.text());
    assert!(wrong.text().contains("no stretch of time"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_shows_the_log_of_what_failed_and_goes_on_from_there_or_from_a_step() {
    let ground = Ground::open().await;
    ground.deploy(SHAKY).await;
    let place = |name: &str| ground.folder.path().join(name);
    let input = json!({ "flag": place("flag"), "count": place("count") });
    let run = ground.start("shaky", input).await;
    assert_eq!(ground.ended(&run).await["status"], "failed");

    let shown = page(&ground, &format!("/runs/{run}")).await;
    let alert = between(&shown, "role=\"alert\"", "</div>");
    for wanted in ["ExitStatus in <code>broken</code>", "out the right lines"] {
        assert!(alert.contains(wanted), "no {wanted} in {alert}");
    }
    assert!(!alert.contains("the wrong lines"), "{alert}");

    // The timeline has a row a step: attempts are bars, many are one, and what failed stays.
    let timeline = between(&shown, "class=\"timeline\"", "<h2>Graph</h2>");
    let bars = |step: &str, status: &str| {
        let row = between(timeline, &format!("title=\"{step}\""), "class=\"label\"");
        row.matches(&format!("class=\"bar {status}\"")).count()
    };
    assert_eq!((bars("first", "failed"), bars("first", "done")), (1, 1));
    assert_eq!(
        (bars("many/one", "failed"), bars("many/one", "done")),
        (1, 1)
    );
    assert!(timeline.contains("<title>100 executions in ") && timeline.contains("×100"));
    assert!(
        timeline.contains(": the first was over after ")
            && timeline.matches("\"tick\"").count() == 3
    );
    // Between two attempts nobody is at work: that is hatched.
    assert!(bars("first", "waited") >= 1);
    assert!(timeline.contains("class=\"bar waited\" fill=\"url(#waits)\""));
    a_part_of_the_time_and_of_the_graph(&ground, &run, &shown).await;

    // The drawer has both attempts with what they wrote, why the first failed, and the output.
    let drawer = page(&ground, &format!("/runs/{run}/steps?execution=first")).await;
    let drawer = between(&drawer, "aria-label=\"Step\"", "</section>");
    for wanted in [
        "data-th=\"attempt\">1<",
        "data-th=\"attempt\">2<",
        "<p class=\"dim\">Input</p>",
        "echo try $LOPE_ATTEMPT",
        "exit status: 1",
        "<pre>try 2",
        "out try 1\n",
        "out try 2\n",
        "Run again from here",
    ] {
        assert!(drawer.contains(wanted), "no {wanted} in {drawer}");
    }

    // What each was given, as the workflow's expressions made it.
    let value = async |execution: &str| {
        let path = format!("/api/runs/{run}/value?of=input&execution={execution}");
        ground.get(&path).await
    };
    let given = value("broken").await.json()["text"].clone();
    let flag = place("flag").display().to_string();
    assert!(given.as_str().unwrap().contains(&flag), "{given}");
    let one = value("many%2F41%2Fone").await.json()["text"].clone();
    assert!(one.as_str().unwrap().contains("\"n\":41"), "{one}");
    assert_eq!(value("many").await.json()["text"], "null");
    assert_eq!(value("nobody").await.status, 404);

    std::fs::write(place("flag"), "").unwrap();
    let copy = sent(&ground, &format!("/runs/{run}/from"), "execution=broken").await;
    let copy = copy.header("location").unwrap();
    let copy = ground.ended(copy.trim_start_matches("/runs/")).await;
    assert_eq!(copy["status"], "completed", "{copy}");
    let again = sent(&ground, &format!("/runs/{run}/retry"), "").await;
    let told = page(&ground, again.header("location").unwrap()).await;
    assert!(told.contains("The run is tried again from where it failed."));
    ground.until(&run, "completed").await;
    let count = std::fs::read_to_string(place("count")).unwrap();
    assert_eq!(
        count.lines().count(),
        2,
        "the first step was not done again"
    );
    ground.close().await;
}

const OUTER: &str = "name: outer
steps:
  child: { workflow: approve }
  done: { return: \"${{ child }}\" }
";

const PAIR: &str = "name: pair
steps:
  same: { let: 1 }
  other: { let: \"${{ input }}\" }
";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_leads_to_its_parent_its_children_and_to_what_differs_in_another() {
    let ground = Ground::open().await;
    for yaml in [APPROVE, OUTER, PAIR] {
        ground.deploy(yaml).await;
    }
    let run = ground.start("outer", json!(null)).await;
    let children = format!("/api/runs?parent={run}&status=waiting");
    let child = loop {
        let page = ground.get(&children).await.json();
        if let Some(child) = page["runs"][0]["run_id"].as_str() {
            break child.to_owned();
        }
    };
    let shown = page(&ground, &format!("/runs/{run}")).await;
    for wanted in [
        "<th>Child run</th>".to_owned(),
        format!("href=\"/runs/{child}\""),
        format!("data-copy=\"lope runs show {run}\""),
        format!(
            "data-copy=\"curl http://{}/api/runs/{run}\"",
            ground.server.address()
        ),
    ] {
        assert!(shown.contains(&wanted), "no {wanted} in {shown}");
    }
    let shown = page(&ground, &format!("/runs/{child}")).await;
    let parent = between(&shown, "<dt>Parent</dt>", "</dd>");
    assert!(
        parent.contains(&format!("href=\"/runs/{run}\"")),
        "{parent}"
    );
    assert!(parent.ends_with(" at child"), "{parent}");
    // What a button does, a command does too.
    for wanted in [
        format!("title=\"lope runs cancel {child}\""),
        format!("title=\"lope runs pause {child}\""),
        format!("lope runs signal {child} NAME JSON"),
        "lope start approve --input JSON".to_owned(),
    ] {
        assert!(shown.contains(&wanted), "no {wanted} in {shown}");
    }
    sent(&ground, &format!("/runs/{child}/cancel"), "").await;
    assert_eq!(ground.ended(&child).await["status"], "cancelled");

    let one = ground.start("pair", json!(1)).await;
    let two = ground.start("pair", json!(2)).await;
    for run in [&one, &two] {
        assert_eq!(ground.ended(run).await["status"], "completed");
    }
    let compared =
        async |with: &str| page(&ground, &format!("/runs/{one}/compare?with={with}")).await;
    let other = compared(&two).await;
    for wanted in [
        "1 execution differs, 1 is alike.",
        "Input – differs",
        "<td class=\"wide mono\" title=\"other\">other</td>",
    ] {
        assert!(other.contains(wanted), "no {wanted} in {other}");
    }
    assert!(!other.contains("title=\"same\""), "{other}");
    let itself = compared(&one).await;
    assert!(itself.contains("0 executions differ, 2 are alike.") && !itself.contains("differs"));
    let nobody = ground
        .get(&format!("/runs/{one}/compare?with=nobody"))
        .await;
    assert_eq!(nobody.status, 404);
    ground.close().await;
}

/// Fails while blocks are open in which everything is over.
const CUT: &str = "name: cut
steps:
  a: { let: 1 }
  count0: { let: zero, set: count }
  choice:
    switch:
      - { when: \"${{ a == 2 }}\", steps: { two: { let: 2 } } }
      - { when: \"${{ a == 1 }}\", steps: { one: { let: 11 } } }
    else: { three: { let: 3 } }
  block:
    try:
      steps:
        bad: { raise: { type: Oops, message: it is } }
    catch:
      - { match: [Oops], as: e, steps: { handled: { let: \"'ok'\" } } }
    finally: { steps: { cleanup: { let: 0 } } }
  many:
    race:
      fast: { steps: { f: { let: 1 } } }
      slow: { steps: { z: { sleep: 1h } } }
  loop:
    while: \"${{ count < 5 }}\"
    max: 10
    steps:
      inc: { let: \"${{ count + 1 }}\", set: count }
";

#[tokio::test(flavor = "multi_thread")]
async fn no_step_is_told_before_its_run_is_taken_up_and_none_works_when_it_is_over() {
    let ground = Ground::open().await;
    for yaml in [PAIR, CUT] {
        ground.deploy(yaml).await;
    }
    // Nobody serves the queue, and the steps need nobody: admission has done them already.
    let body = json!({ "workflow": "pair", "queue": "other" });
    let queued = ground.post("/api/runs", body).await.json();
    let queued = queued["run_id"].as_str().unwrap();
    let told = ground.get(&format!("/api/runs/{queued}")).await.json();
    assert_eq!(
        (&told["status"], &told["started_at"], &told["executions"]),
        (&json!("queued"), &json!(null), &json!([]))
    );
    let path = format!("/api/runs/{queued}/executions");
    assert_eq!(
        ground.get(&path).await.json(),
        json!({ "executions": [], "next": null })
    );
    let shown = page(&ground, &format!("/runs/{queued}")).await;
    assert!(shown.contains("No step has begun."), "{shown}");
    let graph = between(&shown, "<h2>Graph</h2>", "<h2>Facts</h2>");
    assert!(!graph.contains("done"), "{graph}");
    for never in ["<dt>Started</dt>", "<dt>Took</dt>", "<dt>So far</dt>"] {
        assert!(!shown.contains(never), "{never} in {shown}");
    }
    let listed = page(&ground, "/?queue=other").await;
    let row = between(&listed, "<tbody>", "</tbody>");
    assert!(row.contains(">queued <time "), "{row}");
    assert!(
        row.ends_with("<span class=\"dim\">–</span></td></tr>"),
        "{row}"
    );
    let steps = page(&ground, &format!("/runs/{queued}/steps")).await;
    assert!(steps.contains("No execution fits."), "{steps}");

    let cut = ground.start("cut", json!(null)).await;
    let ended = ground.ended(&cut).await;
    assert_eq!(ended["status"], "failed");
    let told = ground.get(&format!("/api/runs/{cut}")).await.json();
    let all = told["executions"].as_array().unwrap();
    for block in ["block", "choice"] {
        let mut of_run = all.iter();
        let block = of_run.find(|it| it["path"] == block).unwrap();
        assert_eq!(
            (&block["status"], &block["finished_at"]),
            (&json!("cancelled"), &ended["finished_at"]),
            "{told}"
        );
    }
    let shown = page(&ground, &format!("/runs/{cut}")).await;
    let pictures = between(&shown, "<h2>Timeline</h2>", "<h2>Facts</h2>");
    assert!(!pictures.contains("running"), "{pictures}");
    assert!(shown.contains("<dt>Took</dt>"), "{shown}");
    ground.close().await;
}
