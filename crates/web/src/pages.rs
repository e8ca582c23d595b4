//! What is served: the page and its parts, what it asks, metrics.
//!
//! Principles: each answer says what may be done with it (no scripts but ours, no frames); a change is a POST with the
//! token, which the daemon checks; what takes long ends. Non-goals: where requests come from (`guard`).

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Query, Request as HttpRequest, State as Shared};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use evenkeel_socket::Request;
use futures_util::stream::{Stream, StreamExt as _};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;
use tokio_stream::wrappers::WatchStream;

use crate::bench::{self, Bench};
use crate::daemon::{Daemon, Refused};
use crate::guard::{Names, token};
use crate::live::Live;
use crate::metrics;

/// Bytes of what is posted, at most.
const LONGEST_BODY: usize = 16 << 10;
/// An answer is made within this; events go on.
const PATIENCE: Duration = Duration::from_secs(15);
/// Who watches at once.
const WATCHERS: usize = 100;
/// Minutes of a history, at most.
const POINTS: usize = 720;
/// From one sign of life to the next where nothing changes.
const ALIVE: Duration = Duration::from_secs(15);

/// What pages know.
pub(crate) struct State {
    pub(crate) daemon: Arc<Daemon>,
    pub(crate) live: Arc<Live>,
    pub(crate) bench: Arc<Bench>,
    pub(crate) names: Names,
    pub(crate) read_with_token: bool,
}

type Of = Shared<Arc<State>>;

/// Parts of the page: path, kind, bytes.
const PARTS: [(&str, &str, &[u8]); 6] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_bytes!("../assets/index.html"),
    ),
    (
        "/app.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../assets/app.js"),
    ),
    (
        "/app.css",
        "text/css; charset=utf-8",
        include_bytes!("../assets/app.css"),
    ),
    (
        "/uplot.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../assets/uPlot.iife.min.js"),
    ),
    (
        "/uplot.css",
        "text/css; charset=utf-8",
        include_bytes!("../assets/uPlot.min.css"),
    ),
    (
        "/uplot-licence.txt",
        "text/plain; charset=utf-8",
        include_bytes!("../assets/uPlot-LICENSE"),
    ),
];

/// Everything that is served.
pub(crate) fn router(state: State) -> Router {
    let state = Arc::new(state);
    let mut router = Router::new();
    for (path, kind, bytes) in PARTS {
        router = router.route(
            path,
            get(move || async move { ([(header::CONTENT_TYPE, kind)], bytes) }),
        );
    }
    router
        .route("/api/status", get(status))
        .route("/api/history", get(history))
        .route("/api/events", get(events))
        .route("/api/set", post(set))
        .route("/api/flow", post(move_flow))
        .route("/api/quiet", post(quiet))
        .route("/api/reload", post(reload))
        .route("/api/bench", get(benched).post(bench))
        .route("/api/bench/stop", post(stop_bench))
        .route("/metrics", get(metrics_page))
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(middleware::from_fn_with_state(Arc::clone(&state), guard))
        .with_state(state)
}

/// Before and after everything else.
async fn guard(Shared(state): Of, request: HttpRequest, next: Next) -> Response {
    let refused = state.names.refuse(request.method(), request.headers());
    let path = request.uri().path().to_owned();
    let given = token(request.headers()).map(str::to_owned);
    let mut response = match refused {
        Some((status, why)) => refusal(status, why),
        None => match may_read(&state, &path, given).await {
            Err(refused) => refused.into_response(),
            Ok(()) => timeout(PATIENCE, next.run(request))
                .await
                .unwrap_or_else(|_| refusal(503, "this took too long")),
        },
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The page itself has nothing to hide; what it shows has, where the token is needed.
async fn may_read(state: &State, path: &str, given: Option<String>) -> Result<(), Refused> {
    let is_part = PARTS.iter().any(|(part, ..)| *part == path);
    if !state.read_with_token || is_part {
        return Ok(());
    }
    check(state, given.as_deref()).await
}

async fn check(state: &State, given: Option<&str>) -> Result<(), Refused> {
    let token = given.ok_or(Refused {
        status: 401,
        why: "the token is needed: it stands in /var/lib/evenkeel/token".to_owned(),
    })?;
    let request = Request::Check {
        token: token.to_owned(),
    };
    state.daemon.ask(&request).await.map(|_| ())
}

fn refusal(status: u16, why: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, axum::Json(serde_json::json!({"error": why}))).into_response()
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        refusal(self.status, &self.why)
    }
}

type Shown = Result<axum::Json<Value>, Refused>;

async fn status(Shared(state): Of) -> Shown {
    let request = Request::Status { device: None };
    state.daemon.ask(&request).await.map(axum::Json)
}

/// What is asked of a history.
#[derive(Deserialize)]
struct Span {
    device: Option<String>,
    from: u64,
    to: u64,
}

async fn history(Shared(state): Of, Query(span): Query<Span>) -> Shown {
    let request = Request::History {
        device: span.device,
        from: span.from,
        to: span.to,
        points: POINTS,
        at: None,
    };
    state.daemon.ask(&request).await.map(axum::Json)
}

/// Counts who watches.
struct Watching(&'static AtomicUsize);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn events(
    Shared(state): Of,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refused> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let before = COUNT.fetch_add(1, Ordering::Relaxed);
    let watching = Watching(&COUNT);
    if before >= WATCHERS {
        return Err(Refused {
            status: 503,
            why: "enough watch already".to_owned(),
        });
    }
    let looks = WatchStream::from_changes(state.live.watch());
    let events = looks.map(move |look| {
        let _ = &watching;
        Ok(Event::default().data(look.json()))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)))
}

/// What is to be set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    device: Option<String>,
    mode: Option<String>,
    rules: Option<Vec<String>>,
}

async fn set(Shared(state): Of, headers: HeaderMap, body: Bytes) -> Shown {
    let token = may_change(&state, &headers).await?;
    let setting: Setting = read(&body)?;
    let request = Request::Set {
        device: setting.device,
        mode: setting.mode,
        rules: setting.rules,
        token: Some(token),
    };
    state.daemon.ask(&request).await.map(axum::Json)
}

/// A flow that is to go into another tier.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Moving {
    device: Option<String>,
    flow: u16,
    raise: bool,
}

async fn move_flow(Shared(state): Of, headers: HeaderMap, body: Bytes) -> Shown {
    let token = may_change(&state, &headers).await?;
    let moving: Moving = read(&body)?;
    let request = Request::Move {
        device: moving.device,
        flow: moving.flow,
        raise: moving.raise,
        token: Some(token),
    };
    state.daemon.ask(&request).await.map(axum::Json)
}

/// For how long everything that is no call is to wait.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Quieting {
    device: Option<String>,
    seconds: u32,
}

async fn quiet(Shared(state): Of, headers: HeaderMap, body: Bytes) -> Shown {
    let token = may_change(&state, &headers).await?;
    let quieting: Quieting = read(&body)?;
    let request = Request::Quiet {
        device: quieting.device,
        seconds: quieting.seconds,
        token: Some(token),
    };
    state.daemon.ask(&request).await.map(axum::Json)
}

fn read<'a, T: Deserialize<'a>>(body: &'a Bytes) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|e| Refused {
        status: 400,
        why: format!("this is no setting: {e}"),
    })
}

async fn reload(Shared(state): Of, headers: HeaderMap) -> Shown {
    let token = may_change(&state, &headers).await?;
    let request = Request::Reload { token: Some(token) };
    state.daemon.ask(&request).await.map(axum::Json)
}

async fn benched(Shared(state): Of) -> axum::Json<bench::Shown> {
    axum::Json(state.bench.shown())
}

/// Against what to measure.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Benching {
    to: String,
    #[serde(default)]
    test: bench::Test,
}

async fn bench(
    Shared(state): Of,
    headers: HeaderMap,
    body: Bytes,
) -> Result<axum::Json<bench::Shown>, Refused> {
    may_change(&state, &headers).await?;
    let benching: Benching = read(&body)?;
    state.bench.start(benching.to.trim(), benching.test)?;
    Ok(axum::Json(state.bench.shown()))
}

async fn stop_bench(
    Shared(state): Of,
    headers: HeaderMap,
) -> Result<axum::Json<bench::Shown>, Refused> {
    may_change(&state, &headers).await?;
    state.bench.stop()?;
    Ok(axum::Json(state.bench.shown()))
}

/// The token of who may change something. A form of another site can send neither this kind nor this head.
async fn may_change(state: &State, headers: &HeaderMap) -> Result<String, Refused> {
    let is_json = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|k| k == "application/json");
    if !is_json {
        return Err(Refused {
            status: 415,
            why: "application/json is needed".to_owned(),
        });
    }
    check(state, token(headers)).await?;
    Ok(token(headers).unwrap_or_default().to_owned())
}

async fn metrics_page(Shared(state): Of) -> Response {
    let known = state.daemon.ask(&Request::Status { device: None }).await;
    let text = metrics::text(known.as_ref().ok());
    ([(header::CONTENT_TYPE, metrics::KIND)], text).into_response()
}
