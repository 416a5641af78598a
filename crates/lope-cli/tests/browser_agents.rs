//! The board of agents in a real browser, with a real runner and a scripted agent: a task is approved
//! while its log runs, a question is answered.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::browser_todo::WebUp;
use crate::fixture::browser::{Browser, Look, wanted};
use crate::stage::Home;

/// A home with a project whose agent is the script, and a runner at work.
struct Workshop {
    home: Home,
    project: PathBuf,
    runner: Option<Child>,
}

impl Workshop {
    fn new() -> Self {
        let home = Home::new();
        let project = home.path().join("shop");
        std::fs::create_dir(&project).unwrap();
        let project = project.canonicalize().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture/agent.sh");
        let script = script.display().to_string();
        std::fs::create_dir(home.path().join(".lope")).unwrap();
        let config = format!(
            "agents:\n  default: {{ command: [sh, {script:?}] }}\nrunners:\n  review: person\n  heartbeatInterval: 200ms\n"
        );
        std::fs::write(home.path().join(".lope/config.yaml"), config).unwrap();
        home.lope(&["projects", "add", "shop"]).done();
        Self {
            home,
            project,
            runner: None,
        }
    }

    fn add(&self, title: &str) -> String {
        let args = ["tasks", "add", title, "--project", "shop", "--json"];
        let added: Value = self.home.lope(&args).done().json();
        added["id"].as_str().unwrap().to_owned()
    }

    fn task(&self, id: &str) -> Value {
        self.home
            .lope(&["tasks", "show", id, "--json"])
            .done()
            .json()
    }

    fn start(&mut self) {
        let args = ["runners", "start", "--project", "shop", "--foreground"];
        let mut command: Command = self.home.command(&args);
        // The agent finds the binary that is tested.
        let lope = Path::new(env!("CARGO_BIN_EXE_lope")).parent().unwrap();
        let path = format!("{}:{}", lope.display(), std::env::var("PATH").unwrap());
        command.env("PATH", path);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        self.runner = Some(command.stderr(Stdio::null()).spawn().unwrap());
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        if let Some(mut child) = self.runner.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_approved_while_its_log_runs_and_a_question_is_answered() {
    if !wanted() {
        return;
    }
    let mut shop = Workshop::new();
    let up = WebUp::start(&shop.home);
    let browser = Browser::open(up.address).await;
    browser.go("/agents").await;
    browser.sees("There are no tasks yet").await;
    let talks = shop.add("chatter about the shop");
    let asks = shop.add("ask about colours");
    browser.sees("chatter about the shop").await;
    browser.click(&format!("a.task[href$='{talks}']")).await;
    browser.sees("Waits for a runner").await;
    shop.start();
    // The page moves by itself: no reload from here on.
    browser.sees("has been at work since").await;
    browser.sees("line 3").await;
    browser.sees("line 9").await;
    browser.picture("agents-task-running-light").await;
    browser.click("form[action$='/approve'] button").await;
    browser.sees("The task is approved.").await;
    browser.sees("Completed").await;
    assert_eq!(shop.task(&talks)["status"], "completed");
    // The runner finds that it is decided, stops the agent and takes the next one.
    browser.go(&format!("/agents/tasks/{asks}")).await;
    browser.sees("It asks: Which colour?").await;
    browser.picture("agents-task-asks-light").await;
    browser.fill("form.answer input", "blue").await;
    browser.click("form.answer button").await;
    browser.sees("The answer is with the task").await;
    browser.sees("waits for your review").await;
    let prompt = std::fs::read_to_string(shop.project.join(format!("prompt.{asks}"))).unwrap();
    assert!(prompt.contains("blue"), "{prompt}");
    browser.go("/agents").await;
    browser.sees("1 task needs you").await;
    for look in [Look::Light, Look::Dark, Look::Phone] {
        browser.look(look).await;
        let word = format!("{look:?}").to_lowercase();
        browser.picture(&format!("agents-board-{word}")).await;
    }
    browser.look(Look::Light).await;
    browser.click(&format!("a.task[href$='{asks}']")).await;
    browser.click("form[action$='/approve'] button").await;
    browser.sees("The task is approved.").await;
    assert_eq!(shop.task(&asks)["status"], "completed");
    browser.go("/app/board/").await;
    browser.sees("completed (2)").await;
    let third = shop.add("succeed at last");
    browser.sees("succeed at last").await;
    browser.sees("review (1)").await;
    assert_eq!(shop.task(&third)["status"], "review");
    let done = shop.task(&talks);
    assert_eq!(done["status"], "completed", "nothing undoes it: {done}");
    browser.close().await;
}
