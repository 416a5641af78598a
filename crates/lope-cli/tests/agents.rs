//! Projects, tasks and locks from the command line: what people type, what programs read.

use std::process::Command;

use serde_json::Value;

use crate::stage::{Home, Said, said};

/// A home with a registered project folder.
struct Shop {
    home: Home,
    path: String,
}

impl Shop {
    fn new() -> Self {
        let home = Home::new();
        let path = home.path().join("shop");
        std::fs::create_dir(&path).unwrap();
        let path = path.canonicalize().unwrap().display().to_string();
        let shop = Self { home, path };
        shop.json(&["projects", "add", "shop"]);
        shop
    }

    fn lope(&self, args: &[&str]) -> Said {
        self.home.lope(args)
    }

    fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let said = self.lope(&args).done();
        serde_json::from_str(&said.out).unwrap()
    }

    fn add(&self, title: &str, more: &[&str]) -> String {
        let args = ["tasks", "add", title, "--project", "shop"];
        let args: Vec<&str> = args.iter().copied().chain(more.iter().copied()).collect();
        self.json(&args)["id"].as_str().unwrap().to_owned()
    }

    /// As an agent whose token this is.
    fn agent(&self, token: &str, args: &[&str]) -> Said {
        said(self.home.command(args).env("LOPE_TASK_TOKEN", token))
    }
}

/// An agent that names another task does not say by that that its own is done.
#[test]
fn an_id_alone_says_nothing_of_a_task() {
    let shop = Shop::new();
    let [own, other] = ["a", "b"].map(|title| shop.add(title, &[]));
    let token = shop.json(&["tasks", "claim", &own])["token"].clone();
    let token = token.as_str().unwrap();
    for verb in ["done", "fail"] {
        let bad = shop.agent(token, &["tasks", verb, &other]);
        let told = format!(
            "error: '{other}' is the id of a task: what is said about it is missing\n  hint: 'TEXT \
             --task ID' names a task; an agent speaks of its own alone\n"
        );
        assert_eq!((bad.code, bad.err), (2, told), "{verb}");
    }
    let statuses = [&own, &other].map(|id| shop.json(&["tasks", "show", id])["status"].clone());
    assert_eq!(statuses, ["in_progress", "pending"]);
    shop.agent(token, &["tasks", "done", &own]).done();
    assert_eq!(shop.json(&["tasks", "show", &own])["status"], "completed");
}

#[test]
fn a_project_is_registered_listed_switched_and_forgotten() {
    let shop = Shop::new();
    let again = shop.json(&["projects", "add", "./shop/../shop", "--name", "Shop"]);
    assert_eq!(again["path"], shop.path.as_str());
    let empty = shop.lope(&["projects", "add", ""]);
    let told = "error: a project needs a folder\n  hint: '.' is this one\n";
    assert_eq!((empty.code, empty.err.as_str()), (2, told));
    let list = shop.json(&["projects", "list"]);
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!(
        (&list[0]["name"], &list[0]["enabled"]),
        (&"Shop".into(), &true.into())
    );
    assert_eq!(
        shop.json(&["projects", "disable", "Shop"])["enabled"],
        false
    );
    assert_eq!(shop.json(&["projects", "enable", "shop"])["enabled"], true);
    shop.add("a", &[]);
    let table = shop.lope(&["projects", "list"]).done().out;
    assert!(table.starts_with("PROJECTS\n────"), "{table}");
    let refused = shop.lope(&["projects", "remove", "shop"]);
    assert_eq!(
        (refused.code, refused.err.contains("--force")),
        (3, true),
        "{refused:?}"
    );
    assert_eq!(
        shop.json(&["projects", "remove", "shop", "--force"])["removedTasks"],
        1
    );
    assert_eq!(shop.json(&["tasks", "list"]), Value::Array(Vec::new()));
}

#[test]
fn a_task_goes_from_added_to_approved() {
    let shop = Shop::new();
    let first = shop.add(
        "Write it",
        &["--source", "docs/SPEC.md#login", "--review", "person"],
    );
    let second = shop.add(
        "Use it",
        &["--needs", &first, "--section", "Phase 2", "--priority", "9"],
    );
    let next = shop.json(&["tasks", "next", "--project", "shop"]);
    assert_eq!(
        (&next["id"], &next["role"]),
        (&first.as_str().into(), &"work".into())
    );
    assert_eq!(next["sourceFile"], "docs/SPEC.md#login");
    let claimed = shop.json(&["tasks", "claim", "--project", "shop"]);
    let token = claimed["token"].as_str().unwrap();
    let refused = shop.lope(&["tasks", "claim", &first[..8]]);
    assert_eq!(
        (refused.code, refused.err.contains("works on it")),
        (3, true),
        "{refused:?}"
    );
    assert_eq!(shop.json(&["locks", "list"])[0]["state"], "held");
    shop.agent(token, &["tasks", "note", "half way"]).done();
    let other = shop.agent(token, &["tasks", "note", "words", "--task", &second]);
    assert_eq!(
        other.code, 3,
        "an agent speaks of its own task alone: {other:?}"
    );
    let forbidden = shop.agent(token, &["tasks", "approve", &first]);
    assert_eq!(forbidden.code, 3, "{forbidden:?}");
    shop.agent(token, &["tasks", "done", "written"]).done();
    let late = shop.agent(token, &["tasks", "done", "again"]);
    assert_eq!(
        (late.code, late.err.contains("lease lost")),
        (3, true),
        "{late:?}"
    );
    let shown = shop.json(&["tasks", "show", &first[..8]]);
    assert_eq!(
        (&shown["status"], &shown["result"]),
        (&"review".into(), &"written".into())
    );
    let kinds: Vec<&Value> = shown["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| &e["kind"])
        .collect();
    assert_eq!(
        kinds,
        ["note", "done", "refused"],
        "a late word is kept as evidence"
    );
    let refused = shown["events"][2]["message"].as_str().unwrap();
    assert!(refused.ends_with("done again"), "{refused}");
    assert_eq!(
        shop.json(&["tasks", "reject", &first, "--notes", "too short"])["status"],
        "pending"
    );
    let claimed = shop.json(&["tasks", "claim", &first]);
    let token = claimed["token"].as_str().unwrap();
    shop.agent(token, &["tasks", "done", "longer"]).done();
    assert_eq!(
        shop.json(&["tasks", "approve", &first])["status"],
        "completed"
    );
    assert_eq!(
        shop.json(&["tasks", "next", "--project", "shop"])["id"],
        second.as_str()
    );
    shop.json(&["tasks", "skip", "--section", "Phase 2", "--project", "shop"]);
    let nothing = shop.lope(&["tasks", "next", "--project", "shop"]);
    assert_eq!(
        (nothing.code, nothing.out.as_str()),
        (1, "no task can be started now\n")
    );
}

#[test]
fn a_question_is_asked_and_answered_and_a_task_split() {
    let shop = Shop::new();
    let id = shop.add("Paint it", &[]);
    assert_eq!(
        shop.json(&["tasks", "ask", "which colour?", "--task", &id])["status"],
        "blocked"
    );
    assert_eq!(
        shop.json(&["tasks", "answer", &id, "blue"])["answer"],
        "blue"
    );
    let parts = shop.json(&["tasks", "split", "sand", "paint", "--task", &id]);
    assert_eq!(parts.as_array().unwrap().len(), 2);
    let shown = shop.json(&["tasks", "show", &id]);
    assert_eq!(
        shown["dependencies"],
        serde_json::json!([parts[0]["id"], parts[1]["id"]])
    );
    assert_eq!(
        shop.json(&["tasks", "remove", parts[0]["id"].as_str().unwrap()])["title"],
        "sand"
    );
    assert_eq!(
        shop.json(&[
            "tasks",
            "fail",
            "no",
            "--task",
            parts[1]["id"].as_str().unwrap()
        ])["status"],
        "failed"
    );
    assert_eq!(
        shop.json(&["tasks", "reset", parts[1]["id"].as_str().unwrap()])["status"],
        "pending"
    );
}

/// A lock that was taken by hand for longer than usual is nobody else's to cut.
#[test]
fn a_claim_for_three_hours_lasts_three_hours() {
    let shop = Shop::new();
    let id = shop.add("By hand", &[]);
    let claimed = shop.json(&["tasks", "claim", &id, "--expiry", "3h"]);
    let other = shop.add("another", &[]);
    shop.json(&["tasks", "claim", &other]);
    let task = shop.json(&["tasks", "show", &id]);
    assert_eq!(task["lock"]["expiresAt"], claimed["expiresAt"]);
}

/// "scoped by an environment token to its own task": an agent looks at everything and changes nothing
/// but its task.
#[test]
fn an_agent_changes_nothing_but_its_own_task() {
    let shop = Shop::new();
    std::fs::create_dir(shop.home.path().join("other")).unwrap();
    shop.json(&["projects", "add", "other"]);
    let id = shop.add("Work", &[]);
    let claimed = shop.json(&["tasks", "claim", &id]);
    let token = claimed["token"].as_str().unwrap();
    shop.home.file(
        "flow.yaml",
        "name: flow\nsteps: { one: { run: [\"true\"] } }\n",
    );
    let run = "01900000-0000-7000-8000-000000000000";
    let refused: [&[&str]; 14] = [
        &["runs", "cancel", run],
        &["runs", "retry", run],
        &["runs", "pause", run],
        &["runs", "resume", run],
        &["runs", "signal", run, "name"],
        &["start", "flow.yaml"],
        &["run", "flow.yaml"],
        &["workflows", "deploy", "flow.yaml"],
        &["schedules", "remove", "name"],
        &["mailbox", "send", "7", "--payload", "hello"],
        &["store", "remove-run", run],
        &["projects", "disable", "other"],
        &["tasks", "add", "elsewhere", "--project", "other"],
        &["tasks", "skip", &id],
    ];
    for args in refused {
        let said = shop.agent(token, args);
        assert_eq!(
            (said.code, said.err.contains("agent at work")),
            (3, true),
            "{args:?}: {said:?}"
        );
    }
    assert_eq!(shop.json(&["tasks", "list"]).as_array().unwrap().len(), 1);
    assert_eq!(shop.json(&["runs", "list"]), Value::Array(Vec::new()));
    for args in [
        &["runs", "list"][..],
        &["tasks", "list"],
        &["tasks", "add", "a follow-up", "--project", "shop"],
        &["workflows", "check", "flow.yaml"],
        &["run", "flow.yaml", "--store", "memory:"],
    ] {
        shop.agent(token, args).done();
    }
}

/// What cannot be meant is refused with how it is meant.
#[test]
fn settings_and_bounds_that_cannot_be_are_refused() {
    let shop = Shop::new();
    let none = shop.lope(&[
        "tasks",
        "add",
        "a",
        "--project",
        "shop",
        "--max-attempts",
        "0",
    ]);
    assert_eq!(
        (none.code, none.err.contains("--max-attempts")),
        (2, true),
        "{none:?}"
    );
    let id = shop.json(&["tasks", "add", "a", "--project", "shop"])["id"].clone();
    let id = id.as_str().unwrap();
    for (words, told) in [
        (
            &["tasks", "claim", id, "--expiry", "0s"][..],
            "error: --expiry: it must be longer than nothing\n",
        ),
        (
            &["tasks", "note", " ", "--task", id],
            "error: nothing is said\n",
        ),
        (
            &["tasks", "ask", "", "--task", id],
            "error: nothing is said\n",
        ),
        (
            &["tasks", "fail", "", "--task", id],
            "error: nothing is said\n",
        ),
        (&["tasks", "answer", id, ""], "error: nothing is said\n"),
    ] {
        let bad = shop.lope(words);
        assert_eq!((bad.code, bad.err.as_str()), (2, told), "{words:?}");
    }
    shop.json(&["projects", "disable", "shop"]);
    let start = ["runners", "start", "--project", "shop"];
    let disabled = shop.lope(&start);
    assert_eq!(
        (disabled.code, disabled.err.contains("lope projects enable")),
        (3, true),
        "{disabled:?}"
    );
    let config = shop.home.path().join(".lope/config.yaml");
    for (text, words) in [
        (
            "agents: { default: { command: claude -p } }",
            "a list, as in [claude, -p]",
        ),
        ("agents: { default: { command: 5 } }", "a list of words"),
        (
            "runners: { budget: { day: { cost: -1 } } }",
            "amount of dollars",
        ),
    ] {
        std::fs::write(&config, text).unwrap();
        let bad = shop.lope(&["projects", "list"]);
        assert_eq!(
            (bad.code, bad.err.contains(words)),
            (2, true),
            "{text}: {bad:?}"
        );
    }
}

#[test]
fn lists_are_imported_and_exported() {
    let shop = Shop::new();
    shop.home.file(
        "list.md",
        "# Shop\n\n- [ ] One\n\n## Two\n\n- [x] Done\n- [ ] Last\n  In full.\n",
    );
    let dry = shop.json(&[
        "tasks",
        "import",
        "list.md",
        "--project",
        "shop",
        "--dry-run",
    ]);
    assert_eq!(dry["added"].as_array().unwrap().len(), 3);
    assert_eq!(shop.json(&["tasks", "list"]).as_array().unwrap().len(), 0);
    shop.json(&["tasks", "import", "list.md", "--project", "shop"]);
    let again = shop.json(&["tasks", "import", "list.md", "--project", "shop"]);
    assert_eq!(
        (&again["skipped"], again["added"].as_array().unwrap().len()),
        (&3.into(), 0)
    );
    for format in ["markdown", "json"] {
        let file = if format == "json" {
            "all.json"
        } else {
            "all.md"
        };
        let export = [
            "tasks",
            "export",
            "--project",
            "shop",
            "--format",
            format,
            "--output",
            file,
        ];
        shop.lope(&export).done();
        std::fs::create_dir(shop.home.path().join(format)).unwrap();
        let other = Shop::new();
        std::fs::copy(shop.home.path().join(file), other.home.path().join(file)).unwrap();
        other.json(&["tasks", "import", file, "--project", "shop"]);
        let plain = |shop: &Shop| -> Vec<Value> {
            let tasks = shop.json(&["tasks", "list"]);
            let keys = [
                "id",
                "title",
                "description",
                "section",
                "status",
                "priority",
                "review",
            ];
            let tasks = tasks.as_array().unwrap().iter();
            let mut tasks: Vec<Value> = tasks
                .map(|task| keys.iter().map(|key| task[key].clone()).collect())
                .collect();
            tasks.sort_by_key(ToString::to_string);
            tasks
        };
        assert_eq!(plain(&other), plain(&shop), "{format}");
    }
    shop.home.file("bad.md", "- [ ] a\n- [?] b\n");
    let bad = shop.lope(&["tasks", "import", "bad.md", "--project", "shop"]);
    assert_eq!(
        (bad.code, bad.err.contains("bad.md:2:")),
        (2, true),
        "{bad:?}"
    );
}

/// "64 processes race for one task 1,000 times: exactly one wins each time." In small here: real
/// processes, a few times.
#[test]
fn of_many_processes_that_claim_one_task_one_wins() {
    let shop = Shop::new();
    for round in 0..3 {
        let id = shop.add(&format!("task {round}"), &[]);
        let claims: Vec<_> = (0..8)
            .map(|_| {
                let mut claim: Command = shop.home.command(&["tasks", "claim", &id, "--json"]);
                claim.stdout(std::process::Stdio::piped());
                claim.stderr(std::process::Stdio::null());
                claim.spawn().unwrap()
            })
            .collect();
        let ended = claims
            .into_iter()
            .map(|claim| claim.wait_with_output().unwrap());
        let won = ended.filter(|output| output.status.success()).count();
        assert_eq!(won, 1, "round {round}");
    }
}

/// "The seed's example query on `runners` works as written", and tasks can be queried beside it.
#[test]
fn the_tables_can_be_queried_as_the_seed_does() {
    let shop = Shop::new();
    shop.add("a", &[]);
    let db = rusqlite::Connection::open(shop.home.path().join(".lope/lope.db")).unwrap();
    db.execute(
        "INSERT INTO runners (id, revision, status, pid, pid_started, boot_id, host, project_path, place, \
         started_at, heartbeat_at, beat, awake) VALUES ('r', 1, 'running', 7, '', '', 'here', ?1, 1, \
         '2026-11-17T00:10:00.000Z', '2026-11-17T00:10:30.250Z', 0, 0)",
        [&shop.path],
    )
    .unwrap();
    let query = "SELECT id, status, project_path, current_task_id,
       datetime(heartbeat_at) as last_heartbeat
FROM runners
WHERE status = 'running';";
    let row: (String, String, String, Option<String>, String) = db
        .query_row(query, [], |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
            ))
        })
        .unwrap();
    let expected = (
        "r",
        "running",
        shop.path.as_str(),
        None,
        "2026-11-17 00:10:30",
    );
    assert_eq!((&*row.0, &*row.1, &*row.2, row.3, &*row.4), expected);
}

#[test]
fn settings_of_agents_are_read_in_both_spellings_and_named_with_their_line() {
    let shop = Shop::new();
    let rows = [
        (
            "runners:\n  heartbeatInterval: soon\n",
            "config.yaml",
            "soon",
        ),
        ("runners:\n  maxConcurrent: 0\n", "line 2", "1 to 1000"),
        ("runners:\n  heartbeats: 3s\n", "line 2", "heartbeats"),
        (
            "runners: { heartbeatInterval: 5m, staleTimeout: 5m }\n",
            "config.yaml:1:",
            "heartbeatInterval",
        ),
        ("agents:\n  default: { command: [] }\n", "line 2", "program"),
        (
            "agents:\n  default: { command: [x], prompt: telepathy }\n",
            "line 2",
            "telepathy",
        ),
        (
            "agents:\n  default: { command: [x], timeout: 0s }\n",
            "line 2",
            "it must be longer than nothing",
        ),
        (
            "agents:\n  default: { command: [x], silence: 0s }\n",
            "line 2",
            "it must be longer than nothing",
        ),
        (
            "runners:\n  hooks: [{ on: [failed], command: [x], timeout: 0s }]\n",
            "line 2",
            "it must be longer than nothing",
        ),
        (
            "runners:\n  hooks: [{ on: [failed], command: [x], retries: 11 }]\n",
            "line 2",
            "a hook is tried again at most 10 times",
        ),
        (
            "runners:\n  hooks: [{ on: [failed], command: [''] }]\n",
            "line 2",
            "a command needs a program",
        ),
        (
            "runners:\n  hooks: [{ on: [failed], url: 'chat.example/hook' }]\n",
            "line 2",
            "a url begins with 'http://' or 'https://'",
        ),
    ];
    for (text, place, word) in rows {
        shop.home.file(".lope/config.yaml", text);
        let said = shop.lope(&["tasks", "list"]);
        let told = said.code == 2 && said.err.contains(place) && said.err.contains(word);
        assert!(told, "{text}: {said:?}");
    }
    let good = "runners:\n  heartbeat_interval: 30s\n  staleTimeout: 5m\n  subprocessHangTimeout: 15m\n  \
        maxConcurrent: 1\n  logRetention: 7d\n  wakeup: { enabled: true, checkInterval: 1m, projectPaths: [~/Projects] }\n\
        agents:\n  default: { command: [\"claude\", \"-p\"], prompt: stdin }\n";
    shop.home.file(".lope/config.yaml", good);
    shop.lope(&["tasks", "list"]).done();
}

/// "`lope config show` prints what is in force and where each value came from", of agents, too.
#[test]
fn the_settings_of_agents_in_force_are_shown_with_where_they_came_from() {
    let shop = Shop::new();
    let shown = |text: &str| -> Vec<String> {
        shop.home.file(".lope/config.yaml", text);
        let rows = shop.json(&["config", "show"]);
        let word = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| {
            let [name, value, source] = ["name", "value", "source"].map(|key| word(row, key));
            format!("{name} = {value} ({source})")
        })
        .collect()
    };
    let usual = shown("");
    for line in [
        "agents.default.command = claude -p (default)",
        "agents.default.prompt = stdin (default)",
        "agents.default.timeout = runners.taskTimeout (default)",
        "runners.heartbeatInterval = 30s (default)",
        "runners.budget.day.cost = unlimited (default)",
        "runners.wakeup.enabled = true (default)",
        "runners.hooks = none (default)",
    ] {
        assert!(usual.iter().any(|it| it == line), "{line}: {usual:#?}");
    }
    let documented = include_str!("../../../docs/settings.md");
    let rows = usual
        .iter()
        .filter_map(|line| line.strip_prefix("runners."));
    let rows: Vec<&str> = rows.collect();
    assert!(rows.len() > 20, "{usual:#?}");
    for row in rows {
        let [name, value] = row
            .trim_end_matches(" (default)")
            .split(" = ")
            .collect::<Vec<_>>()[..]
        else {
            panic!("{row}");
        };
        let budget = name
            .strip_prefix("budget.")
            .and_then(|it| it.split_once('.'));
        let begin = match budget {
            Some((_, limit)) => {
                assert!(documented.contains(&format!("`{limit}`")), "{row}");
                format!("`budget.task`, `budget.project`, `budget.day` | {value} |")
            }
            None => format!("| `{name}` | {value} |"),
        };
        assert!(
            documented.contains(&begin),
            "docs/settings.md does not say: {begin}"
        );
    }
    let said = shown(
        "agents: { mine: { command: [./agent.sh, -x], prompt: file, silence: 5m, env: [KEY] } }\n\
         runners: { stale_timeout: 7m, budget: { day: { cost: 2.5, wall_time: 3h } }, wakeup: { enabled: false },\n  \
         hooks: [{ on: [failed, blocked], url: 'https://me:pw@chat.example/hook/secret' }] }\n",
    );
    for line in [
        "agents.default.command = claude -p (default)",
        "agents.mine.command = ./agent.sh -x (file)",
        "agents.mine.prompt = file (file)",
        "agents.mine.adapter = command (default)",
        "agents.mine.env = KEY (file)",
        "agents.mine.silence = 5m (file)",
        "runners.staleTimeout = 7m (file)",
        "runners.heartbeatInterval = 30s (default)",
        "runners.budget.day.cost = $2.50 (file)",
        "runners.budget.day.wallTime = 3h (file)",
        "runners.budget.day.attempts = unlimited (default)",
        "runners.wakeup.enabled = false (file)",
        "runners.wakeup.checkInterval = 1m (default)",
        "runners.hooks = failed|blocked → https://chat.example (file)",
    ] {
        assert!(said.iter().any(|it| it == line), "{line}: {said:#?}");
    }
}
