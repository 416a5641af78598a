//! The web examples in a real browser against the real binary: two tabs in step, a runner that is
//! killed between two clicks, nothing lost, nothing doubled; a form and the workflow that it starts.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::fixture::browser::{Browser, Look, wanted};
use crate::stage::{Home, until};

/// A `lope up` on an address of its own, with the web examples; it may be killed and started again.
pub(crate) struct WebUp {
    pub(crate) address: SocketAddr,
    child: Option<Child>,
}

impl WebUp {
    pub(crate) fn start(home: &Home) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let mut up = Self {
            address,
            child: None,
        };
        up.again(home);
        up
    }

    pub(crate) fn again(&mut self, home: &Home) {
        let app = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/reactive/web");
        let address = self.address.to_string();
        let app = app.display().to_string();
        let mut command = home.command(&["up", "--http", &address, "--app", &app]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        let said = lines.find(|line| line.contains("dashboard and API at"));
        said.expect("it says where it serves");
        std::thread::spawn(move || lines.for_each(drop));
        self.child = Some(child);
    }

    /// Without a word.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for WebUp {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn example(name: &str) -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/reactive");
    examples.join(name).display().to_string()
}

/// Titles and whether they are done, in order.
fn items(home: &Home) -> Vec<(String, bool)> {
    let items = home.lope(&["--json", "cells", "get", "home/todo/items"]);
    let items: Value = items.done().json();
    let items = items.as_array().unwrap().iter();
    items
        .map(|item| {
            let title = item["title"].as_str().unwrap().to_owned();
            (title, item["done"].as_bool().unwrap())
        })
        .collect()
}

async fn add(browser: &Browser, title: &str) {
    browser.fill("input[name=title]", title).await;
    browser.click("#add button").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tabs_stay_in_step_and_a_runner_killed_between_two_clicks_loses_and_doubles_nothing() {
    if !wanted() {
        return;
    }
    let home = Home::new();
    let recipe = example("web/todo/recipe.js");
    let run = ["recipes", "run", recipe.as_str(), "--into", "home/todo"];
    home.lope(&run).done();
    let mut up = WebUp::start(&home);
    let browser = Browser::open(up.address).await;
    let one = browser.shown_tab().await;
    browser.go("/app/todo/").await;
    browser.sees("live · saved").await;
    let two = browser.tab().await;
    browser.show_tab(&two).await;
    browser.go("/app/todo/").await;
    browser.sees("live · saved").await;
    browser.show_tab(&one).await;
    add(&browser, "tea").await;
    browser.sees("1 thing left").await;
    browser.show_tab(&two).await;
    browser.sees("tea").await;
    // The runner dies between two clicks. What is clicked meanwhile waits in the browser.
    up.kill();
    add(&browser, "milk").await;
    browser.sees("offline · 1 change waits").await;
    browser.show_tab(&one).await;
    browser.click("#items input[type=checkbox]").await;
    browser.sees("offline · 2 changes wait").await;
    // One of the tabs is closed: what it was told to do stays.
    browser.show_tab(&two).await;
    browser.leave().await;
    up.again(&home);
    browser.show_tab(&one).await;
    browser.sees("live · saved").await;
    browser.sees("milk").await;
    browser.show_tab(&two).await;
    browser.go("/app/todo/").await;
    browser.sees("milk").await;
    browser.sees("1 thing left").await;
    assert_eq!(
        items(&home),
        [("tea".to_owned(), true), ("milk".to_owned(), false)]
    );
    // Killed right behind a click, whatever had become of it by then.
    for round in 0..3 {
        add(&browser, &format!("round {round}")).await;
        up.kill();
        up.again(&home);
        browser.sees("live · saved").await;
        browser.sees(&format!("round {round}")).await;
    }
    let titles: Vec<String> = items(&home).into_iter().map(|(title, _)| title).collect();
    assert_eq!(titles, ["tea", "milk", "round 0", "round 1", "round 2"]);
    let kept = browser.script("return localStorage.length").await;
    assert_eq!(kept, json!(0), "what is acknowledged is kept no longer");
    browser.show_tab(&one).await;
    browser.sees("round 2").await;
    browser.sees("4 things left").await;
    for look in [Look::Light, Look::Dark, Look::Phone] {
        browser.look(look).await;
        let word = format!("{look:?}").to_lowercase();
        browser.picture(&format!("example-todo-{word}")).await;
    }
    browser.close().await;
}

async fn submit(browser: &Browser, who: &str) {
    browser.fill("input[name=who]", who).await;
    browser.click("#submit button").await;
}

/// Waits until there are so many runs; more are too many.
fn until_runs(home: &Home, count: usize) -> Vec<Value> {
    let runs = || {
        let runs: Value = home.lope(&["--json", "runs", "list"]).done().json();
        runs.as_array().unwrap().clone()
    };
    until("the run is started", || runs().len() >= count);
    let runs = runs();
    assert_eq!(runs.len(), count, "{runs:?}");
    runs
}

/// "a form whose submit starts a workflow and shows its progress in a cell": not deployed yet, at
/// work, through the death of its runner, then done; and one that fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_starts_a_workflow_and_shows_what_came_of_it() {
    if !wanted() {
        return;
    }
    let home = Home::new();
    // As `greet.yaml`, but it waits in the middle for as long as the test wants.
    let patient = "name: greet\nsteps:\n  asked: { wait: go }\n  greet: { run: [echo, 'Hello, ${{ input.name }}!'], needs: [asked] }\n  done: { return: '${{ greet }}', needs: [greet] }\n";
    let file = home.path().join("greet.yaml");
    std::fs::write(&file, patient).unwrap();
    let file = file.display().to_string();
    let recipe = example("form.yaml");
    let run = ["recipes", "run", recipe.as_str(), "--into", "home/form"];
    home.lope(&run).done();
    let mut up = WebUp::start(&home);
    let browser = Browser::open(up.address).await;
    browser.go("/app/").await;
    browser.click("a[href='form/']").await;
    browser.sees("Nothing was asked for yet").await;
    submit(&browser, "Ada").await;
    let waits = "It waits: no workflow 'greet' is deployed";
    browser.sees(waits).await;
    home.lope(&["workflows", "deploy", &file]).done();
    browser.sees("The workflow is at work…").await;
    up.kill();
    browser.sees("offline").await;
    up.again(&home);
    browser.sees("live · saved").await;
    browser.sees("The workflow is at work…").await;
    let begun = until_runs(&home, 1);
    let id = begun[0]["run_id"].as_str().unwrap();
    home.lope(&["runs", "signal", id, "go"]).done();
    browser.sees("Hello, Ada!").await;
    // Another request is another run; one that ends badly says so.
    submit(&browser, "Bob").await;
    browser.sees("The workflow is at work…").await;
    let others = until_runs(&home, 2);
    let other = others
        .iter()
        .find(|run| run["run_id"] != begun[0]["run_id"]);
    let other = other.unwrap()["run_id"].as_str().unwrap();
    home.lope(&["runs", "cancel", other]).done();
    browser.sees("It failed").await;
    until_runs(&home, 2);
    browser.close().await;
}
