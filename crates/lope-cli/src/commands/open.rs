//! `lope open`: the dashboard, or a run's page, in the browser.

use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use lope::Client;
use lope::runs::FoundRun;
use lope::stores::CreateStore;
use lope_remote::ServerClient;
use lope_server::ServerSettings;
use serde_json::json;
use tokio::net::TcpStream;

use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::Output;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What to open.
#[derive(Debug, Args)]
pub(crate) struct OpenArgs {
    /// A run, by its id, its key or the beginning of its id  [default: the list of runs]
    run: Option<String>,
    /// Where the server listens  [default: as configured, else 127.0.0.1:7420]
    #[arg(long, value_name = "HOST:PORT", env = "LOPE_HTTP")]
    http: Option<String>,
    /// Only print the address
    #[arg(long)]
    print: bool,
}

pub(crate) async fn run(args: OpenArgs, settings: &Settings, output: Output) -> CliResult<Exit> {
    let section = settings.config.others.get("server");
    let server = ServerSettings::read(section).map_err(|bad| CliError::usage(bad.to_string()))?;
    let said = args.http.filter(|said| said != "off");
    let listen = reachable(&said.unwrap_or(server.listen));
    let page = match &args.run {
        Some(named) => format!("runs/{}", found(named, settings).await?),
        None => String::new(),
    };
    let scheme = if server.certificate.is_some() {
        "https"
    } else {
        "http"
    };
    let url = format!("{scheme}://{listen}{}/{page}", server.base);
    answers(&listen).await?;
    if !args.print {
        browse(&url)?;
    }
    output.result(&json!({ "url": url }), &url);
    Ok(Exit::Done)
}

/// The same where the server is named.
pub(crate) async fn on_server(
    args: &OpenArgs,
    server: &ServerClient,
    output: Output,
) -> CliResult<Exit> {
    let page = match &args.run {
        None => {
            server.get("/healthz").await?;
            String::new()
        }
        Some(named) => {
            let found = server.get(&format!("/api/runs/{}", encoded(named))).await?;
            format!("runs/{}", found["run_id"].as_str().unwrap_or_default())
        }
    };
    let url = format!("{}/{page}", server.url());
    if !args.print {
        browse(&url)?;
    }
    output.result(&json!({ "url": url }), &url);
    Ok(Exit::Done)
}

/// A text as a part of a path.
fn encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    let one = |byte: u8| {
        if plain(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(one).collect()
}

/// An address that listens everywhere is reached on this machine.
fn reachable(listen: &str) -> String {
    let everywhere = ["0.0.0.0:", "[::]:"];
    let port = everywhere.iter().find_map(|it| listen.strip_prefix(it));
    port.map_or_else(|| listen.to_owned(), |port| format!("127.0.0.1:{port}"))
}

/// The id of the run that is meant.
async fn found(named: &str, settings: &Settings) -> CliResult<lope::RunId> {
    let client = Client::open_store(&settings.store, CreateStore::Never).await?;
    let found = client.find(named).await;
    client.close().await?;
    match found? {
        FoundRun::Run(run) => Ok(run),
        FoundRun::Several(first, second) => {
            let message = format!("several runs have ids that begin with '{named}'");
            Err(CliError::usage(message).hint(format!("{first}, {second}…")))
        }
        FoundRun::Nothing => {
            let message = format!("there is no run with the id or key '{named}'");
            Err(CliError::new(Exit::Failed, message).hint("'lope runs list' shows what there is"))
        }
    }
}

/// Is anybody there?
async fn answers(listen: &str) -> CliResult<()> {
    let connecting = tokio::time::timeout(PATIENCE, TcpStream::connect(listen)).await;
    if matches!(connecting, Ok(Ok(_))) {
        return Ok(());
    }
    let message = format!("no server listens on {listen}");
    Err(CliError::new(Exit::OutOfReach, message)
        .hint("'lope up' serves the dashboard; --http says where"))
}

/// Has the user's browser show a page: the one that `BROWSER` names, or the system's.
fn browse(url: &str) -> CliResult<()> {
    let own = std::env::var("BROWSER").ok().filter(|it| !it.is_empty());
    let system = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let program = own.unwrap_or_else(|| system.to_owned());
    let started = Command::new(&program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(_) => Ok(()),
        Err(error) => {
            let message = format!("cannot start '{program}': {error}");
            Err(CliError::new(Exit::Failed, message).hint(format!("open {url} by hand")))
        }
    }
}
