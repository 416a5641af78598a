//! `--server`: every command through a server says what it says on the store, and no token does more
//! than it may.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::bad_input;
use crate::fixture::http::Request;
use crate::server::Up;
use crate::stage::{Home, Said, Watch, output, said, until};

/// Commands that work on the machine where they are typed.
const STORE_ONLY: &[&str] = &[
    "doctor",
    "mailbox work",
    "mcp",
    "runners cron install",
    "runners cron status",
    "runners cron uninstall",
    "runners start",
    "runners wakeup",
    "store copy",
    "store migrate",
    "up",
];

/// Commands that need neither a store nor a server.
const HERE: &[&str] = &[
    "bench",
    "completions",
    "config show",
    "recipes check",
    "version",
    "workflows check",
];

/// A command with arguments. In them `@@` becomes `s` where it is done on the store and `v` where a
/// server does it, so that both meet the same, and `WORKER` a worker of its own; `RUN(k)` and `TASK(k)` become ids.
type Pair = (&'static str, &'static [&'static str]);

/// Looking changes nothing: all of these are done on both, as text and as JSON.
const READS: &[Pair] = &[
    ("runs list", &["--limit", "200"]),
    ("runs list", &["--status", "completed", "--tag", "of=test"]),
    ("runs show", &["done-s"]),
    ("runs show", &["fails-s"]),
    ("runs why", &["hold-s"]),
    ("runs journal", &["done-s"]),
    ("runs graph", &["done-s"]),
    ("runs watch", &["done-s"]),
    ("runs wait", &["done-s"]),
    ("runs wait", &["fails-s"]),
    ("runs logs", &["says-s"]),
    ("runs logs", &["says-s", "--follow"]),
    ("runs results", &["done-s"]),
    ("runs export", &["done-s"]),
    ("workflows list", &[]),
    ("workflows show", &["hi"]),
    ("workflows graph", &["hi"]),
    ("workflows graph", &["hi.yaml"]),
    ("schedules list", &[]),
    ("schedules show", &["nightly-s"]),
    ("mailbox list", &["7"]),
    ("mailbox timers", &["7"]),
    ("mailbox dead", &["7"]),
    ("mailbox stats", &[]),
    ("recipes list", &[]),
    ("recipes show", &["home/s"]),
    ("recipes why", &["home/s"]),
    ("recipes graph", &["home/s"]),
    ("cells get", &["home/s"]),
    ("cells links", &["home/s"]),
    ("cells history", &["home/s"]),
    ("cells watch", &["home/s", "--count", "1"]),
    ("projects list", &[]),
    ("projects show", &["shop"]),
    ("tasks list", &[]),
    ("tasks show", &["TASK(first-s)"]),
    ("tasks next", &["--project", "shop"]),
    ("tasks export", &["--project", "shop"]),
    ("tasks logs", &["TASK(first-s)"]),
    ("tasks diff", &["TASK(first-s)"]),
    ("locks list", &[]),
    ("runners list", &[]),
    ("runners show", &["nobody"]),
    ("runners logs", &["--all"]),
    ("tokens list", &[]),
    ("store check", &[]),
    ("store schema", &[]),
];

/// What changes something, each on things of its own.
const ACTS: &[Pair] = &[
    (
        "run",
        &["hi.yaml", "--key", "ran-@@", "--input", "@in.json"],
    ),
    ("run", &["bad.yaml"]),
    ("run", &["fails.yaml", "--key", "ran-badly-@@"]),
    ("start", &["hold", "--key", "started-@@", "--tag", "a=b"]),
    ("start", &["hi.yaml", "--key", "from-file-@@"]),
    ("runs signal", &["hold-@@", "go", "[1]"]),
    ("runs feed", &["open-@@", "5"]),
    ("runs pause", &["pause-@@"]),
    ("runs resume", &["pause-@@"]),
    ("runs cancel", &["pause-@@"]),
    ("runs retry", &["fails-@@"]),
    ("runs fork", &["done-@@", "--at", "1", "--key", "forked-@@"]),
    ("runs export", &["done-@@", "--output", "export-@@.json"]),
    ("runs export", &["done-@@", "--output", "in.json"]),
    (
        "runs graph",
        &["done-@@", "--format", "svg", "-o", "drawn-@@.svg"],
    ),
    ("workflows deploy", &["hi.yaml", "hold.yaml"]),
    (
        "schedules add",
        &["hourly-@@", "hi", "--every", "1h", "--input", "-"],
    ),
    ("schedules pause", &["nightly-@@"]),
    ("schedules resume", &["nightly-@@"]),
    ("schedules run", &["nightly-@@"]),
    ("schedules remove", &["nightly-@@"]),
    (
        "mailbox send",
        &["WORKER", "--payload", "@in.json", "--id", "m-@@"],
    ),
    ("mailbox drop", &["WORKER", "1", "--queued"]),
    ("mailbox replay", &["WORKER", "--all"]),
    ("cells set", &["home/@@/count", "3"]),
    ("streams send", &["home/@@/add", "2", "--id", "e-@@"]),
    ("recipes stop", &["home/@@"]),
    ("recipes run", &["--into", "home/@@"]),
    ("projects add", &["shop-@@"]),
    ("projects disable", &["shop-@@"]),
    ("projects enable", &["shop-@@"]),
    ("projects remove", &["shop-@@"]),
    ("tasks add", &["more-@@", "--project", "shop"]),
    ("tasks note", &["--task", "TASK(first-@@)", "hello"]),
    ("tasks ask", &["--task", "TASK(first-@@)", "why?"]),
    ("tasks answer", &["TASK(first-@@)", "because"]),
    ("tasks split", &["--task", "TASK(first-@@)", "one", "two"]),
    ("tasks done", &["--task", "TASK(second-@@)", "it works"]),
    ("tasks fail", &["--task", "TASK(third-@@)", "it does not"]),
    ("tasks approve", &["TASK(second-@@)"]),
    ("tasks reject", &["TASK(second-@@)"]),
    ("tasks skip", &["TASK(fourth-@@)"]),
    ("tasks reset", &["TASK(fourth-@@)"]),
    ("tasks remove", &["TASK(fourth-@@)"]),
    ("tasks import", &["list-@@.md", "--project", "shop"]),
    (
        "tasks export",
        &["--project", "shop", "--output", "tasks-@@.md"],
    ),
    ("tasks claim", &["TASK(third-@@)"]),
    ("locks release", &["TASK(third-@@)", "--force"]),
    ("runners stop", &["--all"]),
    ("tokens add", &["made-@@", "--right", "read"]),
    ("tokens revoke", &["made-@@"]),
    ("store prune", &["--older", "1d"]),
    ("store remove-run", &["RUN(done-@@)"]),
    ("store backup", &["copy-@@.db"]),
];

/// A folder with a store, a runner and its server.
struct Scene {
    home: Home,
    up: Up,
}

impl Scene {
    fn open() -> Self {
        let home = Home::new();
        home.file("hi.yaml", "name: hi\nsteps: { a: { let: 1 } }\n");
        home.file(
            "hold.yaml",
            "name: hold\nsteps: { a: { wait: go }, b: { return: \"${{ a }}\" } }\n",
        );
        home.file(
            "fails.yaml",
            "name: fails\nsteps: { a: { raise: { type: Oops, message: it broke } } }\n",
        );
        home.file(
            "says.yaml",
            "name: says\nsteps: { a: { run: [echo, hello] } }\n",
        );
        home.file("bad.yaml", "name: bad\nsteps:\n  a: { rnu: echo }\n");
        home.file("in.json", "{\"n\": 1}");
        for name in ["list-s.md", "list-v.md"] {
            home.file(name, &format!("## One\n- [ ] a task of {name}\n"));
        }
        for folder in ["shop", "shop-s", "shop-v"] {
            std::fs::create_dir(home.path().join(folder)).unwrap();
        }
        let up = Up::start(&home, &["--http", "127.0.0.1:0"]);
        let scene = Self { home, up };
        scene.fill();
        scene
    }

    fn fill(&self) {
        let home = &self.home;
        let files = ["hi.yaml", "hold.yaml", "fails.yaml", "says.yaml"];
        home.lope(&[&["workflows", "deploy"], &files[..]].concat())
            .done();
        home.lope(&["projects", "add", "shop"]).done();
        home.lope(&["mailbox", "send", "7", "--payload", "x", "--id", "m"])
            .done();
        home.lope(&["mailbox", "send", "7", "--payload", "y", "--at", "1h"])
            .done();
        for own in ["s", "v"] {
            let key = |word: &str| format!("{word}-{own}");
            for (workflow, word) in [
                ("hi", "done"),
                ("hold", "hold"),
                ("hold", "pause"),
                ("fails", "fails"),
                ("says", "says"),
            ] {
                let key = key(word);
                home.lope(&["start", workflow, "--key", &key, "--tag", "of=test"])
                    .done();
            }
            home.lope(&["start", "hi", "--open", "--key", &key("open")])
                .done();
            for (word, status) in [
                ("done", "completed"),
                ("fails", "failed"),
                ("says", "completed"),
                ("hold", "waiting"),
                ("pause", "waiting"),
                ("open", "idle"),
            ] {
                until(word, || {
                    self.shown(&key(word))["status"].as_str() == Some(status)
                });
            }
            let daily = [
                "schedules",
                "add",
                &key("nightly"),
                "hi",
                "--cron",
                "@daily",
            ];
            home.lope(&daily).done();
            let recipe = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../../examples/reactive/counter.yaml")
                .display()
                .to_string();
            let cell = format!("home/{own}");
            home.lope(&["recipes", "run", &recipe, "--into", &cell])
                .done();
            for word in ["first", "second", "third", "fourth"] {
                home.lope(&["tasks", "add", &key(word), "--project", "shop"])
                    .done();
            }
        }
        // Whoever hosts a space rests after a while; both ways meet it at rest or hosted alike.
        home.lope(&["cells", "get", "home/s"]).done();
    }

    fn shown(&self, run: &str) -> serde_json::Value {
        self.home
            .lope(&["runs", "show", run, "--json"])
            .done()
            .json()
    }

    fn url(&self) -> String {
        format!("http://{}", self.up.address)
    }

    /// Words with ids and the letter of the way filled in.
    fn words(&self, pair: &Pair, own: &str) -> Vec<String> {
        let verb = pair.0.split(' ').map(str::to_owned);
        let worker = if own == "s" { "8" } else { "9" };
        let args = pair
            .1
            .iter()
            .map(|arg| self.filled(&arg.replace("@@", own).replace("WORKER", worker)));
        verb.chain(args).collect()
    }

    fn filled(&self, arg: &str) -> String {
        let within = |name: &str| arg.strip_prefix(name)?.strip_suffix(')');
        if let Some(key) = within("RUN(") {
            return self.shown(key)["run_id"].as_str().unwrap().to_owned();
        }
        let Some(title) = within("TASK(") else {
            return arg.to_owned();
        };
        let tasks = self.home.lope(&["tasks", "list", "--json"]).done().json();
        let mut tasks = tasks.as_array().unwrap().iter();
        let task = tasks.find(|task| task["title"] == title).unwrap();
        task["id"].as_str().unwrap().to_owned()
    }

    fn store(&self, words: &[String]) -> Said {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        fed(&mut self.home.command(&words))
    }

    /// What is read on the store and through the server. The runner goes on meanwhile (it gives a
    /// run back, a space comes to rest), so what differs is read again for a while.
    fn read_both_ways(&self, words: &[String]) -> (Said, Said) {
        let patience = Instant::now() + Duration::from_secs(20);
        loop {
            let both = (self.store(words), self.server(words, None));
            if told(&both.0) == told(&both.1) || Instant::now() > patience {
                return both;
            }
        }
    }

    fn server(&self, words: &[String], token: Option<&str>) -> Said {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = self.home.command(&words);
        command.env("LOPE_SERVER", self.url());
        token.iter().for_each(|token| {
            command.env("LOPE_TOKEN", token);
        });
        fed(&mut command)
    }
}

/// What a command says that is given a number on its standard input.
fn fed(command: &mut Command) -> Said {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _watch = crate::stage::Watch::over(&child);
    let mut stdin = child.stdin.take().unwrap();
    // A command that reads nothing may be gone already.
    let _ = std::io::Write::write_all(&mut stdin, b"17");
    drop(stdin);
    Said::of(&child.wait_with_output().unwrap())
}

/// Ids, times and ages differ from one call to the next, and the letter of the way does.
fn alike(text: &str) -> String {
    let text = text.replace("-v", "-s").replace("home/v", "home/s");
    // Help names the flags that are in force.
    let text = text.replace(" --server <URL>", "");
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\n']) {
        if c.is_ascii_alphanumeric() || "-_:.+".contains(c) {
            word.push(c);
            continue;
        }
        let counts = word.chars().any(|c| c.is_ascii_digit());
        out.push_str(if counts { "#" } else { &word });
        word.clear();
        out.push(c);
    }
    // Columns are as wide as what stands in them.
    let lines = out.lines().map(|line| {
        let words: Vec<&str> = line.split([' ', '─']).filter(|it| !it.is_empty()).collect();
        words.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// How far a run is that was just started is a matter of moments.
fn just_begun(said: &Said) -> (i32, String, String) {
    let (code, out, err) = told(said);
    let words = ["queued", "running", "waiting", "completed"];
    let out = words
        .iter()
        .fold(out, |out, word| out.replace(word, "begun"));
    (code, out, err)
}

fn told(said: &Said) -> (i32, String, String) {
    (said.code, alike(&said.out), alike(&said.err))
}

#[test]
fn every_command_says_the_same_on_the_store_and_through_a_server() {
    let scene = Scene::open();
    let mut wrong = Vec::new();
    for pair in READS {
        for json in [false, true] {
            let mut words = scene.words(pair, "s");
            words.extend(json.then(|| "--json".to_owned()));
            let (on_store, on_server) = scene.read_both_ways(&words);
            if told(&on_store) != told(&on_server) {
                wrong.push(format!("{words:?}\n{on_store:#?}\n{on_server:#?}"));
            }
        }
    }
    for pair in ACTS {
        let on_store = scene.store(&scene.words(pair, "s"));
        let words = scene.words(pair, "v");
        let on_server = scene.server(&words, None);
        if just_begun(&on_store) != just_begun(&on_server) {
            wrong.push(format!("{words:?}\n{on_store:#?}\n{on_server:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for name in ["export", "drawn", "tasks", "copy"] {
        let file = |own: &str| {
            let names = ["json", "svg", "md", "db"].map(|end| format!("{name}-{own}.{end}"));
            let mut paths = names.iter().map(|name| scene.home.path().join(name));
            paths
                .find(|path| path.is_file())
                .map(|path| std::fs::read(path).unwrap().len())
        };
        let (own, other) = (file("s").unwrap(), file("v").unwrap());
        assert!(
            own.abs_diff(other) * 10 <= own,
            "{name}: {own} and {other} bytes"
        );
    }
}

#[test]
fn every_command_has_a_place_when_a_server_is_named() {
    let home = Home::new();
    let known: BTreeSet<&str> = READS
        .iter()
        .chain(ACTS)
        .map(|pair| pair.0)
        .chain(STORE_ONLY.iter().copied())
        .chain(HERE.iter().copied())
        .chain(["open"])
        .collect();
    let known: BTreeSet<String> = known.into_iter().map(str::to_owned).collect();
    assert_eq!(bad_input::commands(&home, &[]), known);
}

/// Verbs that `POST /api/commands` alone does.
const BY_COMMAND: &[&str] = &[
    "run",
    "runners logs",
    "tasks claim",
    "tasks export",
    "tasks import",
];

/// The document names the endpoint of every verb that a server does, and no verb that there is not.
#[test]
fn every_command_that_a_server_does_is_named_by_an_endpoint() {
    let home = Home::new();
    let up = Up::start(&home, &["--http", "127.0.0.1:0"]);
    let document = up.send(Request::get("/api/openapi.json")).json();
    let paths = document["paths"].as_object().unwrap().values();
    let operations = paths.flat_map(|path| path.as_object().unwrap().values());
    let commands = operations.filter_map(|it| it["x-commands"].as_array());
    let mut found: BTreeSet<&str> = commands.flatten().map(|it| it.as_str().unwrap()).collect();
    for verb in BY_COMMAND {
        assert!(found.insert(verb), "{verb} has an endpoint");
    }
    // A file is checked where it is, or sent to be checked.
    let served = READS.iter().chain(ACTS).map(|pair| pair.0);
    let served: BTreeSet<&str> = served.chain(["workflows check"]).collect();
    assert_eq!(found, served);
}

/// What `bad_input` holds against the store, held against a server.
#[test]
fn bad_input_is_refused_by_a_server_as_it_is_on_a_store() {
    let (home, _) = bad_input::stage();
    let up = Up::start(&home, &["--http", "127.0.0.1:0"]);
    let url = format!("http://{}", up.address);
    let runs = || home.lope(&["runs", "list", "--json"]).done().out;
    let before = runs();
    let mut wrong = Vec::new();
    for (command, args, exit, word) in bad_input::ROWS {
        let local = [STORE_ONLY, HERE, &["open"]].concat().contains(command);
        if local || args.contains(&"--store") {
            continue;
        }
        let mut words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        words.extend(bad_input::filled(&home, args));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let refused = said(home.command(&words).env("LOPE_SERVER", &url));
        // A file that never ends is cut shorter on its way.
        let endless = args.iter().any(|arg| arg.contains("/dev/zero"));
        let right = refused.code == *exit && (refused.err.contains(word) || endless);
        if !right || !refused.err.starts_with("error: ") || !refused.out.is_empty() {
            wrong.push(format!(
                "{words:?} should exit {exit} and say '{word}': {refused:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(runs(), before);
}

#[test]
fn what_a_server_cannot_do_is_said_in_a_line_and_the_rest_needs_none() {
    let home = Home::new();
    home.file("hi.yaml", "name: hi\nsteps: { a: { let: 1 } }\n");
    // Nobody listens there: whoever asked would learn so.
    let nobody = "http://127.0.0.1:1";
    for command in STORE_ONLY {
        let given: &[&str] = match *command {
            "mailbox work" => &["7", "--", "true"],
            "runners start" => &["--project", "."],
            "store copy" => &["sqlite:a.db", "sqlite:b.db"],
            _ => &[],
        };
        let words: Vec<&str> = command.split(' ').chain(given.iter().copied()).collect();
        let refused = said(home.command(&words).env("LOPE_SERVER", nobody));
        let line = format!("error: 'lope {command}' works on this machine with a store");
        assert_eq!(refused.code, 2, "{command}: {refused:?}");
        assert!(refused.err.starts_with(&line), "{command}: {refused:?}");
    }
    for words in [
        &["version"][..],
        &["completions", "bash"],
        &["config", "show"],
        &["workflows", "check", "hi.yaml"],
        &["recipes", "check", "hi.yaml"],
        &["bench", "nothing"],
    ] {
        let alone = home.lope(words);
        let named = said(home.command(words).env("LOPE_SERVER", nobody));
        assert_eq!(told(&alone), told(&named), "{words:?}");
    }
    let away = said(home.command(&["runs", "list"]).env("LOPE_SERVER", nobody));
    assert_eq!(away.code, 4, "{away:?}");
    assert!(
        away.err.contains("no server answers at http://127.0.0.1:1"),
        "{away:?}"
    );
    let both = home.lope(&["runs", "list", "--server", nobody, "--store", "memory:"]);
    assert_eq!((both.code, both.out.as_str()), (2, ""), "{both:?}");
    let bad = home.lope(&["runs", "list", "--server", "nowhere"]);
    assert_eq!(
        (bad.code, bad.err.contains("'nowhere' is no address")),
        (2, true),
        "{bad:?}"
    );
    // What was typed goes before what the environment says.
    let mut stored = home.command(&["runs", "list", "--store", "sqlite:none.db"]);
    let stored = said(stored.env("LOPE_SERVER", nobody));
    assert_eq!(
        (stored.code, stored.out.trim()),
        (0, "no runs"),
        "{stored:?}"
    );
}

#[test]
fn no_token_does_more_than_it_may() {
    let home = Home::new();
    std::fs::create_dir(home.path().join(".lope")).unwrap();
    home.file(".lope/config.yaml", "server: { authentication: always }\n");
    home.file("hi.yaml", "name: hi\nsteps: { a: { let: 1 } }\n");
    home.lope(&["workflows", "deploy", "hi.yaml"]).done();
    let token = |name: &str, right: &str| {
        let made = home.lope(&["tokens", "add", name, "--right", right]).done();
        made.out.trim().to_owned()
    };
    let (read, act, admin) = (token("r", "read"), token("a", "act"), token("b", "admin"));
    let up = Up::start(&home, &["--http", "127.0.0.1:0"]);
    let url = format!("http://{}", up.address);
    let through = |token: &str, words: &[&str]| {
        let mut command = home.command(words);
        said(command.env("LOPE_SERVER", &url).env("LOPE_TOKEN", token))
    };
    let before = home.lope(&["runs", "list", "--json"]).done().out;
    for wrong in ["", "lope_wrong"] {
        let refused = through(wrong, &["runs", "list"]);
        assert_eq!((refused.code, refused.out.as_str()), (3, ""), "{refused:?}");
        assert!(refused.err.contains("LOPE_TOKEN"), "{refused:?}");
    }
    for (verb, args) in ACTS
        .iter()
        .filter(|pair| !["runs export", "runs graph", "tasks export"].contains(&pair.0))
    {
        let args = args
            .iter()
            .map(|arg| arg.replace("@@", "x").replace("WORKER", "8"));
        let words: Vec<String> = verb.split(' ').map(str::to_owned).chain(args).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let refused = through(&read, &words);
        assert_eq!(
            (refused.code, refused.out.as_str()),
            (3, ""),
            "{words:?} {refused:?}"
        );
        assert!(
            refused.err.contains("takes the right"),
            "{words:?} {refused:?}"
        );
    }
    for words in [
        &["workflows", "deploy", "hi.yaml"][..],
        &["start", "hi.yaml"],
        &["run", "hi.yaml"],
        &["schedules", "add", "n", "hi.yaml", "--every", "1h"],
        &["tokens", "list"],
        &["tokens", "add", "mine", "--right", "admin"],
        &["store", "prune", "--older", "1d"],
        &["store", "backup", "b.db"],
        &["projects", "add", "."],
    ] {
        let refused = through(&act, words);
        assert_eq!(
            (refused.code, refused.out.as_str()),
            (3, ""),
            "{words:?} {refused:?}"
        );
        assert!(
            refused.err.contains("the right 'admin'"),
            "{words:?} {refused:?}"
        );
    }
    assert_eq!(home.lope(&["runs", "list", "--json"]).done().out, before);
    assert!(!home.path().join("b.db").exists());
    through(&read, &["runs", "list"]).done();
    through(&act, &["start", "hi", "--key", "k"]).done();
    through(&admin, &["run", "hi.yaml", "--key", "l"]).done();
    assert_eq!(through(&read, &["runs", "wait", "k"]).done().out, "1\n");
}

#[test]
fn a_server_reads_the_files_of_its_caller_and_none_of_its_own() {
    let scene = Scene::open();
    let elsewhere = Home::new();
    elsewhere.file(
        "mine.yaml",
        "name: mine\nsteps: { a: { return: \"${{ input }}\" } }\n",
    );
    elsewhere.file("mine.json", "[\"mine\"]");
    let through = |words: &[&str]| {
        let mut command = elsewhere.command(words);
        output(command.env("LOPE_SERVER", scene.url()))
    };
    let ran = Said::of(&through(&["run", "mine.yaml", "--input", "@mine.json"])).done();
    assert_eq!(ran.out, "[\"mine\"]\n");
    // There is such a file where the server works, and none where the command was typed.
    for words in [
        &["run", "says.yaml"][..],
        &["start", "hi", "--input", "@in.json"],
        &["mailbox", "send", "7", "--payload", "@in.json"],
    ] {
        let refused = Said::of(&through(words));
        assert_eq!(
            (refused.code, refused.out.as_str()),
            (2, ""),
            "{words:?} {refused:?}"
        );
        assert!(
            refused.err.contains("No such file"),
            "{words:?} {refused:?}"
        );
    }
    let kept = through(&["store", "backup", "copy.db"]);
    assert!(kept.status.success(), "{kept:?}");
    let copy = format!("sqlite:{}", elsewhere.path().join("copy.db").display());
    let found = elsewhere.lope(&["runs", "show", "done-s", "--json", "--store", &copy]);
    assert_eq!(found.done().json()["status"], "completed");
    let again = Said::of(&through(&["store", "backup", "copy.db"]));
    assert_eq!(
        (again.code, again.err.contains("copy.db exists already")),
        (3, true),
        "{again:?}"
    );
    let page = Said::of(&through(&["open", "done-s", "--print"])).done();
    let run = scene.shown("done-s")["run_id"].clone();
    let url = format!("{}/runs/{}\n", scene.url(), run.as_str().unwrap());
    assert_eq!(page.out, url);
}

#[test]
fn what_a_workflow_redacts_is_not_shown_through_a_server() {
    let home = Home::new();
    home.file(
        "pay.yaml",
        "name: pay\nredact: [input.card, charge.pin, done.pin, result.pin]\nsteps:\n  charge: { let: \"${{ {'pin': 7, 'card': input.card} }}\" }\n  say: { run: [echo, \"${{ input.card }}\"], needs: [charge] }\n  done: { return: \"${{ charge }}\", needs: [say] }\n",
    );
    let input = "{\"card\": \"4111-2222-3333\"}";
    home.lope(&["run", "pay.yaml", "--key", "p", "--input", input])
        .done();
    let up = Up::start(&home, &["--http", "127.0.0.1:0"]);
    let url = format!("http://{}", up.address);
    for words in [
        &["runs", "show", "p"][..],
        &["runs", "list"],
        &["runs", "wait", "p"],
        &["runs", "watch", "p"],
        &["runs", "results", "p"],
        &["runs", "export", "p"],
        &["runs", "logs", "p"],
        &["runs", "logs", "p", "--follow"],
        &["runs", "journal", "p"],
        &["runs", "why", "p"],
        &["workflows", "show", "pay"],
        &["run", "pay.yaml", "--key", "q", "--input", input],
    ] {
        for json in [&[][..], &["--json"]] {
            let words = [words, json].concat();
            let through = said(home.command(&words).env("LOPE_SERVER", &url)).done();
            let all = format!("{}{}", through.out, through.err);
            assert!(!all.contains("4111-2222-3333"), "{words:?}: {all}");
            assert!(
                !all.contains("\"pin\":7") && !all.contains("\"pin\": 7"),
                "{words:?}: {all}"
            );
        }
    }
    let own = home.lope(&["runs", "wait", "p"]).done().out;
    assert!(
        own.contains("4111-2222-3333"),
        "who has the store sees it: {own}"
    );
}

/// Whoever watches goes on when its server is back: nothing missed, nothing told twice.
#[test]
fn a_watched_cell_is_followed_through_the_end_of_its_server() {
    let home = Home::new();
    home.lope(&["cells", "set", "home/n", "1"]).done();
    let mut up = Up::start(&home, &["--http", "127.0.0.1:0"]);
    let (address, url) = (up.address.clone(), format!("http://{}", up.address));
    let mut command = home.command(&["cells", "watch", "home/n", "--count", "4", "--server", &url]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watching = command.spawn().unwrap();
    let _watch = Watch::over(&watching);
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut errors = BufReader::new(watching.stderr.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert_eq!(next(), "1");
    // Killed while nothing changes, then asked to end while something does.
    up.child.kill().unwrap();
    up.child.wait().unwrap();
    let away = format!("the server at {url} is away; going on when it is back");
    assert_eq!(errors.next().unwrap().unwrap(), away);
    up = Up::start(&home, &["--http", &address]);
    home.lope(&["cells", "set", "home/n", "2"]).done();
    assert_eq!(next(), "2");
    let process = rustix::process::Pid::from_child(&up.child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert_eq!(up.child.wait().unwrap().code(), Some(0));
    assert_eq!(errors.next().unwrap().unwrap(), away);
    home.lope(&["cells", "set", "home/n", "3"]).done();
    let _up = Up::start(&home, &["--http", &address]);
    assert_eq!(next(), "3", "what changed meanwhile");
    home.lope(&["cells", "set", "home/n", "4"]).done();
    assert_eq!(next(), "4");
    assert!(lines.next().is_none() && errors.next().is_none());
    assert_eq!(watching.wait().unwrap().code(), Some(0));
}

/// A server that says no is not asked again.
#[test]
fn a_watch_ends_when_a_server_that_comes_back_refuses_it() {
    let home = Home::new();
    home.lope(&["cells", "set", "home/n", "1"]).done();
    let made = home
        .lope(&["tokens", "add", "mine", "--right", "read"])
        .done();
    let up = Up::start(&home, &["--http", "127.0.0.1:0"]);
    let (address, url) = (up.address.clone(), format!("http://{}", up.address));
    let mut command = home.command(&["cells", "watch", "home/n", "--server", &url]);
    command.env("LOPE_TOKEN", made.out.trim());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watching = command.spawn().unwrap();
    let _watch = Watch::over(&watching);
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "1");
    drop(up);
    home.lope(&["tokens", "revoke", "mine"]).done();
    let _up = Up::start(&home, &["--http", &address]);
    assert_eq!(watching.wait().unwrap().code(), Some(3));
    let errors = BufReader::new(watching.stderr.take().unwrap()).lines();
    let errors: Vec<String> = errors.map_while(Result::ok).collect();
    assert!(errors[0].contains("is away"), "{errors:?}");
    assert!(errors[1].contains("token"), "{errors:?}");
    let never = home
        .command(&["cells", "watch", "home/n", "--server", "http://127.0.0.1:9"])
        .output();
    assert_eq!(
        never.unwrap().status.code(),
        Some(4),
        "nobody was ever there"
    );
}

/// Answers whoever asks, in this order, and again with the last of them.
fn answering(address: &str, answers: &'static [(&'static str, &'static str)]) {
    let mut listener = None;
    until("the address is free", || {
        listener = std::net::TcpListener::bind(address).ok();
        listener.is_some()
    });
    std::thread::spawn(move || {
        let last = answers.last().into_iter().cycle();
        let connections = listener.iter().flat_map(std::net::TcpListener::incoming);
        for (connection, (status, body)) in connections.zip(answers.iter().chain(last)) {
            let mut connection = connection.unwrap();
            let mut asked = BufReader::new(connection.try_clone().unwrap());
            let mut line = String::new();
            while asked.read_line(&mut line).is_ok_and(|read| read > 2) {
                line.clear();
            }
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            // It may have been told enough.
            let _ = connection.write_all(answer.as_bytes());
        }
    });
}

/// What a server that comes back says: no, for good, or that it is not there yet.
#[test]
fn a_watch_ends_when_it_may_not_see_any_more_and_goes_on_while_nobody_is_behind_the_address() {
    let away = ("502 Bad Gateway", "<html>nobody there</html>");
    let busy = (
        "503 Service Unavailable",
        r#"{"error": {"message": "it ends"}}"#,
    );
    let ways: [(&'static [_], i32, &str); 3] = [
        (
            Box::leak(Box::new([
                away,
                busy,
                ("403 Forbidden", r#"{"error": {"message": "not you"}}"#),
            ])),
            3,
            "not you",
        ),
        (
            Box::leak(Box::new([(
                "404 Not Found",
                r#"{"error": {"message": "no such thing"}}"#,
            )])),
            1,
            "no such thing",
        ),
        (
            Box::leak(Box::new([(
                "401 Unauthorized",
                r#"{"error": {"message": "who?"}}"#,
            )])),
            3,
            "who?",
        ),
    ];
    let home = Home::new();
    home.lope(&["cells", "set", "home/n", "1"]).done();
    for (answers, code, why) in ways {
        let up = Up::start(&home, &["--http", "127.0.0.1:0"]);
        let (address, url) = (up.address.clone(), format!("http://{}", up.address));
        let mut command = home.command(&["cells", "watch", "home/n", "--server", &url]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut watching = command.spawn().unwrap();
        let _watch = Watch::over(&watching);
        let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "1");
        drop(up);
        answering(&address, answers);
        assert_eq!(watching.wait().unwrap().code(), Some(code), "{why}");
        assert!(lines.next().is_none(), "nothing is told twice");
        let errors = BufReader::new(watching.stderr.take().unwrap()).lines();
        let errors: Vec<String> = errors.map_while(Result::ok).collect();
        assert!(
            errors[0].ends_with("is away; going on when it is back"),
            "{errors:?}"
        );
        assert!(errors[1].contains(why), "{errors:?}");
    }
}
