//! docs/deploy.md: its commands print what stands under them; its unit, its container file and its
//! roles are tried.

use crate::stage::{self, Home};

fn blocks(language: &str) -> Vec<String> {
    let guide = include_str!("../../../docs/deploy.md");
    let parts = guide.split("```").skip(1).step_by(2);
    let own = parts.filter_map(|part| part.strip_prefix(&format!("{language}\n")));
    own.map(str::to_owned).collect()
}

#[test]
fn the_commands_of_the_guide_print_what_it_says() {
    assert_eq!(stage::guide("deploy.md"), 3);
}

/// Arguments that the program knows: it would complain about others before it prints its help.
fn known(arguments: &[&str]) {
    let home = Home::new();
    let said = home.lope(&[arguments, &["--help"]].concat()).done();
    assert!(said.out.contains("Usage: lope up"), "{}", said.out);
}

#[test]
fn the_unit_and_the_container_start_a_runner_with_flags_that_there_are() {
    let unit = blocks("ini").remove(0);
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let words: Vec<&str> = start.unwrap().split(' ').collect();
    assert_eq!(words[0], "/usr/local/bin/lope");
    known(&words[1..]);
    let file = blocks("dockerfile").remove(0);
    let start = file.lines().find_map(|line| line.strip_prefix("CMD "));
    let words: Vec<String> = serde_json::from_str(start.unwrap()).unwrap();
    assert_eq!(words[0], "lope");
    known(&words[1..].iter().map(String::as_str).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_with_the_role_of_the_guide_works_and_cannot_change_the_schema() {
    if std::env::var_os("LOPE_TEST_NO_POSTGRES").is_some() {
        println!("left out: LOPE_TEST_NO_POSTGRES is set");
        return;
    }
    let url = std::env::var("LOPE_TEST_POSTGRES").expect("run `cargo xtask test`");
    let mark = format!("deploy_{}", std::process::id());
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    // The names of the guide, but of this test: roles are the whole server's.
    let sql = blocks("sql")
        .remove(0)
        .replace("lope_", &format!("{mark}_"))
        .replace("SCHEMA lope", &format!("SCHEMA {mark}"));
    client.batch_execute(&sql).await.unwrap();
    let server: tokio_postgres::Config = url.parse().unwrap();
    let place = |role: &str, password: &str| {
        let host = match &server.get_hosts()[0] {
            tokio_postgres::config::Host::Tcp(host) => host.clone(),
            tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
        };
        let port = server.get_ports().first().copied().unwrap_or(5432);
        let database = server.get_dbname().unwrap_or("postgres");
        format!(
            "postgres:///{database}?host={host}&port={port}&user={mark}_{role}&password={password}&schema={mark}"
        )
    };
    let home = Home::new();
    let owner = place("owner", "change-me");
    let runner = place("runner", "change-me-too");
    home.lope(&["store", "migrate", "--store", &owner]).done();
    let file = home.file("hi.yaml", "name: hi\nsteps: { a: { run: [echo, hi] } }\n");
    let said = home.lope(&["run", &file, "--store", &runner]).done();
    assert_eq!(said.out, "hi\n");
    home.lope(&["store", "check", "--store", &runner]).done();
    let (worker, connection) = tokio_postgres::connect(
        &runner.replace(&format!("&schema={mark}"), ""),
        tokio_postgres::NoTls,
    )
    .await
    .unwrap();
    tokio::spawn(connection);
    let dropped = worker
        .batch_execute(&format!("DROP TABLE {mark}.runs CASCADE"))
        .await;
    assert!(dropped.is_err(), "a runner's role may not drop tables");
    let sweep = format!(
        "DROP SCHEMA {mark} CASCADE; DROP OWNED BY {mark}_owner, {mark}_runner; DROP ROLE {mark}_owner; DROP ROLE {mark}_runner"
    );
    client.batch_execute(&sweep).await.unwrap();
}
