//! Workers that connect from elsewhere.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use lope_model::{Span, Value};
use lope_workers::pool::{PoolSettings, Remote, tls};

use crate::bench::{Bench, python};

/// A process that ends with the test.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn worker(python: &Path, connect: &str, token: &str, more: &[&str]) -> Worker {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python);
    command.args(["-m", "lope", "worker", "--connect", connect, "--module", "pool_actions", "--path"]);
    command.arg(here.join("tests/python")).args(more);
    command.env("LOPE_WORKER_TOKEN", token).env("PYTHONPATH", here.join("../../python"));
    Worker(command.stderr(Stdio::piped()).spawn().unwrap())
}

fn listening(tls: Option<std::sync::Arc<rustls::ServerConfig>>) -> (Bench, std::net::SocketAddr) {
    let bench = Bench::new(PoolSettings { remote_wait: Some(Span::from_secs(30)), ..PoolSettings::default() });
    let remote = Remote { address: "127.0.0.1:0".into(), token: "secret".into(), tls };
    let address = bench.runtime.block_on(bench.pool.listen(remote)).unwrap();
    (bench, address)
}

/// "Remote workers connect with a token over TCP (TLS option) with the same protocol"
#[test]
fn a_worker_from_elsewhere_works_with_the_right_token() {
    let Some(python) = python() else { return };
    let (mut bench, address) = listening(None);
    let token = bench.start("double", r#"{"n": 1}"#);
    let _worker = worker(&python, &format!("tcp://{address}"), "secret", &[]);
    assert_eq!(bench.outcome(&token), Ok(Value::Int(2)), "it waited for the worker to come");
    let beside = worker(&python, &format!("tcp://{address}"), "secret", &[]);
    drop(beside);
    assert_eq!(bench.run("double", r#"{"n": 2}"#), Ok(Value::Int(4)));
}

#[test]
fn a_worker_with_the_wrong_token_is_turned_away() {
    let Some(python) = python() else { return };
    let (bench, address) = listening(None);
    let mut worker = worker(&python, &format!("tcp://{address}"), "wrong", &[]);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut worker.0.stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(worker.0.wait().unwrap().code(), Some(3));
    assert!(said.contains("refused: the token is wrong"), "{said}");
    assert!(bench.pool.actions().is_empty());
}

#[test]
fn a_connection_can_be_encrypted() {
    let Some(python) = python() else { return };
    let pem = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates").join(name);
    let (mut bench, address) = listening(Some(tls::server(&pem("localhost.pem"), &pem("localhost.key")).unwrap()));
    let authority = pem("localhost.pem").display().to_string();
    let port = address.port();
    let _worker = worker(&python, &format!("tls://localhost:{port}"), "secret", &["--ca", &authority]);
    assert_eq!(bench.run("double", r#"{"n": 3}"#), Ok(Value::Int(6)));
    let large = bench.run("large", r#"{"size": 3000000}"#).unwrap();
    assert!(matches!(large, Value::Bytes(bytes) if bytes.len() == 3_000_000));
}

#[test]
fn a_worker_that_is_asked_to_end_finishes_first() {
    let Some(python) = python() else { return };
    let (mut bench, address) = listening(None);
    let mut worker = worker(&python, &format!("tcp://{address}"), "secret", &[]);
    assert_eq!(bench.run("double", r#"{"n": 1}"#), Ok(Value::Int(2)));
    let token = bench.start("blocks", r#"{"seconds": 0.3}"#);
    let pid = rustix::process::Pid::from_raw(worker.0.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(bench.outcome(&token), Ok(Value::from("done")));
    assert_eq!(worker.0.wait().unwrap().code(), Some(0));
}

#[test]
fn certificates_that_cannot_be_read_are_named() {
    let error = tls::server(Path::new("no.pem"), Path::new("no.key")).unwrap_err();
    assert!(error.to_string().starts_with("no.pem: "), "{error}");
}
