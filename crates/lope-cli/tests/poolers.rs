//! The real binary before transaction poolers: it notices them by itself, and everything works that
//! keeps nothing in a connection. A pgbouncer, and small poolers that differ in what they do to the
//! settings of a connection.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

use crate::fixture;
use crate::fixture::pgbouncer::Pgbouncer;
use crate::fixture::pooler::{Settings, TransactionPooler};
use crate::stage::{self, Home};

/// Steps, a retry, a signal and a child: claims, timers, mail and commits.
const PARENT: &str = "
name: parent
steps:
  fails: { run: 'test $LOPE_ATTEMPT = 2', retries: 1, base_delay: 10ms }
  waits: { wait: go, needs: [fails] }
  child: { workflow: child, needs: [waits] }
";
const CHILD: &str = "name: child\nsteps: { say: { run: [echo, hi] } }\n";

struct Place<'a> {
    home: Home,
    url: &'a str,
}

impl Place<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.env("LOPE_STORE", self.url);
        command
    }

    fn lope(&self, args: &[&str]) -> stage::Said {
        stage::said(&mut self.command(args))
    }

    fn status(&self, key: &str) -> serde_json::Value {
        self.lope(&["runs", "show", key, "--json"]).json()["status"].clone()
    }
}

/// A runner takes runs that other processes start and signal, to their end; then it stops.
fn works_through(url: &str) {
    let home = Home::new();
    let (parent, child) = (home.file("p.yaml", PARENT), home.file("c.yaml", CHILD));
    let place = Place { home, url };
    place.lope(&["workflows", "deploy", &child]).done();
    place.lope(&["workflows", "deploy", &parent]).done();
    let mut up: Child = place.command(&["up"]).spawn().unwrap();
    let _watch = stage::Watch::over(&up);
    let keys = ["a", "b", "c", "d", "e", "f"];
    for key in keys {
        place.lope(&["start", "parent", "--key", key]).done();
        place.lope(&["runs", "signal", key, "go"]).done();
    }
    for key in keys {
        stage::until(key, || place.status(key) == "completed");
    }
    kill_process(Pid::from_child(&up), Signal::TERM).unwrap();
    assert!(up.wait().unwrap().success());
    place.lope(&["store", "check"]).done();
}

/// A URL with a parameter more, in a schema of its own.
fn with(url: &str, parameter: &str) -> String {
    let sign = if url.contains('?') { '&' } else { '?' };
    format!("{url}{sign}{parameter}")
}

fn schema(name: &str) -> String {
    format!("schema=pooled_{name}_{}", std::process::id())
}

/// Whoever says that there is no pooler is told what to write, in a line.
fn is_told(url: &str) {
    let home = Home::new();
    let url = with(url, "pooler=none");
    let said = Place { home, url: &url }.lope(&["store", "migrate"]);
    assert_ne!(said.code, 0, "{said:?}");
    let line = said
        .err
        .lines()
        .find(|line| line.contains("pooler=transaction"));
    assert!(line.is_some(), "{said:?}");
}

#[test]
fn work_goes_through_pgbouncer_in_transaction_mode() {
    let Some(server) = fixture::server() else {
        return;
    };
    let Some(pooler) = Pgbouncer::start(&server) else {
        return;
    };
    let url = with(&pooler.url(), &schema("pgbouncer"));
    is_told(&url);
    works_through(&url);
}

#[test]
fn poolers_that_refuse_or_lose_settings_are_noticed() {
    let Some(server) = fixture::server() else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let _inside = runtime.enter();
    for (settings, name) in [(Settings::Refused, "refused"), (Settings::Lost, "lost")] {
        let pooler = TransactionPooler::start_with(&server, settings);
        let url = with(&pooler.url(&server), &schema(name));
        if settings == Settings::Refused {
            is_told(&url);
        }
        works_through(&url);
    }
}
