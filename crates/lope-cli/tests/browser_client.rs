//! The client for browsers, `lope.js`, in a real browser against the real binary: what its promises
//! mean, how many cells it watches, and what it does with a token.

use std::time::Duration;

use serde_json::{Value, json};

use crate::browser_todo::{WebUp, example};
use crate::fixture::browser::{Browser, wanted};
use crate::stage::Home;

/// Does something with a client on the page. What comes of it stands under a name: `{done}` or
/// `{failed}`.
async fn begin(browser: &Browser, name: &str, work: &str) {
    let script = format!(
        "window.came ??= {{}}; \
         import('/lope.js').then(async ({{ Lope }}) => {{ {work} }}) \
         .then((done) => {{ window.came.{name} = {{ done }}; }}, \
               (error) => {{ window.came.{name} = {{ failed: error.message, type: error.type }}; }}); \
         return null;"
    );
    browser.script(&script).await;
}

/// What has come of it so far; null if nothing.
async fn came(browser: &Browser, name: &str) -> Value {
    let script = format!("return window.came.{name} ?? null");
    browser.script(&script).await
}

/// What a script gives once it gives something.
async fn awaited(browser: &Browser, script: &str) -> Value {
    loop {
        let value = browser.script(script).await;
        if !value.is_null() && value != json!(false) {
            return value;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn came_at_last(browser: &Browser, name: &str) -> Value {
    awaited(browser, &format!("return window.came.{name} ?? null")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promise_is_kept_when_the_event_has_taken_effect_and_broken_if_nobody_handles_it() {
    if !wanted() {
        return;
    }
    let home = Home::new();
    let counter = example("counter.yaml");
    let run = |into: &str| home.lope(&["recipes", "run", counter.as_str(), "--into", into]);
    run("home/counter").done();
    let up = WebUp::start(&home);
    let browser = Browser::open(up.address).await;
    browser.go("/app/").await;
    begin(
        &browser,
        "nobody",
        "return (await new Lope().send('home/nobody/add', 1)).outcome;",
    )
    .await;
    begin(
        &browser,
        "later",
        "return (await new Lope().send('home/later/add', 2)).outcome;",
    )
    .await;
    begin(
        &browser,
        "now",
        "return (await new Lope().send('home/counter/add', 3)).outcome;",
    )
    .await;
    let handled = json!({ "done": "handled" });
    assert_eq!(came_at_last(&browser, "now").await, handled);
    // The server has all three, and two have not taken effect.
    awaited(&browser, "return localStorage.length === 0").await;
    assert_eq!(came(&browser, "later").await, Value::Null);
    assert_eq!(came(&browser, "nobody").await, Value::Null);
    run("home/later").done();
    assert_eq!(came_at_last(&browser, "later").await, handled);
    let count = home.lope(&["cells", "get", "home/later/count"]);
    assert_eq!(count.done().out.trim(), "2");
    let nobody = came_at_last(&browser, "nobody").await;
    assert_eq!(nobody["type"], "NoHandler", "{nobody}");
    let said = nobody["failed"].as_str().unwrap();
    assert!(said.contains("dead letters"), "{said}");
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_cells_than_a_stream_takes_are_all_told_and_too_many_are_refused_loudly() {
    if !wanted() {
        return;
    }
    let home = Home::new();
    home.lope(&["cells", "set", "home/last", "7"]).done();
    let up = WebUp::start(&home);
    let browser = Browser::open(up.address).await;
    browser.go("/app/").await;
    let work = "const lope = new Lope(); window.told = {}; window.lope = lope; \
        for (let n = 0; n < 250; n += 1) lope.watch(`home/c${n}`, (value) => { window.told[n] = value ?? null; }); \
        lope.watch('home/last', (value) => { window.told.last = value; });";
    begin(&browser, "watched", work).await;
    awaited(
        &browser,
        "return Object.keys(window.told ?? {}).length === 251",
    )
    .await;
    assert_eq!(browser.script("return window.told.last").await, json!(7));
    home.lope(&["cells", "set", "home/c249", "5"]).done();
    awaited(&browser, "return window.told[249] === 5").await;
    home.lope(&["cells", "set", "home/c0", "6"]).done();
    awaited(&browser, "return window.told[0] === 6").await;
    let work = "for (let n = 0; n < 200; n += 1) window.lope.watch(`home/d${n}`, () => {});";
    begin(&browser, "many", work).await;
    let refused = came_at_last(&browser, "many").await;
    let said = refused["failed"].as_str().unwrap();
    assert!(said.starts_with("400 cells are watched already"), "{said}");
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_a_token_watches_too_and_hears_what_its_token_may_not_do() {
    if !wanted() {
        return;
    }
    let home = Home::new();
    let config = "server:\n  authentication: always\n";
    std::fs::write(home.path().join("config.yaml"), config).unwrap();
    let counter = example("counter.yaml");
    let run = ["recipes", "run", counter.as_str(), "--into", "home/counter"];
    home.lope(&run).done();
    let token = |name: &str, right: &str| -> String {
        let added = home.lope(&["--json", "tokens", "add", name, "--right", right]);
        let added: Value = added.done().json();
        added["token"].as_str().unwrap().to_owned()
    };
    let (reader, actor) = (token("reader", "read"), token("actor", "act"));
    let up = WebUp::start(&home);
    let browser = Browser::open(up.address).await;
    browser.go("/login").await;
    let watch = format!(
        "window.seen = []; \
         new Lope({{ token: '{reader}' }}).watch('home/counter/count', (value) => {{ window.seen.push(value); }});"
    );
    begin(&browser, "watched", &watch).await;
    awaited(&browser, "return window.seen?.at(-1) === 0").await;
    let send = |token: &str| {
        format!(
            "return (await new Lope({{ token: '{token}' }}).send('home/counter/add', 4)).outcome;"
        )
    };
    begin(&browser, "refused", &send(&reader)).await;
    let refused = came_at_last(&browser, "refused").await;
    assert!(refused["failed"].is_string(), "{refused}");
    awaited(&browser, "return localStorage.length === 0").await;
    begin(&browser, "sent", &send(&actor)).await;
    assert_eq!(
        came_at_last(&browser, "sent").await,
        json!({ "done": "handled" })
    );
    awaited(&browser, "return window.seen.at(-1) === 4").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn something_else_under_an_id_is_refused_while_the_first_waits_and_when_it_is_done() {
    if !wanted() {
        return;
    }
    let home = Home::new();
    let counter = example("counter.yaml");
    home.lope(&["recipes", "run", &counter, "--into", "home/counter"])
        .done();
    let up = WebUp::start(&home);
    let browser = Browser::open(up.address).await;
    browser.go("/app/").await;
    let send = |n: i64| format!("lope.send('home/counter/add', {n}, {{ id: 'same' }})");
    // Both are sent at once: the first one is kept, the same again is the same promise.
    let at_once = format!(
        "const lope = new Lope(); const first = {}; const again = {}; \
         const other = await {}.then(() => 'done', (error) => error.message); \
         return [(await first).outcome, (await again).outcome, other];",
        send(5),
        send(5),
        send(6)
    );
    begin(&browser, "first", &at_once).await;
    let says = "something else was sent under the id 'same' before";
    assert_eq!(
        came_at_last(&browser, "first").await,
        json!({ "done": ["handled", "handled", says] })
    );
    let later = |n: i64| {
        format!(
            "const lope = new Lope(); return (await {}).outcome;",
            send(n)
        )
    };
    begin(&browser, "other", &later(6)).await;
    assert_eq!(came_at_last(&browser, "other").await["failed"], says);
    begin(&browser, "same", &later(5)).await;
    assert_eq!(
        came_at_last(&browser, "same").await,
        json!({ "done": "handled" })
    );
    let count = home.lope(&["cells", "get", "home/counter/count"]);
    assert_eq!(count.done().out.trim(), "5");
    browser.close().await;
}
