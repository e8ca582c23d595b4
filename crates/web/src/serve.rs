//! Connections: how many, how long, how large.
//!
//! Principles: whoever connects costs something only as long as he goes on; heads come within seconds and are small;
//! where there are enough connections others wait in the kernel's queue. Non-goals: what is served.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use evenkeel_terminal::Failure;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower_service::Service as _;

/// At once.
pub(crate) const CONNECTIONS: usize = 500;
/// A request's head comes within this, also the next one's of the same connection.
const HEAD: Duration = Duration::from_secs(5);
/// Bytes of a head, at most.
const LONGEST_HEAD: usize = 16 << 10;
/// Lines of a head, at most.
const MOST_HEADERS: usize = 64;
/// After an error of the machine's (no descriptors), so long until the next attempt.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves for ever.
pub(crate) async fn serve(listener: std::net::TcpListener, router: Router) -> Result<(), Failure> {
    listener.set_nonblocking(true).map_err(Failure::work)?;
    let listener = TcpListener::from_std(listener).map_err(Failure::work)?;
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else {
            return Ok(());
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let router = router.clone();
        tokio::spawn(async move {
            // Who breaks a connection off has his reasons.
            let _ = connection(stream, router).await;
            drop(permit);
        });
    }
}

async fn connection(stream: TcpStream, router: Router) -> Result<(), hyper::Error> {
    let serve = service_fn(move |request: Request<hyper::body::Incoming>| {
        let mut router = router.clone();
        async move {
            Ok::<_, Infallible>(
                router
                    .call(request.map(Body::new))
                    .await
                    .unwrap_or_else(|e| match e {}),
            )
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(LONGEST_HEAD)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(stream), serve)
        .await
}
