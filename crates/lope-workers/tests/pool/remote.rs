//! Workers that connect from elsewhere.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use lope_model::{Realm, Span, Value, value};
use lope_workers::pool::{PoolSettings, RealmChange, Remote, tls};

use crate::bench::{Bench, PATIENCE, python};

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
    command.args([
        "-m",
        "lope",
        "worker",
        "--connect",
        connect,
        "--module",
        "pool_actions",
        "--path",
    ]);
    command.arg(here.join("tests/python")).args(more);
    command
        .env("LOPE_WORKER_TOKEN", token)
        .env("PYTHONPATH", here.join("../../python"));
    Worker(command.stderr(Stdio::piped()).spawn().unwrap())
}

fn listening(tls: Option<std::sync::Arc<rustls::ServerConfig>>) -> (Bench, std::net::SocketAddr) {
    let bench = Bench::new(PoolSettings {
        remote_wait: Some(Span::from_secs(30)),
        ..PoolSettings::default()
    });
    let remote = Remote {
        address: "127.0.0.1:0".into(),
        token: "secret".into(),
        tls,
    };
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
    assert_eq!(
        bench.outcome(&token),
        Ok(Value::Int(2)),
        "it waited for the worker to come"
    );
    let beside = worker(&python, &format!("tcp://{address}"), "secret", &[]);
    drop(beside);
    assert_eq!(bench.run("double", r#"{"n": 2}"#), Ok(Value::Int(4)));
}

/// A worker's end of a connection, spoken by the test itself.
struct Speaker(TcpStream);

impl Speaker {
    fn connect(address: std::net::SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    fn with_token(address: std::net::SocketAddr, token: &str) -> Self {
        let mut speaker = Self::connect(address);
        let length = u32::try_from(token.len()).unwrap().to_be_bytes();
        speaker.0.write_all(&length).unwrap();
        speaker.0.write_all(token.as_bytes()).unwrap();
        speaker
    }

    fn say(&mut self, messages: Vec<Value>) {
        let body = value::to_msgpack(&Value::list(messages));
        self.0
            .write_all(&u32::try_from(body.len()).unwrap().to_be_bytes())
            .unwrap();
        self.0.write_all(&body).unwrap();
    }

    fn hear(&mut self) -> Vec<Value> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).unwrap();
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut body).unwrap();
        value::from_msgpack(&body)
            .unwrap()
            .as_list()
            .unwrap()
            .to_vec()
    }
}

fn hello(slots: i64, realms: &[&str]) -> Value {
    let texts = |texts: &[&str]| Value::list(texts.iter().copied().map(Value::from).collect());
    let words = Value::map([
        ("protocol", Value::Int(1)),
        ("name", Value::from("speaker")),
        ("slots", Value::Int(slots)),
        ("actions", texts(&["thing"])),
        ("realms", texts(realms)),
    ]);
    Value::list(vec![Value::from("hello"), words])
}

/// "batches both ways on one connection"
#[test]
fn what_comes_together_goes_in_one_frame() {
    let (mut bench, address) = listening(None);
    let tokens: Vec<_> = (0..200)
        .map(|n| bench.start("thing", &n.to_string()))
        .collect();
    let mut speaker = Speaker::with_token(address, "secret");
    speaker.say(vec![hello(1_000, &[])]);
    let (mut frames, mut tasks) = (0, Vec::new());
    while tasks.len() < 200 {
        frames += 1;
        let heard = speaker.hear();
        tasks.extend(
            heard
                .into_iter()
                .filter(|words| words.as_list().unwrap()[0] == Value::from("task")),
        );
    }
    assert!(frames <= 5, "200 tasks that waited came in {frames} frames");
    let done = tasks.iter().map(|words| {
        let words = words.as_list().unwrap();
        Value::list(vec![
            Value::from("done"),
            words[1].clone(),
            words[3].clone(),
        ])
    });
    speaker.say(done.collect());
    for (n, token) in tokens.iter().enumerate() {
        assert_eq!(bench.outcome(token), Ok(Value::Int(n as i64)));
    }
}

/// "a runner without your Python module does not take your run": one whose workers have it does.
#[test]
fn a_worker_says_what_its_runner_may_take() {
    let (bench, address) = listening(None);
    let mut realms = bench.pool.realms().unwrap();
    let mut told = || {
        bench
            .runtime
            .block_on(async { tokio::time::timeout(PATIENCE, realms.recv()).await })
            .unwrap()
            .unwrap()
    };
    let app = Realm::parse("python:app").unwrap();
    let mut first = Speaker::with_token(address, "secret");
    first.say(vec![hello(1, &["python:app", "no realm at all?"])]);
    let came = [told(), told()];
    assert!(came.contains(&RealmChange::Came(app.clone())), "{came:?}");
    let mut second = Speaker::with_token(address, "secret");
    second.say(vec![hello(1, &["python:app"])]);
    assert_eq!(told(), RealmChange::Came(app.clone()));
    drop(first);
    drop(second);
    let gone = [told(), told()];
    let app = RealmChange::Gone(app);
    assert!(gone.contains(&app), "when the last has gone: {gone:?}");
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

/// A first frame of 17 MB was read before anybody knew who sent it.
#[test]
fn little_is_read_of_somebody_who_has_not_shown_the_token() {
    let (bench, address) = listening(None);
    let mut speaker = Speaker::connect(address);
    speaker.0.write_all(&2_000_000_u32.to_be_bytes()).unwrap();
    let mut rest = Vec::new();
    let begun = std::time::Instant::now();
    // Closed, or reset because words were left unread.
    let _ = speaker.0.read_to_end(&mut rest);
    assert!(rest.is_empty() && begun.elapsed().as_secs() < 4);
    assert!(bench.pool.actions().is_empty());
}

#[test]
fn a_connection_that_shows_no_token_in_time_is_closed() {
    let (_bench, address) = listening(None);
    let mut speaker = Speaker::connect(address);
    let begun = std::time::Instant::now();
    speaker.0.write_all(&[0, 0]).unwrap();
    let _ = speaker.0.read_to_end(&mut Vec::new());
    let waited = begun.elapsed().as_secs_f32();
    assert!((4.0..9.0).contains(&waited), "{waited} s");
}

#[test]
fn a_connection_can_be_encrypted() {
    let Some(python) = python() else { return };
    let pem = |name: &str| {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/certificates")
            .join(name)
    };
    let (mut bench, address) = listening(Some(
        tls::server(&pem("localhost.pem"), &pem("localhost.key")).unwrap(),
    ));
    let authority = pem("localhost.pem").display().to_string();
    let port = address.port();
    let _worker = worker(
        &python,
        &format!("tls://localhost:{port}"),
        "secret",
        &["--ca", &authority],
    );
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
