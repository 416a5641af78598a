//! Where a pool listens: the socket of its own processes, and a port for workers from elsewhere, with a
//! token and, if asked for, encryption.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lope_model::{Digest, Failure};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore};
use tokio_rustls::TlsAcceptor;

use super::link::{self, WorkerArrival, WorkerStream};
use super::message::{FromWorker, ToWorker};
use super::roster::PoolWorkerId;
use super::{PoolInner, WorkerLink};

/// Connections from elsewhere that may be open at once.
const REMOTE_MAX: usize = 1_024;
/// How long a connection may take until it has shown its token, its encryption included.
const AUTHENTICATION_LIMIT: Duration = Duration::from_secs(5);
/// Pause after a connection that could not be accepted, as when there are no more descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How workers from elsewhere come in.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Where to listen, as `HOST:PORT`.
    pub address: String,
    /// What they must say.
    pub token: String,
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

/// An open port.
pub struct RemoteListener {
    listener: TcpListener,
    token: Digest,
    tls: Option<TlsAcceptor>,
}

impl std::fmt::Debug for RemoteListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteListener")
            .field("listener", &self.listener)
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

pub(super) async fn accept_own(inner: Arc<PoolInner>, listener: UnixListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(inner.runtime.spawn(introduce(Arc::clone(&inner), stream))),
            Err(error) => {
                tracing::warn!(%error, "a worker process could not connect");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Find out which process this is and hand its connection over.
async fn introduce(inner: Arc<PoolInner>, stream: UnixStream) {
    let (reader, writer) = stream.into_split();
    let mut stream = WorkerStream::new(reader, writer);
    let (worker, arrival) = match stream.first().await {
        Ok(FromWorker::Hello(hello)) => match link::misfit(&hello) {
            None => (hello.worker, WorkerArrival::Here(stream, hello)),
            Some(reason) => {
                // It is refused either way.
                let _ = stream.say(&ToWorker::Refused(reason.clone())).await;
                (
                    hello.worker,
                    WorkerArrival::Broken(Failure::new("WorkerRefused", reason)),
                )
            }
        },
        Ok(FromWorker::Broken {
            worker,
            message,
            traceback,
        }) => {
            let mut failure = Failure::new("WorkerBroken", message);
            failure.traceback = traceback;
            (worker, WorkerArrival::Broken(failure))
        }
        Ok(_) => return tracing::warn!("a process spoke before it said hello"),
        Err(problem) => {
            return tracing::warn!(problem, "a process connected and was not understood");
        }
    };
    let expected = worker.and_then(|worker| inner.lock().expected.remove(&PoolWorkerId(worker)));
    match expected {
        // Its attendant may have given up on it meanwhile.
        Some(expected) => drop(expected.send(arrival)),
        None => tracing::warn!("a process connected that nobody had started"),
    }
}

impl RemoteListener {
    pub(super) async fn open(remote: Remote) -> io::Result<Self> {
        let listener = TcpListener::bind(&remote.address).await?;
        Ok(Self {
            listener,
            token: Digest::of(remote.token.as_bytes()),
            tls: remote.tls.map(TlsAcceptor::from),
        })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    pub(super) async fn accept(self, inner: Arc<PoolInner>) {
        let gate = Arc::new(self);
        let permits = Arc::new(Semaphore::new(REMOTE_MAX));
        loop {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                return;
            };
            match gate.listener.accept().await {
                Ok((stream, address)) => {
                    let (inner, gate) = (Arc::clone(&inner), Arc::clone(&gate));
                    inner.runtime.clone().spawn(async move {
                        if let Err(problem) = gate.serve(&inner, stream).await {
                            tracing::warn!(%address, problem, "a remote worker was turned away");
                        }
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a remote worker could not connect");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn serve(&self, inner: &Arc<PoolInner>, stream: TcpStream) -> Result<(), String> {
        stream
            .set_nodelay(true)
            .map_err(|error| error.to_string())?;
        let authenticated = tokio::time::timeout(AUTHENTICATION_LIMIT, self.authenticated(stream));
        let mut stream = authenticated
            .await
            .map_err(|_| "it has shown no token in time".to_owned())??;
        let FromWorker::Hello(hello) = stream.first().await? else {
            return Err("it said no hello".to_owned());
        };
        let refusal = link::misfit(&hello);
        if let Some(reason) = refusal {
            // It is refused either way.
            let _ = stream.say(&ToWorker::Refused(reason.clone())).await;
            return Err(reason);
        }
        let kill = Arc::new(Notify::new());
        let worker = {
            let mut state = inner.lock();
            let worker = state.roster.admit();
            state.links.insert(
                worker,
                WorkerLink::new(Arc::clone(&hello.name), Arc::clone(&kill)),
            );
            worker
        };
        let how = tokio::select! {
            how = link::serve(inner, worker, stream, hello, true) => how,
            () = kill.notified() => "it was cut off".to_owned(),
        };
        inner.farewell(worker, how);
        Ok(())
    }

    /// The connection of somebody who knows the token. Until then little is read, and nothing of it
    /// is taken apart.
    async fn authenticated(&self, stream: TcpStream) -> Result<WorkerStream, String> {
        let mut stream = match &self.tls {
            None => {
                let (reader, writer) = stream.into_split();
                WorkerStream::new(reader, writer)
            }
            Some(tls) => {
                let stream = tls.accept(stream).await;
                let (reader, writer) = tokio::io::split(stream.map_err(|error| error.to_string())?);
                WorkerStream::new(reader, writer)
            }
        };
        let said = stream.token().await?;
        if is_same(&Digest::of(&said), &self.token) {
            return Ok(stream);
        }
        let reason = "the token is wrong".to_owned();
        stream.turn_away(&reason).await;
        Err(reason)
    }
}

/// Looks at every byte, so that the time it takes tells nothing about the token.
fn is_same(one: &Digest, other: &Digest) -> bool {
    let pairs = one.as_bytes().iter().zip(other.as_bytes());
    let differing = pairs.fold(0, |differing, (a, b)| {
        std::hint::black_box(differing | (a ^ b))
    });
    differing == 0
}
