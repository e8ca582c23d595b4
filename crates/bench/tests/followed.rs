//! `--compare` where `evenkeel run` follows the line: what its daemon is asked, by a daemon that writes
//! it down. (That a real one does it is tested where that is: `it_lets_go_for_a_while`.)

mod common;

use std::path::Path;
use std::sync::{Arc, Mutex};

use evenkeel_bench::client::Failed;
use evenkeel_bench::client::compare::Shaping;
use evenkeel_kernel::StateDir;
use evenkeel_socket::{Reply, Request, Rights, Server};
use serde_json::Value;

/// A daemon that follows `v0`, whose record is there as long as it is shaped; and what it heard.
fn daemon(dir: &Path, state: String) -> (Server, Arc<Mutex<Vec<Request>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (writes, records) = (Arc::clone(&heard), StateDir::new(dir));
    let record = records.file("v0");
    let socket = records.socket_file();
    std::fs::write(&record, &state).unwrap();
    let answer = move |request: Request| {
        let reply = match &request {
            Request::Pause { device, .. } if device == "v0" => {
                std::fs::remove_file(&record).unwrap();
                Reply::done("paused")
            }
            Request::Pause { .. } => Reply::refused(2, "it is not followed by this daemon"),
            Request::Resume { .. } => {
                std::fs::write(&record, &state).unwrap();
                Reply::done("followed again")
            }
            _ => Reply::done(Value::Null),
        };
        if !matches!(request, Request::Status { .. }) {
            writes.lock().unwrap().push(request);
        }
        reply
    };
    let rights = Rights::default();
    let server = Server::start(&socket, rights, Arc::new(answer)).unwrap();
    (server, heard)
}

/// A record as shaping leaves it.
fn record(dir: &Path, test: &str) -> Option<String> {
    let w = common::world(test, 100, 100)?;
    let shape = || {
        let records = StateDir::new(dir);
        common::sh("tc qdisc del dev v0 root");
        evenkeel_kernel::shape(&records, &common::request()).unwrap();
        let text = std::fs::read_to_string(records.file("v0")).unwrap();
        evenkeel_kernel::clear(&records, "v0").unwrap();
        text
    };
    Some(w.near.run(shape).unwrap())
}

#[test]
fn it_is_asked_to_pause_and_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let Some(state) = record(dir.path(), "it_is_asked_to_pause_and_to_go_on") else {
        return;
    };
    let (_server, heard) = daemon(dir.path(), state);
    let records = StateDir::new(dir.path());
    let _held = records.lock("v0").unwrap();
    let shaped = || records.load("v0").unwrap().is_some_and(|s| s.complete);
    assert!(shaped());
    let mut shaping = Shaping::found(dir.path(), "v0").unwrap();
    shaping.set(true).unwrap();
    assert!(heard.lock().unwrap().is_empty(), "it is shaped");
    shaping.set(false).unwrap();
    assert!(!shaped());
    shaping.set(true).unwrap();
    assert!(shaped());
    shaping.set(false).unwrap();
    // However it ends.
    drop(shaping);
    assert!(shaped());
    let heard = heard.lock().unwrap();
    let pauses = |r: &Request| {
        matches!(
            r,
            Request::Pause {
                seconds: 10..=60,
                ..
            }
        )
    };
    assert_eq!(
        heard.iter().map(pauses).collect::<Vec<_>>(),
        [true, false, true, false]
    );
}

#[test]
fn a_device_that_somebody_else_holds_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let records = StateDir::new(dir.path());
    let _held = records.lock("v0").unwrap();
    let refused = Shaping::found(dir.path(), "v0").unwrap_err();
    assert!(
        matches!(&refused, Failed::Work(w) if w.contains("holds this device")),
        "{refused}"
    );
}
