//! The socket: what is understood, what is refused, and that it stays bounded.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use evenkeel_socket::{
    CLIENTS, LONGEST_REQUEST, Refused, Reply, Request, Rights, Server, ask, parse,
};
use proptest::prelude::*;

const PATIENCE: Duration = Duration::from_secs(10);

fn echo(path: &Path) -> Server {
    Server::start(
        path,
        Rights::default(),
        Arc::new(|r: Request| Reply::done(r)),
    )
    .unwrap()
}

fn status() -> Request {
    Request::Status {
        device: Some("wan".into()),
    }
}

fn raw(path: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // It may answer, and close, before all is written.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn a_question_and_its_answer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deeper/control.sock");
    assert_eq!(ask(&path, &status(), PATIENCE), Err(Refused::Nobody));
    let server = echo(&path);
    let answer = ask(&path, &status(), PATIENCE).unwrap();
    assert_eq!(
        answer,
        serde_json::json!({"ask": "status", "device": "wan"})
    );
    // A second one at the same place is refused, and the first goes on.
    let second = Server::start(&path, Rights::default(), Arc::new(|_| Reply::done(())));
    assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    let both = raw(&path, b"{\"ask\":\"status\"}\n{\"ask\":\"status\"}\n");
    assert_eq!(both.lines().count(), 2, "{both}");
    drop(server);
    assert!(!path.exists());
}

#[test]
fn what_a_killed_one_left_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    assert_eq!(ask(&path, &status(), PATIENCE), Err(Refused::Nobody));
    assert!(!path.exists());
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let _server = echo(&path);
    assert!(ask(&path, &status(), PATIENCE).is_ok());
}

#[test]
fn what_makes_no_sense_is_refused_in_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    let _server = echo(&path);
    let long = vec![b'x'; LONGEST_REQUEST as usize + 10];
    for (bytes, says) in [
        (&b"\n"[..], "no request"),
        (b"{}\n", "no request"),
        (b"{\"ask\":\"status\",\"more\":1}\n", "unknown field"),
        (b"{\"ask\":\"sing\"}\n", "unknown variant"),
        (b"\xff\xfe\n", "no request"),
        (b"[[[[[[[[[[[[[[[[\n", "no request"),
        (&long, "too long"),
    ] {
        let answer = raw(&path, bytes);
        assert!(
            answer.contains("\"code\":2") && answer.contains(says),
            "{says}: {answer}"
        );
        assert_eq!(answer.lines().count(), 1, "{answer}");
    }
    assert_eq!(raw(&path, b"{\"ask\":\"status\""), "");
    assert!(ask(&path, &status(), PATIENCE).is_ok());
}

#[test]
fn only_so_many_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    let _server = echo(&path);
    let mut idle = Vec::new();
    for _ in 0..CLIENTS {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"{\"ask\":\"status\"}\n").unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        idle.push(stream);
    }
    let refused = ask(&path, &status(), PATIENCE).unwrap_err();
    assert!(
        matches!(&refused, Refused::Said { code: 1, error } if error.contains("too many")),
        "{refused:?}"
    );
    drop(idle);
    // They are let go as soon as their ends are seen.
    let end = std::time::Instant::now() + PATIENCE;
    while ask(&path, &status(), PATIENCE).is_err() {
        assert!(std::time::Instant::now() < end);
        std::thread::yield_now();
    }
}

#[test]
fn one_that_hangs_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    let (go, wait) = channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let hang = move |_| {
        let _ = wait.lock().map(|w| w.recv());
        Reply::done(())
    };
    let _server = Server::start(&path, Rights::default(), Arc::new(hang)).unwrap();
    assert_eq!(
        ask(&path, &status(), Duration::from_millis(50)),
        Err(Refused::Nobody)
    );
    drop(go);
}

proptest! {
    #[test]
    fn any_line_is_parsed_or_refused(line in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&line);
    }

    #[test]
    fn requests_read_back(device in proptest::option::of(".{0,20}"), rules in proptest::option::of(proptest::collection::vec(".{0,20}", 0..3))) {
        let request = Request::Set { device, mode: None, rules, token: Some("t".into()) };
        let line = serde_json::to_vec(&request).unwrap();
        prop_assert!(!line.contains(&b'\n'));
        prop_assert_eq!(parse(&line).unwrap(), request);
    }
}
