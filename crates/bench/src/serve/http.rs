//! The server's HTTP side: what draft-ietf-ippm-responsiveness asks of one, over HTTP/2 or HTTP/1.1,
//! encrypted where a certificate was given.
//!
//! Principles: hyper and rustls do the protocols; bodies are sent from one buffer and thrown away as
//! they come; each byte counts against its client. Non-goals: files, names, logs.

use std::convert::Infallible;
use std::net::{IpAddr, TcpStream};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_sys::poll::Waker;
use evenkeel_sys::{Error, clock};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::clients::Clients;
use super::config::{Config, ServeError};
use crate::unsent::{self, Piece, Unsent};

/// A connection must have shown a request, or its TLS handshake, so soon.
const PATIENCE: Duration = Duration::from_secs(10);
/// The draft: `large` has 8 GB or more.
const LARGE: u64 = 8_000_000_000;
/// Bytes of a body that are handed over at once.
const CHUNK: usize = 64 * 1024;
/// What a client may send before it was taken: a round trip of 100 ms at 1 Gbit/s.
const WINDOW: u32 = 12 << 20;

/// The record that a TLS handshake begins with.
const HANDSHAKE: u8 = 0x16;

type Shared = Arc<Mutex<Clients>>;

fn lock(clients: &Shared) -> MutexGuard<'_, Clients> {
    clients.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to serve what is sent to it, until all senders are gone.
pub(super) fn start(
    config: &Config,
    clients: Shared,
    stop: Arc<Waker>,
) -> Result<(UnboundedSender<TcpStream>, JoinHandle<()>), ServeError> {
    let tls = config.tls.as_ref();
    let tls = tls.map(|(chain, key)| acceptor(chain, key)).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::io("start the HTTP server", &e))?;
    let (to, from) = unbounded_channel();
    let seconds = config.limits.seconds;
    let thread = std::thread::Builder::new()
        .name("http".into())
        .spawn(move || {
            let _stop = stop;
            runtime.block_on(serve(from, tls, clients, seconds));
            runtime.shutdown_background();
        })
        .map_err(|e| Error::io("start the HTTP server's thread", &e))?;
    Ok((to, thread))
}

fn acceptor(chain: &Path, key: &Path) -> Result<TlsAcceptor, ServeError> {
    let refuse = |path: &Path, why: String| ServeError::Tls {
        path: path.to_owned(),
        why,
    };
    let certificates = CertificateDer::pem_file_iter(chain).and_then(Iterator::collect);
    let certificates: Vec<_> = certificates.map_err(|e| refuse(chain, e.to_string()))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|e| refuse(key, e.to_string()))?;
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|b| {
            b.with_no_client_auth()
                .with_single_cert(certificates, secret)
        })
        .map_err(|e| refuse(chain, e.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn serve(
    mut from: UnboundedReceiver<TcpStream>,
    tls: Option<TlsAcceptor>,
    clients: Shared,
    seconds: u16,
) {
    let longest = Duration::from_secs(u64::from(seconds)) + PATIENCE;
    while let Some(socket) = from.recv().await {
        let Ok(peer) = socket.peer_addr().map(|a| a.ip()) else {
            continue;
        };
        let _ = socket.set_nodelay(true);
        let (tls, clients) = (tls.clone(), Arc::clone(&clients));
        tokio::spawn(async move {
            // Whatever it does, it ends.
            let _ = tokio::time::timeout(longest, connection(socket, peer, tls, &clients)).await;
            lock(&clients).closed(peer);
        });
    }
}

async fn connection(
    socket: TcpStream,
    peer: IpAddr,
    tls: Option<TlsAcceptor>,
    clients: &Shared,
) -> Option<()> {
    let mut unsent = Unsent::bound(socket.try_clone().ok()?);
    let piece = unsent.piece();
    let served = async {
        let socket = tokio::net::TcpStream::from_std(socket).ok()?;
        let mut first = [0];
        socket.peek(&mut first).await.ok()?;
        if first[0] != HANDSHAKE {
            requests(socket, peer, false, (clients, piece)).await;
            return Some(());
        }
        let handshake = tokio::time::timeout(PATIENCE, tls?.accept(socket));
        let mut socket = handshake.await.ok()?.ok()?;
        socket.get_mut().1.set_buffer_limit(Some(unsent::TLS));
        requests(socket, peer, true, (clients, piece)).await;
        Some(())
    };
    let mut served = std::pin::pin!(served);
    loop {
        tokio::select! {
            done = &mut served => return done,
            () = tokio::time::sleep(unsent::LOOK) => unsent.look(),
        }
    }
}

async fn requests(
    socket: impl AsyncRead + AsyncWrite + Unpin + 'static,
    peer: IpAddr,
    encrypted: bool,
    (clients, piece): (&Shared, Piece),
) {
    let mut server = Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE);
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(64)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(CHUNK)
        .keep_alive_interval(PATIENCE)
        .keep_alive_timeout(PATIENCE);
    let chunk = Bytes::from(crate::payload(CHUNK));
    let service = service_fn(|request: Request<Incoming>| {
        let (clients, load) = (Arc::clone(clients), (chunk.clone(), piece.clone()));
        async move { Ok::<_, Infallible>(answer(request, peer, encrypted, clients, load).await) }
    });
    // How it ended is of no interest: the client has gone.
    let _ = server.serve_connection(TokioIo::new(socket), service).await;
}

async fn answer(
    request: Request<Incoming>,
    peer: IpAddr,
    encrypted: bool,
    clients: Shared,
    load: (Bytes, Piece),
) -> Response<Content> {
    let small = |text: String| Content::Whole(Some(Bytes::from(text)));
    if lock(&clients).spend(peer, 0, clock::monotonic()) == 0 {
        let why = "this address has moved as many bytes as it may in an hour\n";
        return respond(
            StatusCode::TOO_MANY_REQUESTS,
            "text/plain",
            small(why.into()),
        );
    }
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/.well-known/nq") => {
            let host = request.headers().get(HOST).and_then(|h| h.to_str().ok());
            let host = request
                .uri()
                .authority()
                .map(ToString::to_string)
                .or(host.map(ToOwned::to_owned));
            let json = nq(&host.unwrap_or_default(), encrypted);
            respond(StatusCode::OK, "application/json", small(json))
        }
        (&Method::GET, "/small") => respond(
            StatusCode::OK,
            "application/octet-stream",
            small("x".into()),
        ),
        (&Method::GET, "/large") => {
            let endless = Content::Large {
                left: LARGE,
                load,
                peer,
                clients,
            };
            respond(StatusCode::OK, "application/octet-stream", endless)
        }
        (&Method::POST | &Method::PUT, "/upload") => {
            let mut body = request.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                if lock(&clients).spend(peer, bytes, clock::monotonic()) == 0 {
                    return respond(
                        StatusCode::TOO_MANY_REQUESTS,
                        "text/plain",
                        small(String::new()),
                    );
                }
            }
            respond(StatusCode::OK, "text/plain", small(String::new()))
        }
        _ => respond(
            StatusCode::NOT_FOUND,
            "text/plain",
            small("not here\n".into()),
        ),
    }
}

fn respond(status: StatusCode, kind: &'static str, content: Content) -> Response<Content> {
    let mut response = Response::new(content);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(
        CACHE_CONTROL,
        HeaderValue::from_static("no-store, no-transform"),
    );
    response
}

/// What `/.well-known/nq` says: the draft's names, and those of its earlier versions.
fn nq(host: &str, encrypted: bool) -> String {
    let scheme = if encrypted { "https" } else { "http" };
    let url = |path: &str| format!("{scheme}://{host}/{path}");
    let (small, large, upload) = (url("small"), url("large"), url("upload"));
    let urls = serde_json::json!({
        "small_download_url": small, "large_download_url": large, "upload_url": upload,
        "small_https_download_url": small, "large_https_download_url": large,
        "https_upload_url": upload,
    });
    serde_json::json!({ "version": 1, "urls": urls }).to_string() + "\n"
}

/// The body of an answer.
enum Content {
    Whole(Option<Bytes>),
    /// So many bytes, as long as the client may have them.
    Large {
        left: u64,
        load: (Bytes, Piece),
        peer: IpAddr,
        clients: Shared,
    },
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(match &mut *self {
            Content::Whole(bytes) => bytes.take().map(|b| Ok(Frame::data(b))),
            Content::Large {
                left,
                load: (chunk, piece),
                peer,
                clients,
            } => {
                let part = piece.of(chunk, *left);
                let n = part.len() as u64;
                let may = lock(clients).spend(*peer, n, clock::monotonic());
                *left = if may == 0 { 0 } else { *left - n };
                (n > 0 && may > 0).then(|| Ok(Frame::data(part)))
            }
        })
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Content::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
            Content::Large { .. } => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_names_every_url() {
        let json: serde_json::Value = serde_json::from_str(&nq("h:1", true)).unwrap();
        assert_eq!(json["version"], 1);
        assert_eq!(json["urls"]["large_download_url"], "https://h:1/large");
        assert_eq!(
            json["urls"]["small_https_download_url"],
            "https://h:1/small"
        );
        assert!(nq("h", false).contains("http://h/upload"));
    }
}
