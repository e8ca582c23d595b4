//! The server of pages as the network meets it: right and wrong requests, garbage, slow ones, many.
//!
//! Each test starts the program with a daemon that answers what the test wants. As root it becomes another user, as it
//! does beside a daemon of root's.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_socket::{Reply, Request, Rights, Server};
use evenkeel_sys::child;
use serde_json::json;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const PATIENCE: Duration = Duration::from_secs(20);

/// The program, its daemon, and where both are.
struct World {
    address: SocketAddr,
    child: Child,
    _daemon: Server,
    _dir: tempfile::TempDir,
}

fn answer(request: Request) -> Reply {
    match request {
        Request::Status { .. } => Reply::done(json!([{
            "device": "wan", "health": "working", "backend": "cake", "mode": "ping",
            "down": {"bytes": 7, "packets": 1, "dropped": 0, "marked": 0, "tiers": [{"tier": "voice", "bytes": 1, "dropped": 0}]},
            "up": {"bytes": 7, "packets": 1, "dropped": 0, "marked": 0, "tiers": []},
            "model": {"base_ms": 9.0,
                "down": {"capacity": "100mbit", "shaped": "99mbit", "passing_kbit": 1.0, "queue_ms": 1.0, "own_queue_ms": 0.0},
                "up": {"capacity": "40mbit", "shaped": "39mbit", "passing_kbit": 1.0, "queue_ms": 0.0, "own_queue_ms": 0.0}},
        }])),
        Request::Flows { .. } => Reply::done(json!({"device": "wan", "flows": []})),
        other => Reply::done(json!(format!("{other:?}"))),
    }
}

impl World {
    fn start(more: &[&str]) -> Self {
        Self::start_with(more, |command| command)
    }

    fn start_with(more: &[&str], with: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = dir.path().join("control.sock");
        let program = env!("CARGO_BIN_EXE_evenkeel-web");
        let user = child::without_rights(&mut Command::new(program)).unwrap();
        let rights = Rights {
            pages: Some(user),
            token: Some(TOKEN.into()),
            ..Rights::default()
        };
        let daemon = Server::start(&path, rights, Arc::new(answer)).unwrap();
        let mut command = Command::new(program);
        command
            .args(["--listen", "127.0.0.1:0", "--socket"])
            .arg(&path)
            .args(more);
        let mut child = with(&mut command).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let address = line
            .trim()
            .trim_start_matches("http://")
            .trim_end_matches('/');
        World {
            address: address.parse().unwrap(),
            child,
            _daemon: daemon,
            _dir: dir,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The whole answer to these bytes.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // It may have answered, and closed, before all is written.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn ask(&self, line: &str, heads: &str, body: &str) -> String {
        let length = body.len();
        let text = format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {length}\r\n{heads}\r\n{body}",
            self.address
        );
        self.raw(text.as_bytes())
    }

    fn status(&self, line: &str, heads: &str, body: &str) -> u16 {
        let answer = self.ask(line, heads, body);
        let code = answer.split(' ').nth(1).and_then(|c| c.parse().ok());
        code.unwrap_or_else(|| panic!("{line}: {answer:?}"))
    }

    /// Open descriptors.
    fn files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))
            .unwrap()
            .count()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn pages_and_what_they_ask() {
    let world = World::start(&[]);
    for (path, has) in [
        ("/", "<title>evenkeel</title>"),
        ("/app.js", "api/events"),
        ("/app.css", "prefers-color-scheme"),
        ("/uplot.js", "uPlot"),
        ("/uplot.css", ".uplot"),
        ("/uplot-licence.txt", "Leon Sorokin"),
        ("/api/status", "\"wan\""),
        ("/api/history?device=wan&from=1&to=2", "History"),
        ("/metrics", "evenkeel_daemon_up 1"),
    ] {
        let answer = world.ask(&format!("GET {path}"), "", "");
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains(has),
            "{path}: {answer}"
        );
        let lower = answer.to_lowercase();
        for head in [
            "content-security-policy: default-src 'none'",
            "x-content-type-options: nosniff",
            "cache-control: no-store",
        ] {
            assert!(lower.contains(head), "{path}: {head}");
        }
    }
    assert_eq!(world.status("GET /nothing", "", ""), 404);
    assert_eq!(world.status("GET /api/history?from=x&to=2", "", ""), 400);
    assert_eq!(world.status("GET /api/set", "", ""), 405);
    // Nothing of its page comes from elsewhere.
    let page = world.ask("GET /", "", "");
    assert!(
        !page.contains("//cdn") && !page.contains("https://"),
        "{page}"
    );
}

#[test]
fn a_change_needs_the_token_and_a_page_of_ours() {
    let world = World::start(&[]);
    let json = "Content-Type: application/json\r\n";
    let bearer = |token: &str| format!("{json}Authorization: Bearer {token}\r\n");
    let body = "{\"device\":\"wan\",\"mode\":\"bandwidth\"}";
    let set = |heads: &str| world.status("POST /api/set", heads, body);
    assert_eq!(set(&bearer(TOKEN)), 200);
    assert_eq!(world.status("POST /api/reload", &bearer(TOKEN), ""), 200);
    let moving = "{\"device\":\"wan\",\"flow\":4711,\"raise\":true}";
    let quiet = "{\"device\":\"wan\",\"seconds\":3600}";
    for (path, body) in [("POST /api/flow", moving), ("POST /api/quiet", quiet)] {
        assert_eq!(world.status(path, &bearer(TOKEN), body), 200, "{path}");
        assert_eq!(world.status(path, json, body), 401, "{path}");
        assert_eq!(world.status(path, &bearer("wrong"), body), 403, "{path}");
        assert_eq!(world.status(path, &bearer(TOKEN), "{}"), 400, "{path}");
    }
    assert_eq!(set(json), 401);
    assert_eq!(set(&bearer("wrong")), 403);
    assert_eq!(set(&bearer("")), 401);
    assert_eq!(set(&format!("Authorization: Bearer {TOKEN}\r\n")), 415);
    assert_eq!(
        set(&format!("{}Origin: http://evil.example\r\n", bearer(TOKEN))),
        403
    );
    assert_eq!(set(&format!("{}Origin: null\r\n", bearer(TOKEN))), 403);
    assert_eq!(
        set(&format!("{}Sec-Fetch-Site: cross-site\r\n", bearer(TOKEN))),
        403
    );
    assert_eq!(
        set(&format!(
            "{}Origin: http://{}\r\n",
            bearer(TOKEN),
            world.address
        )),
        200
    );
    assert_eq!(
        world.status("POST /api/set", &bearer(TOKEN), "{\"mode\":1}"),
        400
    );
    assert_eq!(
        world.status("POST /api/set", &bearer(TOKEN), "{\"other\":1}"),
        400
    );
    assert_eq!(
        world.status("POST /api/set", &bearer(TOKEN), &"x".repeat(20_000)),
        413
    );
}

#[test]
fn names_that_lead_here_by_chance_are_refused() {
    let world = World::start(&["--name", "gateway.lan"]);
    let get = |host: &str| {
        world.raw(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())
    };
    for host in [
        "evil.example",
        "evil.example:8017",
        "gateway.lan.evil.example",
        "",
    ] {
        assert!(get(host).starts_with("HTTP/1.1 4"), "{host}: {}", get(host));
    }
    for host in [
        "gateway.lan",
        "GATEWAY.lan:80",
        "localhost",
        "192.0.2.1",
        "[::1]:1",
    ] {
        assert!(get(host).starts_with("HTTP/1.1 200"), "{host}");
    }
    assert!(
        world
            .raw(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
            .starts_with("HTTP/1.1 400")
    );
}

#[test]
fn reading_needs_the_token_where_that_was_said() {
    let world = World::start(&["--read-with-token"]);
    assert_eq!(world.status("GET /", "", ""), 200);
    for path in ["/api/status", "/api/events", "/metrics"] {
        assert_eq!(world.status(&format!("GET {path}"), "", ""), 401, "{path}");
    }
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(world.status("GET /api/status", &bearer, ""), 200);
    assert_eq!(
        world.status("GET /metrics", "Authorization: Bearer x\r\n", ""),
        403
    );
}

#[test]
fn events_come_each_second() {
    let world = World::start(&[]);
    let mut stream = world.connect();
    write!(
        stream,
        "GET /api/events HTTP/1.1\r\nHost: {}\r\n\r\n",
        world.address
    )
    .unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut data = lines
        .by_ref()
        .filter_map(|l| Some(l.ok()?.strip_prefix("data: ")?.to_owned()));
    for _ in 0..2 {
        let event: serde_json::Value = serde_json::from_str(&data.next().unwrap()).unwrap();
        assert_eq!(event["status"][0]["device"], "wan");
        assert_eq!(event["flows"]["wan"], json!([]));
    }
}

#[test]
fn garbage_is_refused_and_nothing_else_suffers() {
    let world = World::start(&[]);
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for n in 0..200 {
        let length = random() as usize % 600;
        let mut bytes: Vec<u8> = (0..length).map(|_| random() as u8).collect();
        if n % 2 == 0 {
            bytes.splice(..0, *b"GET / HTTP/1.1\r\n");
        }
        bytes.extend(b"\r\n\r\n");
        let answer = world.raw(&bytes);
        assert!(
            !answer.starts_with("HTTP/1.1 200") && !answer.starts_with("HTTP/1.1 5"),
            "{answer}"
        );
    }
    let long = format!(
        "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "x".repeat(100_000)
    );
    assert!(world.raw(long.as_bytes()).starts_with("HTTP/1.1 4"));
    let many = "X: y\r\n".repeat(1000);
    assert!(
        world
            .raw(format!("GET / HTTP/1.1\r\n{many}\r\n").as_bytes())
            .starts_with("HTTP/1.1 4")
    );
    assert_eq!(world.status("GET /api/status", "", ""), 200);
}

#[test]
fn five_hundred_slow_ones_are_let_go() {
    let world = World::start(&[]);
    let before = world.files();
    let mut slow: Vec<TcpStream> = (0..600).map(|_| world.connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET / HT").unwrap();
    }
    // The one behind them is served as soon as they are let go, which is soon.
    let asked = Instant::now();
    assert_eq!(world.status("GET /api/status", "", ""), 200);
    assert!(asked.elapsed() < PATIENCE, "{:?}", asked.elapsed());
    assert!(world.files() <= before + 500 + 16, "{}", world.files());
    drop(slow);
    let end = Instant::now() + PATIENCE;
    while world.files() > before + 16 {
        assert!(Instant::now() < end, "{} descriptors stay", world.files());
        std::thread::sleep(Duration::from_millis(50));
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", world.child.id())).unwrap();
    let rss = status
        .lines()
        .find_map(|l| l.strip_prefix("VmRSS:"))
        .unwrap();
    let kb: u64 = rss.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kb < 40_000, "{kb} kB");
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
}

/// Whether a program is there; says so if not.
fn has(test: &str, program: &str) -> bool {
    let found = Command::new(program)
        .arg("--help")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if found.is_err() {
        let _ = writeln!(std::io::stderr(), "SKIP {test}: there is no {program}");
    }
    found.is_ok()
}

/// What Prometheus' own checker says to `input`; empty if nothing is wrong.
fn promtool(args: &[&str], input: &str) -> String {
    let mut command = Command::new("promtool");
    command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let out = child.wait_with_output().unwrap();
    let said = [out.stdout, out.stderr].concat();
    if out.status.success() {
        String::new()
    } else {
        String::from_utf8(said).unwrap()
    }
}

#[test]
fn prometheus_takes_the_metrics_and_the_boards_questions() {
    if !has(
        "prometheus_takes_the_metrics_and_the_boards_questions",
        "promtool",
    ) {
        return;
    }
    let world = World::start(&[]);
    let answer = world.ask("GET /metrics", "", "");
    let (_, metrics) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(promtool(&["check", "metrics"], metrics), "", "{metrics}");

    let board = include_str!("../../../packaging/grafana.json");
    let board: serde_json::Value = serde_json::from_str(board).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let asked = panels.iter().flat_map(|p| p["targets"].as_array().unwrap());
    let asked: Vec<String> = asked
        .map(|t| {
            t["expr"]
                .as_str()
                .unwrap()
                .replace("$__rate_interval", "5m")
        })
        .collect();
    assert!(asked.len() > 10);
    for question in &asked {
        for word in question.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            let known =
                !word.starts_with("evenkeel_") || metrics.contains(&format!("# TYPE {word} "));
            assert!(known, "{word} is no metric");
        }
    }
    let rules: Vec<_> = (0..)
        .zip(&asked)
        .map(|(n, expr)| json!({"record": format!("board:{n}"), "expr": expr}))
        .collect();
    let rules = json!({"groups": [{"name": "board", "rules": rules}]}).to_string();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules.yml");
    std::fs::write(&file, rules).unwrap();
    assert_eq!(
        promtool(&["check", "rules", file.to_str().unwrap()], ""),
        ""
    );
}

#[test]
fn home_assistant_hears_of_the_line() {
    if !has("home_assistant_hears_of_the_line", "mosquitto")
        || !has("home_assistant_hears_of_the_line", "mosquitto_sub")
    {
        return;
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("mosquitto.conf");
    std::fs::write(
        &config,
        format!("listener {port} 127.0.0.1\nallow_anonymous true\n"),
    )
    .unwrap();
    let mut broker = Command::new("mosquitto");
    let mut broker = broker
        .arg("-c")
        .arg(&config)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < end, "the broker does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut listener = Command::new("mosquitto_sub");
    listener.args(["-p", &port.to_string(), "-v", "-W", "30", "-t", "#"]);
    let mut listener = listener.stdout(Stdio::piped()).spawn().unwrap();
    let heard = BufReader::new(listener.stdout.take().unwrap());
    let world = World::start_with(&[], |command| {
        command.env("EVENKEEL_MQTT", format!("mqtt://127.0.0.1:{port}"))
    });
    let mut missing = vec![
        "evenkeel/available online",
        "homeassistant/sensor/evenkeel_wan/latency/config {",
        "evenkeel/wan/state {",
    ];
    for line in heard.lines().map_while(Result::ok) {
        missing.retain(|m| !line.starts_with(m));
        if missing.is_empty() {
            break;
        }
    }
    drop(world);
    let _ = (
        listener.kill(),
        listener.wait(),
        broker.kill(),
        broker.wait(),
    );
    assert_eq!(missing, [""; 0]);
}

/// A program in the place of evenkeel-bench, and where it is.
fn measures(script: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let readable = |path: &std::path::Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    readable(dir.path());
    let path = dir.path().join("bench");
    std::fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
    readable(&path);
    (dir, path.to_str().unwrap().to_owned())
}

impl World {
    /// Asks as the page does, with the token.
    fn change(&self, path: &str, body: &str) -> u16 {
        let heads = format!("Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n");
        self.status(&format!("POST {path}"), &heads, body)
    }

    fn measured(&self) -> serde_json::Value {
        let answer = self.ask("GET /api/bench", "", "");
        let body = answer.split("\r\n\r\n").nth(1).unwrap();
        serde_json::from_str(body).unwrap()
    }

    /// What a measurement came to.
    fn end_of_measurement(&self) -> serde_json::Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let shown = self.measured();
            if shown["running_s"].is_null() {
                return shown;
            }
            assert!(Instant::now() < until, "{shown}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn the_line_is_measured_when_somebody_with_the_token_asks() {
    let (_dir, program) = measures("echo \"$@\"; [ $EUID -ne 0 ] && echo 1");
    let world = World::start(&["--bench", &program]);
    assert_eq!(world.measured()["available"], true);
    let json = "Content-Type: application/json\r\n";
    let to = r#"{"to": "vps.example"}"#;
    assert_eq!(world.status("POST /api/bench", json, to), 401);
    let heads = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(world.status("POST /api/bench", &heads, to), 415);
    for wrong in [
        r#"{"to": "a b"}"#,
        r#"{"to": "a\nb"}"#,
        "{}",
        "x",
        r#"{"to": 7}"#,
        r#"{"to": "a", "test": "idle"}"#,
    ] {
        assert_eq!(world.change("/api/bench", wrong), 400, "{wrong}");
    }
    assert_eq!(world.change("/api/bench/stop", "{}"), 409);
    for (to, is) in [
        ("vps.example", "vps.example"),
        ("", "auto"),
        ("--help", "--help"),
    ] {
        assert_eq!(
            world.change("/api/bench", &format!("{{\"to\": {to:?}}}")),
            200
        );
        let shown = world.end_of_measurement();
        assert_eq!(
            shown["result"],
            format!("bench --quick --yes --test rrul --to={is}\n1\n")
        );
        assert!(shown["trouble"].is_null(), "{shown}");
    }
}

#[test]
fn a_measurement_is_alone_and_can_be_stopped() {
    // It says at a port of ours that it can be stopped by now.
    let ready = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = ready.local_addr().unwrap().port();
    let (_dir, program) = measures(&format!(
        "trap 'echo so far; exit 0' INT; echo > /dev/tcp/127.0.0.1/{port}; while :; do sleep 0.02; done"
    ));
    let world = World::start(&["--bench", &program]);
    let begin = || world.change("/api/bench", r#"{"to": "vps.example"}"#);
    assert_eq!((begin(), begin()), (200, 409));
    ready.set_nonblocking(true).unwrap();
    let until = Instant::now() + PATIENCE;
    while ready.accept().is_err() {
        assert!(Instant::now() < until, "{}", world.measured());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(world.change("/api/bench/stop", "{}"), 200);
    let shown = world.end_of_measurement();
    assert_eq!(shown["result"], "so far\n", "{shown}");
    assert_eq!(begin(), 200);
}

#[test]
fn a_measurement_that_fails_says_why_and_one_that_floods_is_cut() {
    let (_dir, program) = measures("echo 'evenkeel-bench: error: no such host' >&2; exit 1");
    let world = World::start(&["--bench", &program]);
    assert_eq!(world.change("/api/bench", r#"{"to": "vps.example"}"#), 200);
    let shown = world.end_of_measurement();
    assert_eq!(shown["trouble"], "evenkeel-bench: error: no such host");
    let (_dir, program) = measures("printf 'x%.0s' {1..200000}; echo x >&2");
    let world = World::start(&["--bench", &program]);
    assert_eq!(world.change("/api/bench", r#"{"to": "vps.example"}"#), 200);
    let shown = world.end_of_measurement();
    assert_eq!(shown["result"].as_str().map(str::len), Some(64 << 10));
    let world = World::start(&["--bench", "/nonexistent"]);
    assert_eq!(world.measured()["available"], false);
    assert_eq!(world.change("/api/bench", r#"{"to": "vps.example"}"#), 501);
}
