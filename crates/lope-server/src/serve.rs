//! The listener: connections come in here, bounded in number and in patience, and end here.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use lope::workers::tls;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::context::{ServerContext, ServerParts, ended};
use crate::guesses::Peer;
use crate::patient_stream::PatientStream;
use crate::settings::ServerSettings;
use crate::{api, bulk, openapi, router};

/// Longest a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest head of a request.
const HEAD_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 100;
/// How long open requests may take when the server ends.
const GRACE: Duration = Duration::from_secs(3);
/// Pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why a server does not serve.
#[derive(Debug, Error)]
pub enum ServerError {
    /// Somebody has the address already.
    #[error("{address} is taken")]
    Taken { address: String },
    /// The certificate or its key cannot be used.
    #[error("{message}")]
    Certificate { message: String },
    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: io::Error },
}

/// A server that serves until it is stopped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    base: String,
    scheme: &'static str,
    end: watch::Sender<bool>,
    accepting: JoinHandle<()>,
    acting: JoinHandle<()>,
}

/// An address that is listened on, before anything is served: whoever cannot have it learns so
/// before they begin to work.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    settings: ServerSettings,
    tls: Option<Arc<ServerConfig>>,
}

impl Listening {
    pub async fn bind(settings: ServerSettings) -> Result<Self, ServerError> {
        let tls = encryption(&settings)?;
        let shown = settings.listen.clone();
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ServerError::Taken {
                address: shown.clone(),
            },
            _ => ServerError::Listen {
                address: shown.clone(),
                source,
            },
        };
        let listener = TcpListener::bind(&settings.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            address,
            settings,
            tls,
        })
    }

    /// Serve from now on.
    pub fn serve(self, parts: ServerParts) -> Server {
        let (end, ending) = watch::channel(false);
        let base = self.settings.base.clone();
        let most = self.settings.connections_max;
        let patience = self.settings.request_timeout;
        let context = ServerContext::new(
            parts,
            self.settings,
            self.address,
            openapi::document(api::endpoints()),
            ending.clone(),
        );
        let context = Arc::new(context);
        let router = router::router(&context);
        let acting = tokio::spawn(bulk::work(context));
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let server = ServerListener {
            listener: self.listener,
            tls: self.tls.map(TlsAcceptor::from),
            router,
            patience,
        };
        let accepting = tokio::spawn(accept(server, most, ending));
        Server {
            address: self.address,
            base,
            scheme,
            end,
            accepting,
            acting,
        }
    }
}

impl Server {
    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a person types into a browser.
    pub fn url(&self) -> String {
        format!("{}://{}{}/", self.scheme, self.address, self.base)
    }

    /// Take no more connections, let open requests finish for a moment, and end.
    pub async fn stop(self) {
        let _ = self.end.send(true);
        let _ = self.accepting.await;
        let _ = self.acting.await;
    }
}

/// Where connections come in, and what answers them.
struct ServerListener {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    /// Longest a client may take nothing of what it is sent; events come more often.
    patience: Duration,
}

/// TLS, if a certificate is there.
fn encryption(settings: &ServerSettings) -> Result<Option<Arc<ServerConfig>>, ServerError> {
    let bad = |message: String| ServerError::Certificate { message };
    match (&settings.certificate, &settings.key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            let config = tls::server(certificate, key).map_err(|error| bad(error.to_string()))?;
            Ok(Some(config))
        }
        _ => Err(bad("a certificate and its key go together".to_owned())),
    }
}

async fn accept(server: ServerListener, most: usize, mut ending: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(most));
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, server.listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = ended(&mut ending) => break,
        };
        let Ok(place) = place else { break };
        match accepted {
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                let service = PeerService {
                    inner: TowerToHyperService::new(server.router.clone()),
                    peer: Peer(peer.ip()),
                };
                connections.spawn(greeted(
                    PatientStream::new(stream, server.patience),
                    server.tls.clone(),
                    service,
                    place,
                    ending.clone(),
                ));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(server);
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(GRACE, all).await;
}

/// A connection, behind TLS if there is any.
async fn greeted(
    stream: PatientStream<TcpStream>,
    tls: Option<TlsAcceptor>,
    service: PeerService,
    place: OwnedSemaphorePermit,
    ending: watch::Receiver<bool>,
) {
    match tls {
        None => connection(stream, service, ending).await,
        Some(tls) => match tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
            Ok(Ok(stream)) => connection(stream, service, ending).await,
            Ok(Err(error)) => tracing::debug!(%error, "a client does not speak TLS"),
            Err(_) => tracing::debug!("a client did not finish its handshake"),
        },
    }
    drop(place);
}

/// Tells handlers who is at the other end.
struct PeerService {
    inner: TowerToHyperService<Router>,
    peer: Peer,
}

impl Service<Request<Incoming>> for PeerService {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        self.inner.call(request)
    }
}

async fn connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    service: PeerService,
    mut ending: watch::Receiver<bool>,
) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_MAX)
        .max_headers(HEADERS_MAX);
    let stream = TokioIo::new(stream);
    let mut serving = std::pin::pin!(builder.serve_connection(stream, service));
    let outcome = tokio::select! {
        outcome = serving.as_mut() => outcome,
        () = ended(&mut ending) => {
            serving.as_mut().graceful_shutdown();
            serving.as_mut().await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended early");
    }
}
