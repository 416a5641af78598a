//! "The seed's every command line works as written with `lope` in place of its name, and prints the
//! seed's table and JSON schema." Each line stands here as the seed has it; ids and paths are those
//! of the test.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agent_wakeup::crontab;
use crate::fixture::agent_project::{AgentProject, RunnerChild, attempts, is_there};
use crate::stage::{Said, said, until};

/// Two projects whose agents wait for a file `go`; runners are killed when the test ends.
struct Town {
    shop: AgentProject,
    other: std::path::PathBuf,
}

impl Town {
    fn new() -> Self {
        let shop = AgentProject::with("  stopGrace: 1s\n", "");
        let other = shop.home.path().join("other");
        std::fs::create_dir(&other).unwrap();
        let other = other.canonicalize().unwrap();
        shop.lope(&["projects", "add", other.to_str().unwrap()])
            .done();
        Self { shop, other }
    }

    /// A line of the seed, typed in a folder.
    fn command(&self, folder: &Path, line: &str) -> Command {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[0], "lope");
        let mut command = self.shop.command(&words[1..]);
        command.current_dir(folder);
        command
    }

    #[track_caller]
    fn typed(&self, line: &str) -> Said {
        said(&mut self.command(&self.shop.project, line)).done()
    }

    fn add(&self, project: &Path, title: &str) -> String {
        let path = project.to_str().unwrap();
        let words = ["tasks", "add", title, "--project", path];
        self.shop.json(&words)["id"].as_str().unwrap().to_owned()
    }

    /// The live runner of a project.
    fn runner(&self, project: &Path) -> Value {
        let all = self.shop.json(&["runners", "list"]);
        let mut all = all.as_array().unwrap().iter();
        let own = all.find(|it| it["projectPath"] == project.to_str().unwrap());
        own.expect("a runner of the project").clone()
    }
}

impl Drop for Town {
    fn drop(&mut self) {
        self.shop.lope(&["runners", "stop", "--all", "--force"]);
    }
}

fn is_begun(project: &Path, id: &str) -> bool {
    let log = std::fs::read_to_string(project.join("begun.log"));
    log.unwrap_or_default().contains(id)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name]
        .as_str()
        .unwrap_or_else(|| panic!("{name}: {value}"))
}

/// The seed's "Runner JSON Schema".
fn meets_the_schema(runner: &Value) {
    let is_uuid = |name: &str| uuid::Uuid::parse_str(text(runner, name)).is_ok();
    let is_time = |name: &str| {
        let time = text(runner, name);
        time.len() >= "2026-01-01T00:00:00Z".len()
            && time.as_bytes()[10] == b'T'
            && time.ends_with('Z')
    };
    assert!(is_uuid("id"), "{runner}");
    let statuses = ["idle", "running", "completed", "failed"];
    assert!(statuses.contains(&text(runner, "status")), "{runner}");
    let optional = [
        "projectPath",
        "currentTask",
        "startedAt",
        "completedAt",
        "lastHeartbeat",
        "pid",
        "error",
    ];
    for name in optional
        .into_iter()
        .filter(|name| runner.get(name).is_some())
    {
        let is_kept = match name {
            "projectPath" => Path::new(text(runner, name)).is_absolute(),
            "currentTask" => is_uuid(name),
            "pid" => runner[name].is_i64() || runner[name].is_u64(),
            "error" => runner[name].is_string(),
            _ => is_time(name),
        };
        assert!(is_kept, "{name}: {runner}");
    }
}

/// "prints the seed's table", its warning with it.
fn is_the_seeds_table(out: &str, town: &Town) {
    let runners = [&town.shop.project, &town.other].map(|project| town.runner(project));
    let lines: Vec<&str> = out.lines().collect();
    let rule = lines[1];
    assert!(rule.chars().all(|it| it == '─') && rule.chars().count() >= 80);
    assert_eq!((lines[0], lines[3]), ("RUNNERS", rule));
    let words = |line: &str| -> Vec<String> {
        let words = line.split_whitespace();
        words.map(str::to_owned).collect()
    };
    let columns = ["ID", "STATUS", "PID", "PROJECT", "SECTION", "HEARTBEAT"];
    assert_eq!(words(lines[2]), columns);
    for runner in &runners {
        let row = lines[4..6]
            .iter()
            .find(|line| line.starts_with(&text(runner, "id")[..8]));
        let row = words(row.expect("a row for each runner"));
        let pid = runner["pid"].to_string();
        let expected = [
            &text(runner, "id")[..8],
            "running",
            &pid,
            text(runner, "projectPath"),
            "-",
        ];
        assert_eq!(row[..5], expected);
        let time: Vec<&str> = row[5].split(':').collect();
        assert!(time.len() == 3 && time.iter().all(|part| part.len() == 2));
    }
    let own = town.shop.project.display();
    let warning = [
        String::new(),
        "⚠️  MULTI-PROJECT WARNING: 2 different projects have runners.".to_owned(),
        format!("   Your current project: {own}"),
        "   DO NOT modify files in other projects.".to_owned(),
    ];
    assert_eq!(lines[6..], warning);
}

/// The seed's example query, on what runners themselves wrote.
fn is_found_by_the_seeds_query(town: &Town, tasks: [&str; 2]) {
    let query = "SELECT id, status, project_path, current_task_id,
       datetime(heartbeat_at) as last_heartbeat
FROM runners
WHERE status = 'running';";
    let db = rusqlite::Connection::open(town.shop.home.path().join(".lope/lope.db")).unwrap();
    let mut query = db.prepare(query).unwrap();
    let rows = query.query_map([], |row| Ok((row.get(3)?, row.get(4)?)));
    let mut rows: Vec<(String, String)> = rows.unwrap().map(Result::unwrap).collect();
    rows.sort();
    let mut expected = tasks.map(str::to_owned);
    expected.sort();
    assert_eq!(
        rows.iter().map(|row| &row.0).collect::<Vec<_>>(),
        [&expected[0], &expected[1]]
    );
    let form = "2026-01-01 00:00:00";
    assert!(rows.iter().all(|row| row.1.len() == form.len()), "{rows:?}");
}

/// "List Runners", "Start Runner", "Logs", "Stop Runner".
#[test]
fn the_seeds_lines_for_runners_work_as_written() {
    let town = Town::new();
    let (shop, other) = (&town.shop.project, &town.other);
    let (first, second) = (town.add(shop, "wait here"), town.add(other, "wait there"));
    assert_eq!(town.typed("lope runners list").out, "no runners\n");
    town.typed("lope runners start");
    town.typed(&format!("lope runners start --project {}", other.display()));
    until("both begin", || {
        is_begun(shop, &first) && is_begun(other, &second)
    });
    is_the_seeds_table(&town.typed("lope runners list").out, &town);
    let listed = town.typed("lope runners list --json").json();
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 2);
    listed.iter().for_each(meets_the_schema);
    is_found_by_the_seeds_query(&town, [&first, &second]);

    let runner = town.runner(shop);
    assert_eq!(runner["currentTask"], json!(first));
    let id = text(&runner, "id").to_owned();
    let log = town.typed(&format!("lope runners logs {id}")).out;
    assert!(log.contains("wait here"), "{log}");
    let mut follow = town.command(shop, &format!("lope runners logs {id} --follow"));
    let follow = RunnerChild::of(follow.stdin(Stdio::null()));
    let all = town.typed("lope runners logs --all --limit 100").out;
    assert!(
        all.contains("wait here") && all.contains("wait there") && all.lines().count() <= 100,
        "{all}"
    );

    town.shop.go();
    until("its end", || {
        town.shop.task(&first)["status"] == "completed"
    });
    let stopped = town.typed(&format!("lope runners stop {id}"));
    assert_eq!(stopped.out, format!("runner {id} ended its work\n"));
    let followed = follow.said();
    let whole = town.typed(&format!("lope runners logs {id}")).out;
    // What its process says when the runner has ended may come too late to be followed.
    assert!(
        followed.code == 0
            && followed.out.trim_end().contains(" ended")
            && whole.starts_with(followed.out.trim_end()),
        "{followed:?} {whole}"
    );
    let ended = town.shop.json(&["runners", "show", &id]);
    meets_the_schema(&ended);
    assert_eq!(
        (text(&ended, "status"), ended["completedAt"].is_string()),
        ("completed", true)
    );

    std::fs::write(other.join("go"), "").unwrap();
    let stopped = town.typed("lope runners stop --all").out;
    assert_eq!(stopped.lines().count(), 1, "{stopped}");
    assert_eq!(town.typed("lope runners list").out, "no runners\n");
}

/// "Start with specific task", "Force stop (kill -9)".
#[test]
fn the_seeds_lines_for_one_task_and_a_forced_stop_work_as_written() {
    let town = Town::new();
    let (shop, other) = (&town.shop.project, &town.other);
    let earlier = town.add(shop, "succeed at nothing");
    let task = town.add(shop, "stubborn to the end");
    let elsewhere = town.add(other, "wait there");
    town.typed(&format!("lope runners start --project {}", other.display()));
    town.typed(&format!("lope runners start --task {task}"));
    until("both begin", || {
        is_begun(shop, &task) && is_begun(other, &elsewhere)
    });
    assert_eq!(town.runner(shop)["currentTask"], json!(task));
    assert_eq!(
        town.shop.task(&earlier)["status"],
        "pending",
        "not asked for"
    );
    let (id, pid) = (
        text(&town.runner(shop), "id").to_owned(),
        town.runner(shop)["pid"].to_string(),
    );
    let stopped = town.typed("lope runners stop --force");
    assert_eq!(stopped.out, format!("runner {id} was killed\n"));
    until("its process", || !is_there(&pid));
    assert_eq!(
        town.runner(other)["currentTask"],
        json!(elsewhere),
        "those of other projects work on"
    );
    let killed = town.shop.json(&["runners", "show", &id]);
    meets_the_schema(&killed);
    assert_eq!(text(&killed, "status"), "failed", "{killed}");
    assert!(killed["error"].is_string(), "{killed}");
}

/// "Wake Up", "Cron Management".
#[test]
fn the_seeds_lines_for_wake_ups_and_cron_work_as_written() {
    let town = Town::new();
    let shop = &town.shop.project;
    let task = town.add(shop, "wait here");
    let dry = town.typed("lope runners wakeup --dry-run");
    assert!(dry.out.contains(&shop.display().to_string()), "{dry:?}");
    assert_eq!(town.typed("lope runners list").out, "no runners\n");
    let woken = town.typed("lope runners wakeup");
    assert!(woken.out.contains(&shop.display().to_string()), "{woken:?}");
    until("its beginning", || is_begun(shop, &task));
    let quiet = town.typed("lope runners wakeup --quiet");
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("", ""));
    let runner = town.runner(shop);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(runner["pid"].to_string().parse().unwrap()).unwrap(),
        Signal::KILL,
    )
    .unwrap();
    until("another takes its place", || {
        town.typed("lope runners wakeup --quiet");
        let all = town.shop.json(&["runners", "list"]);
        let all = all.as_array().unwrap();
        all.len() == 1 && all[0]["id"] != runner["id"]
    });
    town.shop.go();
    until("its end", || town.shop.task(&task)["status"] == "completed");

    let home = town.shop.home.path();
    let path = format!("{}:/usr/bin:/bin", crontab(home).display());
    let typed = |line: &str| said(town.command(shop, line).env("PATH", &path)).done();
    typed("lope runners cron install");
    let table = std::fs::read_to_string(home.join("table")).unwrap();
    assert!(
        table.starts_with("* * * * * ") && table.contains(" runners wakeup --quiet"),
        "{table}"
    );
    assert!(
        typed("lope runners cron status")
            .out
            .starts_with("cron: * * * * * ")
    );
    typed("lope runners cron uninstall");
    assert_eq!(typed("lope runners cron status").out, "not installed\n");
}

/// The seed's configuration as written.
#[test]
fn the_seeds_configuration_is_read_as_written() {
    let town = Town::new();
    let config = "runners:
  heartbeatInterval: 30s      # How often to update heartbeat
  staleTimeout: 5m            # When to consider runner process dead
  subprocessHangTimeout: 15m  # No log output for 15 min = hung subprocess
  maxConcurrent: 1            # Max concurrent runners (currently always 1)
  logRetention: 7d            # How long to keep logs

  wakeup:
    enabled: true             # Enable cron wake-up
    checkInterval: 1m         # Cron frequency
    projectPaths:             # Directories to scan for pending tasks
      - ~/Projects
";
    let home = town.shop.home.path();
    std::fs::write(home.join(".lope/config.yaml"), config).unwrap();
    let found = home.join("Projects/site");
    std::fs::create_dir_all(found.join(".lope")).unwrap();
    let dry = town.typed("lope runners wakeup --dry-run --json").json();
    let found = found.canonicalize().unwrap();
    assert_eq!(dry["found"], json!([found.to_str().unwrap()]));
}

/// "Task fails: mark task as failed, release lock, continue", "Agent timeout: kill agent, release
/// lock, mark failed", "No pending tasks: runner goes idle, releases all locks".
#[test]
fn a_failed_task_and_a_timeout_free_their_locks_and_the_runner_goes_on_until_it_is_idle() {
    let shop = AgentProject::with("  stopGrace: 1s\n", "");
    // Only the one that never ends has little time.
    let config = shop.home.path().join(".lope/config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    let (_, agent) = text.split_once("default: { ").unwrap();
    let (agent, rest) = agent.split_once(" }\n").unwrap();
    let agents =
        format!("agents:\n  default: {{ {agent} }}\n  short: {{ {agent}, timeout: 1s }}\n{rest}");
    std::fs::write(&config, agents).unwrap();
    std::fs::create_dir(shop.project.join(".lope")).unwrap();
    let named = "${{ input.title.startsWith('stubborn') ? 'short' : 'default' }}";
    let flow =
        format!("name: shop\nsteps:\n  work: {{ agent: {{ role: work, agent: \"{named}\" }} }}\n");
    std::fs::write(shop.project.join(".lope/task.yaml"), flow).unwrap();
    let ids = ["fail at it", "stubborn to the end", "succeed at last"].map(|it| shop.add(it, &[]));
    let runner = shop.start();
    until("the last one's end", || {
        shop.task(&ids[2])["status"] == "completed"
    });
    for (id, status, reason) in [
        (&ids[0], "failed", "exit"),
        (&ids[1], "failed", "timeout"),
        (&ids[2], "completed", "success"),
    ] {
        let task = shop.task(id);
        let attempts = task["attemptList"].as_array().unwrap();
        assert_eq!(
            (&task["status"], attempts.len(), &attempts[0]["stopReason"]),
            (&json!(status), 1, &json!(reason)),
            "{task}"
        );
        assert!(task.get("lock").is_none_or(Value::is_null), "{task}");
    }
    until("it is idle", || {
        shop.json(&["runners", "list"])[0]["status"] == "idle"
    });
    let idle = shop.json(&["runners", "list"])[0].clone();
    meets_the_schema(&idle);
    assert!(idle.get("currentTask").is_none_or(Value::is_null), "{idle}");
    assert_eq!(shop.json(&["locks", "list"]), json!([]));
    drop(runner);
}

/// "Lock held by other: wait for lock, then proceed" for who wants that task; "otherwise go on to the
/// next eligible task". "Lock expired: claim lock, continue task".
#[test]
fn a_lock_of_another_is_waited_for_passed_over_and_taken_when_it_has_expired() {
    let shop = AgentProject::new();
    let [held, next] = ["succeed with it", "succeed with the next"].map(|it| shop.add(it, &[]));
    let claimed = shop.json(&["tasks", "claim", &held, "--expiry", "1h"]);
    shop.work();
    assert_eq!(
        (&shop.task(&held)["status"], &shop.task(&next)["status"]),
        (&json!("in_progress"), &json!("completed")),
        "the next one is done"
    );
    let mut waits = shop.command(&[
        "runners",
        "start",
        "--project",
        "shop",
        "--foreground",
        "--task",
        &held,
    ]);
    let waiting = RunnerChild::of(&mut waits);
    until("it waits", || {
        let listed = shop.json(&["runners", "list"]);
        listed[0]["pid"] == waiting.child.id() && listed[0]["status"] == "idle"
    });
    let task = shop.task(&held);
    assert_eq!(
        (&task["lock"]["expiresAt"], attempts(&task, "number").len()),
        (&claimed["expiresAt"], 0),
        "it is waited for: {task}"
    );
    shop.lope(&["locks", "release", &held, "--force"]).done();
    until("it is done then", || {
        shop.task(&held)["status"] == "completed"
    });
    let ended = waiting.said();
    assert_eq!(ended.code, 0, "{ended:?}");

    let late = shop.add("succeed after all", &[]);
    let before = shop.json(&["tasks", "claim", &late, "--expiry", "1s"]);
    until("the lock expires", || {
        shop.work();
        shop.task(&late)["status"] == "completed"
    });
    let task = shop.task(&late);
    let epoch = attempts(&task, "epoch")[0].as_i64();
    assert!(epoch > before["epoch"].as_i64(), "{task} {before}");
}
