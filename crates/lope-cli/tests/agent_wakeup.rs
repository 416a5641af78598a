//! Wake-up and what calls it: runners where tasks wait, none where one works, the dead replaced; one
//! line of a crontab.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::stage::{Home, Said, said, until};

/// A home with projects whose agent notes what it did.
pub(crate) struct Village {
    pub(crate) home: Home,
}

impl Village {
    pub(crate) fn new(runners: &str) -> Self {
        let home = Home::new();
        std::fs::create_dir(home.path().join(".lope")).unwrap();
        let config = format!(
            "agents: {{ default: {{ command: [sh, -c, 'cat >/dev/null; echo $LOPE_TASK_ID >>done.log; \
             while [ -e hold ]; do sleep 0.05; done'] }} }}\nrunners:\n  review: none\n  heartbeatInterval: 200ms\n{runners}"
        );
        std::fs::write(home.path().join(".lope/config.yaml"), config).unwrap();
        Self { home }
    }

    pub(crate) fn project(&self, name: &str) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        let path = path.canonicalize().unwrap();
        self.lope(&["projects", "add", path.to_str().unwrap()])
            .done();
        path
    }

    pub(crate) fn add(&self, project: &Path, title: &str) -> String {
        let added = self.json(&[
            "tasks",
            "add",
            title,
            "--project",
            project.to_str().unwrap(),
        ]);
        added["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn lope(&self, args: &[&str]) -> Said {
        self.home.lope(args)
    }

    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        self.lope(&args).done().json()
    }

    pub(crate) fn status(&self, id: &str) -> Value {
        self.json(&["tasks", "show", id])["status"].clone()
    }

    /// All files of the home folder with what they hold.
    fn bytes(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut rest = vec![self.home.path().to_owned()];
        while let Some(folder) = rest.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                if entry.path().is_dir() {
                    rest.push(entry.path());
                } else if !entry.path().to_string_lossy().ends_with("-shm") {
                    // What processes share while they have the file open is no part of it.
                    found.push((entry.path(), std::fs::read(entry.path()).unwrap()));
                }
            }
        }
        found.sort();
        found
    }
}

impl Drop for Village {
    fn drop(&mut self) {
        for path in std::fs::read_dir(self.home.path()).unwrap().flatten() {
            let _ = std::fs::remove_file(path.path().join("hold"));
        }
        self.lope(&["runners", "stop", "--all", "--force"]);
    }
}

pub(crate) fn count(folder: &Path) -> usize {
    let text = std::fs::read_to_string(folder.join("done.log")).unwrap_or_default();
    text.lines().count()
}

/// "Fired ten times at once, one acts." "`--dry-run` prints what would happen and leaves the
/// database byte-identical."
#[test]
fn ten_wake_ups_at_once_start_one_runner_where_tasks_wait() {
    let village = Village::new("");
    let (busy, quiet, off) = (
        village.project("busy"),
        village.project("quiet"),
        village.project("off"),
    );
    let (task, other) = (village.add(&busy, "one"), village.add(&off, "other"));
    village.lope(&["projects", "disable", "off"]).done();
    std::fs::write(busy.join("hold"), "").unwrap();
    let before = village.bytes();
    let dry = village.json(&["runners", "wakeup", "--dry-run"]);
    assert_eq!(village.bytes(), before, "byte-identical");
    let action = |path: &Path| {
        let steps = dry["steps"].as_array().unwrap();
        let step = steps
            .iter()
            .find(|step| step["project"] == path.to_str().unwrap());
        step.unwrap()["action"].clone()
    };
    assert_eq!(
        (action(&busy), action(&quiet), action(&off)),
        (json!("start"), json!("none"), json!("none"))
    );
    let wakes: Vec<_> = (0..10)
        .map(|_| {
            village
                .home
                .command(&["runners", "wakeup", "--quiet"])
                .spawn()
                .unwrap()
        })
        .collect();
    for mut wake in wakes {
        assert!(wake.wait().unwrap().success());
    }
    until("its beginning", || count(&busy) == 1);
    let runners = village.json(&["runners", "list"]);
    assert_eq!(runners.as_array().unwrap().len(), 1, "{runners}");
    let all = village.json(&["runners", "list", "--all"]);
    assert_eq!(
        all.as_array().unwrap().len(),
        1,
        "no other was ever entered: {all}"
    );
    let again = village.json(&["runners", "wakeup"]);
    let steps = again["steps"].as_array().unwrap();
    assert!(steps.iter().all(|step| step["action"] == "none"), "{again}");
    std::fs::remove_file(busy.join("hold")).unwrap();
    until("its end", || village.status(&task) == "completed");
    // Started by a wake-up, a runner ends when nothing is left.
    until("the runner's end", || {
        village.json(&["runners", "list"]) == json!([])
    });
    assert_eq!(
        (count(&busy), village.status(&other)),
        (1, json!("pending"))
    );
}

/// "Zombie detection": a runner that stands still is killed, by proof of identity, and replaced.
#[test]
fn a_runner_without_a_sign_of_life_is_killed_and_replaced() {
    let village = Village::new("  staleTimeout: 1s\n");
    let project = village.project("shop");
    let task = village.add(&project, "one");
    std::fs::write(project.join("hold"), "").unwrap();
    let wake = village.json(&["runners", "wakeup"]);
    let first = wake["steps"][0]["started"].as_str().unwrap().to_owned();
    until("its beginning", || count(&project) == 1);
    let pid = village.json(&["runners", "show", &first])["pid"]
        .as_i64()
        .unwrap();
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let mut second = Value::Null;
    until("its replacement", || {
        let woken = village.lope(&["runners", "wakeup", "--json"]);
        // One that ends the first and cannot start the second says so too.
        let step = serde_json::from_str::<Value>(&woken.out).unwrap_or_default()["steps"][0].take();
        let replaced = step["action"] == "replace";
        if replaced {
            second = step;
        } else if woken.code != 0 {
            // It was stopped while it wrote, and holds the file: let it go on, and stop it again.
            kill_process(pid, Signal::CONT).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            kill_process(pid, Signal::STOP).unwrap();
        }
        replaced
    });
    assert_eq!(second["ended"], json!([first]));
    until("the first one's end", || {
        kill_process(pid, Signal::CONT).is_err() || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))
                .unwrap_or_default();
            stat.is_empty() || stat.contains(") Z")
        }
    });
    std::fs::remove_file(project.join("hold")).unwrap();
    until("its end", || {
        village.lope(&["runners", "wakeup"]);
        village.status(&task) == "completed"
    });
    let shown = village.json(&["runners", "show", &first]);
    assert_eq!(
        (&shown["status"], &shown["error"]),
        (&json!("failed"), &json!("it gave no sign of life"))
    );
}

/// "`projectPaths` are scanned for `.lope/` folders."
#[test]
fn projects_are_found_in_the_folders_of_the_configuration() {
    let village = Village::new("  wakeup: { projectPaths: [~/Projects, '~/'] }\n");
    let found = village.home.path().join("Projects/team/site");
    std::fs::create_dir_all(found.join(".lope")).unwrap();
    std::fs::create_dir_all(village.home.path().join("Projects/other")).unwrap();
    let path = found.canonicalize().unwrap().display().to_string();
    let dry = village.json(&["runners", "wakeup", "--dry-run"]);
    assert_eq!(
        dry["found"],
        json!([path]),
        "the home folder of Lope is no project"
    );
    assert!(
        !village.home.path().join(".lope/lope.db").exists(),
        "nothing was made"
    );
    village.lope(&["runners", "wakeup"]).done();
    let projects = village.json(&["projects", "list"]);
    assert_eq!(
        (projects.as_array().unwrap().len(), &projects[0]["path"]),
        (1, &json!(path))
    );
}

/// A program that keeps a table in a file, as `crontab` does.
pub(crate) fn crontab(folder: &Path) -> PathBuf {
    let bin = folder.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let program = bin.join("crontab");
    let script = format!(
        "#!/bin/sh\ntable='{}/table'\ncase \"$1\" in\n-l) [ -e \"$table\" ] || {{ echo 'no crontab for you' >&2; exit 1; }}; \
         cat \"$table\" ;;\n-) cat >\"$table\" ;;\n*) exit 2 ;;\nesac\n",
        folder.display()
    );
    crate::stage::program(&program, &script);
    bin
}

/// "`cron install|uninstall|status` edits only its own line, is idempotent, keeps other entries,
/// works with the user's PATH recorded, and says when no cron is there"
#[test]
fn cron_wakes_runners_up() {
    let village = Village::new("");
    let project = village.project("shop");
    let task = village.add(&project, "one");
    let bin = crontab(village.home.path());
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let cron = |args: &[&str]| {
        let args: Vec<&str> = ["runners", "cron"].iter().chain(args).copied().collect();
        said(village.home.command(&args).env("PATH", &path)).done()
    };
    let table = || std::fs::read_to_string(village.home.path().join("table")).unwrap();
    assert_eq!(cron(&["status"]).out, "not installed\n");
    std::fs::write(village.home.path().join("table"), "5 4 * * * backup\n").unwrap();
    cron(&["install"]);
    let once = table();
    cron(&["install"]);
    assert_eq!(table(), once, "twice is once");
    assert_eq!(
        (once.lines().count(), once.lines().next()),
        (2, Some("5 4 * * * backup"))
    );
    let line = once.lines().nth(1).unwrap();
    assert!(line.starts_with("* * * * * PATH="), "{line}");
    assert!(line.contains(" runners wakeup --quiet "), "{line}");
    let status = cron(&["status", "--json"]).json();
    assert_eq!(
        (&status["installed"], &status["current"]),
        (&json!(true), &json!(true))
    );
    // What cron does with it.
    let command = line.strip_prefix("* * * * * ").unwrap().replace("\\%", "%");
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", &command])
        .env_clear()
        .env("HOME", "/nonexistent");
    let woken = said(&mut shell);
    assert_eq!(
        (woken.code, woken.out.as_str(), woken.err.as_str()),
        (0, "", ""),
        "{woken:?}"
    );
    until("the task's end", || village.status(&task) == "completed");
    cron(&["uninstall"]);
    assert_eq!(table(), "5 4 * * * backup\n");
    assert_eq!(cron(&["uninstall", "--json"]).json()["changed"], false);
    let missing = said(
        village
            .home
            .command(&["runners", "cron", "install"])
            .env("PATH", "/nonexistent"),
    );
    assert_eq!(
        (missing.code, missing.err.contains("no program 'crontab'")),
        (1, true),
        "{missing:?}"
    );
    assert!(
        missing.err.contains("--systemd"),
        "the other way is offered: {missing:?}"
    );
}

/// A program that writes down how it was called.
fn systemctl(folder: &Path) -> PathBuf {
    let bin = folder.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let program = bin.join("systemctl");
    let script = format!("#!/bin/sh\necho \"$@\" >>'{}/called'\n", folder.display());
    crate::stage::program(&program, &script);
    bin
}

/// A value as systemd reads it.
fn unquoted(text: &str) -> String {
    let inner = text.strip_prefix('"').unwrap().strip_suffix('"').unwrap();
    let plain = inner.replace("%%", "%").replace("$$", "$");
    plain.replace("\\\"", "\"").replace("\\\\", "\\")
}

/// "a systemd user timer is offered as the other way": its units do what they say, with the user's
/// PATH and home; twice is once; other units stay.
#[test]
fn a_timer_of_systemd_wakes_runners_up() {
    let village = Village::new("");
    let project = village.project("shop");
    let task = village.add(&project, "one");
    let bin = systemctl(village.home.path());
    let path = format!("{}:/usr/bin:/bin:/odd 100% $x", bin.display());
    let cron = |args: &[&str]| {
        let args: Vec<&str> = ["runners", "cron"].iter().chain(args).copied().collect();
        said(village.home.command(&args).env("PATH", &path)).done()
    };
    let units = village.home.path().join(".config/systemd/user");
    std::fs::create_dir_all(&units).unwrap();
    std::fs::write(units.join("other.timer"), "mine").unwrap();
    let called = || std::fs::read_to_string(village.home.path().join("called")).unwrap();
    assert_eq!(
        cron(&["uninstall", "--systemd", "--json"]).json()["changed"],
        false
    );
    cron(&["install", "--systemd"]);
    let wanted = "--user daemon-reload\n--user enable --now lope-wakeup.timer\n";
    assert_eq!(called(), wanted);
    let text =
        |end: &str| std::fs::read_to_string(units.join(format!("lope-wakeup.{end}"))).unwrap();
    let service = text("service");
    let timer = text("timer");
    cron(&["install", "--systemd"]);
    assert_eq!(
        (text("service"), text("timer")),
        (service.clone(), timer.clone())
    );
    for line in [
        "OnBootSec=60s",
        "OnUnitActiveSec=60s",
        "WantedBy=timers.target",
    ] {
        assert!(timer.lines().any(|it| it == line), "{timer}");
    }
    let status = cron(&["status", "--json"]).json();
    assert_eq!(
        (&status["installed"], &status["timer"]),
        (
            &json!(true),
            &json!(units.join("lope-wakeup.timer").display().to_string())
        )
    );
    // What systemd does with the service.
    let start = service
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let (program, words) = start.unwrap().rsplit_once("\" ").unwrap();
    let mut command = Command::new(unquoted(&format!("{program}\"")));
    command.args(words.split(' ')).env_clear();
    command.env("HOME", "/nonexistent").current_dir("/");
    for line in service.lines() {
        if let Some(set) = line.strip_prefix("Environment=") {
            let set = unquoted(set);
            let (name, value) = set.split_once('=').unwrap();
            command.env(name, value);
            if name == "PATH" {
                assert_eq!(value, path);
            }
        }
    }
    assert!(service.contains("KillMode=process"), "its runners go on");
    let woken = said(&mut command);
    assert_eq!(
        (woken.code, woken.out.as_str(), woken.err.as_str()),
        (0, "", ""),
        "{woken:?}"
    );
    until("the task's end", || village.status(&task) == "completed");
    assert_eq!(
        cron(&["uninstall", "--systemd", "--json"]).json()["changed"],
        true
    );
    assert!(called().ends_with("--user disable --now lope-wakeup.timer\n--user daemon-reload\n"));
    let left: Vec<_> = std::fs::read_dir(&units).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "the other one stays");
    let nobody = said(
        village
            .home
            .command(&["runners", "cron", "install", "--systemd"])
            .env("PATH", "/nonexistent"),
    );
    assert_eq!(
        (nobody.code, nobody.err.contains("systemctl")),
        (1, true),
        "{nobody:?}"
    );
}

/// A systemd that cannot be reached leaves no timer of which others would say that it wakes runners up.
#[test]
fn a_timer_that_could_not_be_set_leaves_the_units_as_they_were() {
    let village = Village::new("");
    let units = village.home.path().join(".config/systemd/user");
    let bin = village.home.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let refuses = "#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n";
    crate::stage::program(&bin.join("systemctl"), refuses);
    let install = || {
        let mut command = village
            .home
            .command(&["runners", "cron", "install", "--systemd"]);
        said(command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())))
    };
    let refused = install();
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.err.contains("Failed to connect to bus"),
        "{refused:?}"
    );
    assert_eq!(std::fs::read_dir(&units).unwrap().count(), 0);
    std::fs::write(units.join("lope-wakeup.timer"), "mine").unwrap();
    assert_eq!(install().code, 1);
    let kept = std::fs::read_to_string(units.join("lope-wakeup.timer")).unwrap();
    assert_eq!(kept, "mine");
    assert_eq!(std::fs::read_dir(&units).unwrap().count(), 1);
}

/// `lope doctor` looks at the programs of agents, the folders of projects, git and who wakes runners.
#[test]
fn the_doctor_says_what_agents_lack() {
    let bare = Home::new();
    let told = bare.lope(&["doctor", "--json"]).done().json();
    let about = |told: &Value, check: &str| -> Vec<(String, String)> {
        let lines = told.as_array().unwrap().iter();
        let lines = lines.filter(|line| line["check"] == check);
        lines
            .map(|line| {
                let word = |key: &str| line[key].as_str().unwrap().to_owned();
                (word("health"), word("message"))
            })
            .collect()
    };
    for check in ["agents", "projects", "git", "wakeup"] {
        assert_eq!(about(&told, check), [], "nothing is configured");
    }
    let village = Village::new("");
    let shop = village.project("shop");
    let gone = village.project("gone");
    let bin = crontab(village.home.path());
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let examined = |path: &str| {
        let mut command = village.home.command(&["doctor", "--json"]);
        said(command.env("PATH", path))
    };
    let first = |told: &Value, check: &str| about(told, check).remove(0);
    let told = examined(&path).done().json();
    assert_eq!(first(&told, "agents").0, "ok");
    assert!(first(&told, "agents").1.ends_with("/sh"), "{told}");
    assert_eq!(first(&told, "projects").0, "ok");
    assert_eq!(first(&told, "git").0, "ok");
    let nobody = ("warn".to_owned(), "nobody wakes runners up".to_owned());
    assert_eq!(first(&told, "wakeup"), nobody);
    said(
        village
            .home
            .command(&["runners", "cron", "install"])
            .env("PATH", &path),
    )
    .done();
    std::fs::remove_dir(&gone).unwrap();
    let told = examined(&path).done().json();
    assert_eq!(first(&told, "wakeup").0, "ok");
    let (health, message) = first(&told, "projects");
    assert_eq!(health, "warn");
    assert!(message.contains(gone.to_str().unwrap()), "{message}");
    assert!(!message.contains(shop.to_str().unwrap()), "{message}");
    let may_write = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&shop, permissions).unwrap();
    };
    may_write(0o555);
    let told = examined(&path).done().json();
    may_write(0o755);
    let words = format!("agents may not write in the project {}", shop.display());
    assert_eq!(about(&told, "projects")[1], ("warn".to_owned(), words));
    let lacking = examined("/nonexistent");
    assert_eq!(lacking.code, 1, "no agent can be started: {lacking:?}");
    let told = lacking.json();
    assert_eq!(first(&told, "agents").0, "fail");
    assert_eq!(first(&told, "git").0, "warn");
    let (health, message) = first(&told, "wakeup");
    assert_eq!(health, "warn");
    assert!(message.contains("no cron"), "{message}");
}

/// Whoever is woken up works on the store that was meant, or is told how to say so: a password is
/// not for a crontab.
#[test]
fn cron_is_told_which_server_is_meant() {
    let village = Village::new("");
    let bin = crontab(village.home.path());
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let cron = |store: Option<&str>, more: &[&str]| {
        let args: Vec<&str> = ["runners", "cron"].iter().chain(more).copied().collect();
        let mut command = village.home.command(&args);
        command.env("PATH", &path);
        if let Some(url) = store {
            command.env("LOPE_STORE", url);
        }
        said(&mut command)
    };
    let table = village.home.path().join("table");
    for secret in [
        "postgres://me:secret@server/shop",
        "postgres://me@server/shop?password=secret",
    ] {
        for more in [&["install"][..], &["install", "--systemd"]] {
            let refused = cron(Some(secret), more);
            assert_eq!(
                (refused.code, refused.err.contains("config.yaml")),
                (3, true),
                "{refused:?}"
            );
            assert!(!refused.err.contains("secret"), "{refused:?}");
        }
    }
    assert!(!table.exists(), "nothing was installed");
    let flag = cron(None, &["install", "--store", "postgres://me@server/shop"]).done();
    assert!(
        flag.out.contains("LOPE_STORE=postgres://me@server/shop"),
        "{flag:?}"
    );
    let line = std::fs::read_to_string(&table).unwrap();
    assert!(
        line.contains("LOPE_STORE=postgres://me@server/shop"),
        "{line}"
    );
    let config = village.home.path().join(".lope/config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    let text = format!("store: postgres://me:secret@server/shop\n{text}");
    std::fs::write(&config, text).unwrap();
    cron(None, &["install"]).done();
    let line = std::fs::read_to_string(&table).unwrap();
    assert!(
        !line.contains("LOPE_STORE") && !line.contains("secret"),
        "{line}"
    );
}

/// "from an empty folder": also one that is not the home folder, where nothing of it may act on
/// another home or start another agent than the script.
#[test]
fn the_guide_does_what_it_says() {
    assert_eq!(crate::stage::guide_in("agents.md", "try"), 3);
}
