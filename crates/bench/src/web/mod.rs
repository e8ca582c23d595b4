//! HTTP(S) as a client: connections whose parts are timed, loads, and the probes of
//! draft-ietf-ippm-responsiveness.
//!
//! Principles: hyper and rustls do the protocols; what a handshake took is told apart; who answers 429
//! or 503 is left alone. Non-goals: cookies, caches, proxies.

mod load;
mod probes;

use std::convert::Infallible;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use evenkeel_sys::tcp;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::{http1, http2};
use hyper::header::{HOST, LOCATION, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, RootCertStore,
};

use crate::failed::Failed;
use crate::unsent::Piece;

pub(crate) use load::{Growth, WebLoad};
pub(crate) use probes::WebProbes;

/// How long is waited for a connection, a handshake or an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Windows of HTTP/2: a round trip of 100 ms at 1.3 Gbit/s.
const WINDOW: u32 = 16 << 20;
/// The longest text that is read (`/.well-known/nq`), bytes.
const LONGEST_TEXT: usize = 64 * 1024;
/// So many redirections are followed.
const REDIRECTIONS: usize = 5;

/// A URL that was looked up.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// Encrypted.
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) address: SocketAddr,
    /// The URL.
    pub(crate) uri: Uri,
}

impl Target {
    /// Looks the host up.
    pub(crate) fn find(url: &str) -> Result<Self, Failed> {
        let usage = |why: &str| Failed::Usage(format!("{url}: {why}"));
        let uri: Uri = url.parse().map_err(|_| usage("this is no URL"))?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(usage("only http:// and https:// are known")),
        };
        let host = uri.host().ok_or_else(|| usage("it has no host"))?;
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let found = (host.as_str(), port).to_socket_addrs();
        let address = found
            .map_err(|e| Failed::Work(format!("look up {host}: {e}")))?
            .next();
        let address = address.ok_or_else(|| Failed::Work(format!("look up {host}: no address")))?;
        Ok(Target {
            tls,
            host,
            address,
            uri,
        })
    }
}

/// Whom encrypted connections trust.
#[derive(Debug, Clone)]
pub(crate) struct Trust(Arc<ClientConfig>);

impl Trust {
    /// The system's authorities, and one more from a file.
    pub(crate) fn load(extra: Option<&Path>) -> Result<Self, Failed> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = extra {
            let failed = |why: String| Failed::Work(format!("read {}: {why}", path.display()));
            let pem = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>);
            for certificate in pem.map_err(|e| failed(e.to_string()))? {
                roots.add(certificate).map_err(|e| failed(e.to_string()))?;
            }
        }
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| Failed::Work(format!("set TLS up: {e}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Trust(Arc::new(config)))
    }
}

/// A connection, and what its making took.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: Sender,
    /// The socket again, for what the kernel knows of it.
    pub(crate) socket: std::net::TcpStream,
    /// The round trip of TCP's handshake, as the kernel measured it, ms.
    pub(crate) tcp_ms: f64,
    /// How long that handshake took, with what had to be sent again, ms.
    pub(crate) connected_ms: f64,
    /// The handshake of TLS, by its round trips, ms.
    pub(crate) tls_ms: Option<f64>,
}

#[derive(Debug)]
enum Sender {
    One(http1::SendRequest<Outgoing>),
    Two(http2::SendRequest<Outgoing>),
}

/// Connects. Without TLS it is HTTP/2 if `h2`, as one that knows (RFC 9113, 3.3).
pub(crate) async fn connect(
    target: &Target,
    trust: &Trust,
    h2: bool,
) -> Result<Connection, Failed> {
    let to = target.address;
    let slow = |what: &str| {
        Failed::Work(format!(
            "{what} {to}: it takes longer than {} s",
            PATIENCE.as_secs()
        ))
    };
    let began = Instant::now();
    let stream = tokio::time::timeout(PATIENCE, tokio::net::TcpStream::connect(to))
        .await
        .map_err(|_| slow("connect to"))?
        .map_err(|e| Failed::Work(format!("connect to TCP {to}: {e}")))?;
    let connected_ms = began.elapsed().as_secs_f64() * 1000.0;
    let failed = |e: std::io::Error| Failed::Work(format!("connect to TCP {to}: {e}"));
    let _ = stream.set_nodelay(true);
    let std = stream.into_std().map_err(failed)?;
    let socket = std.try_clone().map_err(failed)?;
    let tcp_ms = tcp::info(&socket).map_or(0.0, |i| i.rtt.as_secs_f64() * 1000.0);
    let stream = tokio::net::TcpStream::from_std(std).map_err(failed)?;
    if !target.tls {
        let sender = handshake(stream, h2, to).await?;
        return Ok(Connection {
            sender,
            socket,
            tcp_ms,
            connected_ms,
            tls_ms: None,
        });
    }
    let name = ServerName::try_from(target.host.clone())
        .map_err(|e| Failed::Usage(format!("{}: {e}", target.host)))?;
    let began = Instant::now();
    let connector = TlsConnector::from(Arc::clone(&trust.0));
    let mut stream = tokio::time::timeout(PATIENCE, connector.connect(name, stream))
        .await
        .map_err(|_| slow("speak TLS with"))?
        .map_err(|e| Failed::Work(format!("speak TLS with {}: {e}", target.host)))?;
    let took = began.elapsed().as_secs_f64() * 1000.0;
    let tls_ms = Some(took / round_trips(stream.get_ref().1));
    stream
        .get_mut()
        .1
        .set_buffer_limit(Some(crate::unsent::TLS));
    let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let sender = handshake(stream, h2, to).await?;
    Ok(Connection {
        sender,
        socket,
        tcp_ms,
        connected_ms,
        tls_ms,
    })
}

/// How often a handshake of TLS went there and back (RFC 8446, 2.1 and 2.2; RFC 5246, 7.3).
fn round_trips(c: &ClientConnection) -> f64 {
    match (c.protocol_version(), c.handshake_kind()) {
        (_, Some(HandshakeKind::FullWithHelloRetryRequest)) => 2.0,
        (Some(ProtocolVersion::TLSv1_3), _) | (_, Some(HandshakeKind::Resumed)) => 1.0,
        _ => 2.0,
    }
}

async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    h2: bool,
    to: SocketAddr,
) -> Result<Sender, Failed> {
    let failed = |e: hyper::Error| Failed::Work(format!("speak HTTP with {to}: {e}"));
    let io = TokioIo::new(stream);
    if h2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_send_buf_size(64 * 1024);
        let (sender, connection) = builder.handshake(io).await.map_err(failed)?;
        tokio::spawn(async move {
            let _ = connection.await;
        });
        return Ok(Sender::Two(sender));
    }
    let (sender, connection) = http1::handshake(io).await.map_err(failed)?;
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(Sender::One(sender))
}

impl Connection {
    /// One more handle of the same connection, if it can be shared.
    pub(crate) fn share(&self) -> Option<Connection> {
        let Sender::Two(sender) = &self.sender else {
            return None;
        };
        Some(Connection {
            sender: Sender::Two(sender.clone()),
            socket: self.socket.try_clone().ok()?,
            tcp_ms: self.tcp_ms,
            connected_ms: self.connected_ms,
            tls_ms: self.tls_ms,
        })
    }

    /// Sends a request; the answer's head.
    pub(crate) async fn request(
        &mut self,
        method: Method,
        uri: &Uri,
        body: Outgoing,
    ) -> Result<Response<Incoming>, Failed> {
        let failed = |e: &dyn std::fmt::Display| Failed::Work(format!("ask for {uri}: {e}"));
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        let mut builder = Request::builder().method(method).header(
            USER_AGENT,
            concat!("evenkeel-bench/", env!("CARGO_PKG_VERSION")),
        );
        builder = match &self.sender {
            Sender::One(_) => {
                let path = uri.path_and_query().map_or("/", |p| p.as_str());
                builder.uri(path).header(HOST, authority)
            }
            Sender::Two(_) => builder.uri(uri.clone()),
        };
        let request = builder.body(body).map_err(|e| failed(&e))?;
        match &mut self.sender {
            Sender::One(s) => {
                s.ready().await.map_err(|e| failed(&e))?;
                s.send_request(request).await.map_err(|e| failed(&e))
            }
            Sender::Two(s) => {
                s.ready().await.map_err(|e| failed(&e))?;
                s.send_request(request).await.map_err(|e| failed(&e))
            }
        }
    }

    /// Gets a small thing and throws it away; how long that took, ms.
    pub(crate) async fn fetch(&mut self, uri: &Uri) -> Result<f64, Failed> {
        let began = Instant::now();
        let answer = self.request(Method::GET, uri, Outgoing::Nothing).await?;
        refused(uri, answer.status())?;
        let mut body = answer.into_body();
        while let Some(frame) = body.frame().await {
            frame.map_err(|e| Failed::Work(format!("get {uri}: {e}")))?;
        }
        Ok(began.elapsed().as_secs_f64() * 1000.0)
    }
}

/// Who says that it is too much is left alone.
pub(crate) fn refused(uri: &Uri, status: StatusCode) -> Result<(), Failed> {
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            Err(Failed::Work(format!(
                "{uri} answers {status}: it does not want to be loaded now, so nothing more is asked of it"
            )))
        }
        s if s.is_success() => Ok(()),
        s => Err(Failed::Work(format!("{uri} answers {s}"))),
    }
}

/// What a request carries.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// Nothing.
    Nothing,
    /// The same bytes again and again, until the connection is closed, in such pieces.
    Endless(Bytes, Piece),
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(match &*self {
            Outgoing::Nothing => None,
            Outgoing::Endless(chunk, piece) => Some(Ok(Frame::data(piece.of(chunk, u64::MAX)))),
        })
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Outgoing::Nothing)
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Nothing => SizeHint::with_exact(0),
            Outgoing::Endless(..) => SizeHint::default(),
        }
    }
}

/// What a far end that speaks HTTP offers.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) trust: Trust,
    /// Small and quick, for probes; absent at a server that is not of the draft.
    pub(crate) small: Option<Target>,
    /// What is downloaded.
    pub(crate) large: Target,
    /// Where to upload.
    pub(crate) upload: Option<Target>,
}

/// Asks what `url` is: a server of the draft says so at `/.well-known/nq`; anything else is downloaded.
/// `draft`: it must be the former.
pub(crate) fn look(url: &str, ca: Option<&Path>, draft: bool) -> Result<Site, Failed> {
    let trust = Trust::load(ca)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failed::Work(format!("start an HTTP client: {e}")))?;
    runtime.block_on(async {
        let given = Target::find(url)?;
        let bare = matches!(given.uri.path(), "" | "/" | "/.well-known/nq");
        if bare {
            let authority = given.uri.authority().map_or("", |a| a.as_str());
            let scheme = if given.tls { "https" } else { "http" };
            let known = Target::find(&format!("{scheme}://{authority}/.well-known/nq"))?;
            match configuration(&known, &trust).await {
                Ok(site) => return Ok(site),
                Err(e) if draft || given.uri.path() != "/" => return Err(e),
                Err(_) => {}
            }
        } else if draft {
            return Err(Failed::Usage(format!(
                "{url} is no server of draft-ietf-ippm-responsiveness: give its root"
            )));
        }
        let large = follow(given, &trust).await?;
        Ok(Site {
            trust,
            small: None,
            large,
            upload: None,
        })
    })
}

/// Follows redirections to what is really downloaded.
async fn follow(mut target: Target, trust: &Trust) -> Result<Target, Failed> {
    for _ in 0..REDIRECTIONS {
        let mut c = connect(&target, trust, false).await?;
        let answer = c
            .request(Method::GET, &target.uri, Outgoing::Nothing)
            .await?;
        if !answer.status().is_redirection() {
            refused(&target.uri, answer.status())?;
            return Ok(target);
        }
        let to = answer.headers().get(LOCATION).and_then(|l| l.to_str().ok());
        let to = to.ok_or_else(|| Failed::Work(format!("{} leads nowhere", target.uri)))?;
        let to = if to.starts_with('/') {
            let authority = target.uri.authority().map_or("", |a| a.as_str());
            format!(
                "{}://{authority}{to}",
                if target.tls { "https" } else { "http" }
            )
        } else {
            to.to_owned()
        };
        target = Target::find(&to)?;
    }
    Err(Failed::Work(format!("{} leads on and on", target.uri)))
}

async fn configuration(known: &Target, trust: &Trust) -> Result<Site, Failed> {
    let mut c = connect(known, trust, false).await?;
    let answer = c
        .request(Method::GET, &known.uri, Outgoing::Nothing)
        .await?;
    refused(&known.uri, answer.status())?;
    let mut body = answer.into_body();
    let mut text = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        text.extend(frame.data_ref().map_or(&[][..], |b| b));
        if text.len() > LONGEST_TEXT {
            break;
        }
    }
    let (small, large, upload) = urls(&text).ok_or_else(|| {
        Failed::Work(format!(
            "{} does not say what draft-ietf-ippm-responsiveness asks for",
            known.uri
        ))
    })?;
    Ok(Site {
        trust: trust.clone(),
        small: Some(Target::find(&small)?),
        large: Target::find(&large)?,
        upload: upload.map(|u| Target::find(&u)).transpose()?,
    })
}

/// The URLs of a server's configuration: small, large, upload. Earlier versions of the draft had other
/// names.
pub(crate) fn urls(json: &[u8]) -> Option<(String, String, Option<String>)> {
    let json: serde_json::Value = serde_json::from_slice(json).ok()?;
    let url = |names: [&str; 2]| {
        let found = names
            .iter()
            .find_map(|n| json.get("urls")?.get(n)?.as_str());
        found.map(ToOwned::to_owned)
    };
    Some((
        url(["small_download_url", "small_https_download_url"])?,
        url(["large_download_url", "large_https_download_url"])?,
        url(["upload_url", "https_upload_url"]),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_of_each_url() {
        let now = br#"{"version":1,"urls":{"small_download_url":"a","large_download_url":"b","upload_url":"c"}}"#;
        assert_eq!(urls(now), Some(("a".into(), "b".into(), Some("c".into()))));
        let before = br#"{"urls":{"small_https_download_url":"a","large_https_download_url":"b"}}"#;
        assert_eq!(urls(before), Some(("a".into(), "b".into(), None)));
        for wrong in [
            &b"{}"[..],
            b"",
            b"[]",
            br#"{"urls":7}"#,
            br#"{"urls":{"small_download_url":1}}"#,
        ] {
            assert_eq!(urls(wrong), None);
        }
    }
}
