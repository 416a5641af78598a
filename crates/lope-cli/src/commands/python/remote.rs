//! Where workers from elsewhere come in: address, token, certificate.

use std::net::SocketAddr;
use std::path::Path;

use lope::workers::{Pool, Remote, tls};

use crate::error::{CliError, CliResult, Exit};

/// The variable that holds the token; a flag would show it to everybody on the machine.
const TOKEN: &str = "LOPE_WORKER_TOKEN";
/// Shortest token that is taken.
const TOKEN_MIN: usize = 16;

pub(crate) fn read(
    address: Option<String>,
    certificate: Option<&Path>,
    key: Option<&Path>,
) -> CliResult<Option<Remote>> {
    let Some(address) = address else {
        return Ok(None);
    };
    let token = std::env::var(TOKEN).unwrap_or_default();
    if token.len() < TOKEN_MIN {
        let message = format!(
            "workers from elsewhere need a token of at least {TOKEN_MIN} characters in {TOKEN}"
        );
        return Err(CliError::usage(message)
            .hint("openssl rand -hex 24 makes one; the workers get the same variable"));
    }
    let tls = match (certificate, key) {
        (Some(certificate), Some(key)) => {
            let config = tls::server(certificate, key);
            Some(config.map_err(|error| {
                CliError::usage(error.to_string()).hint("both files are in PEM")
            })?)
        }
        _ => None,
    };
    Ok(Some(Remote {
        address,
        token,
        tls,
    }))
}

/// Let workers in; the answer is where.
pub(crate) async fn open(pool: &Pool, remote: Remote) -> CliResult<SocketAddr> {
    let address = remote.address.clone();
    let bound = pool.listen(remote).await;
    bound.map_err(|error| {
        CliError::new(Exit::Refused, format!("{address}: {error}"))
            .hint("is the address in use, or not this machine's?")
    })
}
