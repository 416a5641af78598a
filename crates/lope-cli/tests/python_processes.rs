//! What an action in Python starts is gone when the action is, while its worker lives on; what the
//! module keeps stays. What it inherits is what was named.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::{python, stage};

use std::process::Stdio;

use python::Ground;
use serde_json::{Value, json};
use stage::{Watch, until};

const APP: &str = r#"
import asyncio
import concurrent.futures
import contextvars
import multiprocessing
import os
import signal
import subprocess
import time
from lope import action, workflow

NOTE = "echo $$ >> pids; exec sleep 90000"
pool = concurrent.futures.ProcessPoolExecutor(1)

def note(pid: int) -> None:
    with open("pids", "a") as file:
        file.write(f"{pid}\n")

def noted() -> list[int]:
    with open("pids") as file:
        return [int(line) for line in file]

def until(so_many: int) -> None:
    while len(noted()) < so_many:
        time.sleep(0.01)

def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False

def stay(stubborn: bool = False) -> None:
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(os.getpid())
    time.sleep(90000)

def pooled() -> int:
    return os.getpid()

@action
def start_all() -> list[int]:
    open("pids", "w").close()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.Popen(["sh", "-c", NOTE])
    subprocess.Popen(["sh", "-c", NOTE], env={"PATH": os.environ["PATH"]})
    subprocess.run(["setsid", "-f", "sh", "-c", NOTE], **quiet)
    subprocess.Popen(["sh", "-c", "env -i sh -c 'echo $$ >> pids; exec sleep 90000' & wait"])
    cleared = ["env", "-i", "setsid", "sh", "-c", NOTE]
    subprocess.Popen(cleared)
    subprocess.Popen(["env", "-i", "sh", "-c", "sh -c '" + NOTE + "' & wait"])
    os.posix_spawn("/usr/bin/env", cleared, os.environ)
    os.posix_spawnp("env", cleared, {"PATH": os.environ["PATH"]})
    os.system(f"sh -c '{NOTE}' &")
    os.spawnvpe(os.P_NOWAIT, "sh", ["sh", "-c", NOTE], {"PATH": os.environ["PATH"]})
    if os.fork() == 0:
        stay(stubborn=True)
    if (first := os.fork()) == 0:
        os.setsid()
        if os.fork() == 0:
            stay()
        os._exit(0)
    os.waitpid(first, 0)
    multiprocessing.get_context("fork").Process(target=stay).start()
    multiprocessing.get_context("spawn").Process(target=stay).start()
    multiprocessing.get_context("forkserver").Process(target=stay).start()
    own = concurrent.futures.ProcessPoolExecutor(1)
    note(own.submit(pooled).result())
    until(16)
    kept = contextvars.Context().run(subprocess.Popen, ["sleep", "90000"])
    return [os.getpid(), pool.submit(pooled).result(), kept.pid]

@action
async def start_in_loop() -> None:
    open("pids", "w").close()
    environment = {"PATH": os.environ["PATH"]}
    await asyncio.create_subprocess_exec("sh", "-c", NOTE, env=environment)
    await asyncio.create_subprocess_exec("env", "-i", "setsid", "sh", "-c", NOTE)
    await asyncio.create_subprocess_shell(NOTE)
    await asyncio.to_thread(subprocess.Popen, ["sh", "-c", NOTE])
    await asyncio.get_running_loop().run_in_executor(None, subprocess.Popen, ["sh", "-c", NOTE])
    while len(noted()) < 5:
        await asyncio.sleep(0.01)

@action
def fails() -> None:
    open("pids", "w").close()
    subprocess.Popen(["sh", "-c", NOTE])
    until(1)
    raise ValueError("it fails")

@action(timeout="1s")
def hangs() -> None:
    open("pids", "w").close()
    subprocess.Popen(["sh", "-c", NOTE])
    while True:
        time.sleep(0.01)

@action
def left(kept: list[int]) -> list[bool]:
    found = [any(is_alive(pid) for pid in noted())]
    if kept:
        found += [os.getpid() == kept[0], pool.submit(pooled).result() == kept[1], is_alive(kept[2])]
    return found

@workflow
async def every_way() -> list[list[bool]]:
    kept = await start_all()
    found = [await left(kept)]
    await start_in_loop()
    found.append(await left([]))
    try:
        await fails()
    except ValueError:
        pass
    found.append(await left([]))
    try:
        await hangs()
    except Exception:
        pass
    found.append(await left([]))
    return found

@action
async def long_one() -> list[bool]:
    own = subprocess.Popen(["sleep", "90000"])
    while not os.path.exists("short"):
        await asyncio.sleep(0.01)
    with open("short") as file:
        other = int(file.read())
    while is_alive(other):
        await asyncio.sleep(0.01)
    return [is_alive(own.pid)]

@action
def short_one() -> int:
    own = subprocess.Popen(["sleep", "90000"])
    with open("short.part", "w") as file:
        file.write(str(own.pid))
    os.rename("short.part", "short")
    return own.pid

@workflow
async def side_by_side() -> list[bool]:
    both = await asyncio.gather(long_one(), short_one())
    return both[0]
"#;

fn result(ground: &Ground, workflow: &str) -> Value {
    ground.file("app.py", APP);
    let target = format!("app.py:{workflow}");
    let ended = ground.json(&["run", &target, "--processes", "1", "--json"]);
    assert_eq!(ended["status"], "completed", "{ended}");
    ended["result"].clone()
}

/// "Whatever a step started is gone when the step is": however it was started, after success,
/// failure and timeout; the same worker does all of it, and what is not the action's lives.
#[test]
fn what_an_action_started_is_gone_when_it_is_and_what_the_module_keeps_stays() {
    let Some(ground) = Ground::new() else { return };
    let found = result(&ground, "every_way");
    let gone = json!([false]);
    assert_eq!(found, json!([[false, true, true, true], gone, gone, gone]));
}

/// Two actions in one process: the end of one ends nothing of the other.
#[test]
fn actions_side_by_side_in_one_process_end_what_is_theirs() {
    let Some(ground) = Ground::new() else { return };
    assert_eq!(result(&ground, "side_by_side"), json!([true]));
}

const INHERITS: &str = r#"
import os
from lope import action, workflow

@action
def variables() -> list[str]:
    return [f"{name}={value}" for name, value in os.environ.items()]

@workflow
async def inherits() -> list[str]:
    return await variables()
"#;

/// "Children inherit only what the step or an allow-list names: never `LOPE_WORKER_TOKEN`,
/// `LOPE_STORE` or a vault variable": a worker is a child like any other.
#[test]
fn an_action_inherits_what_was_named_and_nothing_else() {
    let Some(ground) = Ground::new() else { return };
    std::fs::create_dir_all(ground.path().join(".lope")).unwrap();
    let config = "secrets: { token: { env: API_TOKEN } }\nenv: [REGION, API_TOKEN]\n";
    ground.file(".lope/config.yaml", config);
    ground.file("app.py", INHERITS);
    let store = format!("sqlite:{}", ground.path().join("other.db").display());
    let mut command = ground.command(&["run", "app.py:inherits", "--processes", "1", "--json"]);
    command
        .env("LOPE_STORE", &store)
        .env("LOPE_WORKER_TOKEN", "a-worker-token-that-nobody-sees")
        .env("API_TOKEN", "an-api-token-that-nobody-sees")
        .env("OTHER", "other-that-nobody-named")
        .env("REGION", "north");
    let ended = stage::said(&mut command).done().json();
    let lines = ended["result"].as_array().unwrap();
    let has = |start: &str| {
        let starts = |line: &Value| line.as_str().unwrap().starts_with(start);
        lines.iter().any(starts)
    };
    assert!(has("REGION=north") && has("PATH="), "{ended}");
    for absent in ["LOPE_STORE=", "LOPE_WORKER_TOKEN=", "API_TOKEN=", "OTHER="] {
        assert!(!has(absent), "{absent}: {ended}");
    }
    assert!(!ended.to_string().contains("that-nobody"), "{ended}");
}

const STAYS: &str = r#"
import os
import subprocess
import time
from lope import action, workflow

NOTE = "echo $$ >> pids; exec sleep 90000"

@action
def stays() -> None:
    with open("pids", "w") as file:
        file.write(f"{os.getpid()}\n")
    subprocess.Popen(["sh", "-c", NOTE])
    subprocess.Popen(["setsid", "-f", "sh", "-c", NOTE])
    subprocess.Popen(["env", "-i", "setsid", "sh", "-c", NOTE])
    time.sleep(90000)

@workflow
async def stay() -> None:
    await stays()
"#;

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}

/// "A small spawner process leaves nothing behind when its runner dies, also by `kill -9`": Python
/// workers and what their actions have started among it.
#[test]
fn what_an_action_started_is_gone_when_its_runner_is_killed() {
    let Some(ground) = Ground::new() else { return };
    ground.file("app.py", STAYS);
    let mut command = ground.command(&["run", "app.py:stay", "--processes", "1"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut runner = command.spawn().unwrap();
    let _watch = Watch::over(&runner);
    let pids = || -> Vec<String> {
        let noted = std::fs::read_to_string(ground.path().join("pids")).unwrap_or_default();
        noted.lines().map(str::to_owned).collect()
    };
    until("the worker and three of its children are there", || {
        pids().len() == 4 && pids().iter().all(|pid| is_alive(pid))
    });
    runner.kill().unwrap();
    runner.wait().unwrap();
    until("they are gone", || !pids().iter().any(|pid| is_alive(pid)));
}
