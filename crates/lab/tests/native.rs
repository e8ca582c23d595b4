//! Labs on this kernel: conditions are put in and taken out, and nothing stays behind. Whether
//! the line is right is asked in virtual time (line.rs).

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use evenkeel_core::result::ResultFile;
use evenkeel_lab::experiment::{Device, Experiment};
use evenkeel_lab::{
    CellCache, Dropped, LabError, Native, RunOptions, Shaper, ShaperError, Site, cells, run,
    run_cell,
};

/// Tests that measure have the machine for themselves, as far as this process goes.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn vdsl100(device: Device, seconds: f64) -> Experiment {
    let mut e = common::vdsl100();
    e.line.device = device;
    e.duration.quick_s = seconds;
    e.duration.idle_s = 2.0;
    e
}

/// What was called, in order.
type Calls = Arc<Mutex<Vec<String>>>;

/// A shaper that only writes down what it is asked to do.
#[derive(Default)]
struct Recorder(Calls);

impl Shaper for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }
    fn apply(&mut self, site: &Site) -> Result<(), ShaperError> {
        nix::net::if_::if_nametoindex(site.wan.as_str())?;
        for lan in &site.lan {
            nix::net::if_::if_nametoindex(lan.as_str())?;
        }
        self.0.lock().unwrap().push("apply".into());
        Ok(())
    }
    fn dropped(&mut self) -> Result<Dropped, ShaperError> {
        Ok(Dropped {
            packets: 42,
            acks: None,
        })
    }
    fn clear(&mut self) -> Result<(), ShaperError> {
        self.0.lock().unwrap().push("clear".into());
        Ok(())
    }
}

/// A condition that writes down what is done to it, and where it does.
fn recorder() -> (Vec<Box<dyn Shaper>>, Calls) {
    let log = Recorder::default();
    let calls = Arc::clone(&log.0);
    (vec![Box::new(log)], calls)
}

/// A quick run of `rrul`.
fn quick(
    e: &Experiment,
    conditions: &[&str],
    shapers: &mut [Box<dyn Shaper>],
    progress: &mut (dyn FnMut(&evenkeel_lab::Progress<'_>) + Send),
    cancel: &AtomicBool,
) -> Result<ResultFile, LabError> {
    let options = RunOptions {
        quick: true,
        loads: vec!["rrul".into()],
        conditions: conditions.iter().map(|&c| c.into()).collect(),
        ..RunOptions::default()
    };
    let native = Native::new(e, shapers);
    run(
        e,
        &options,
        &native,
        &CellCache::nothing(e),
        progress,
        cancel,
    )
}

#[test]
fn conditions_work_inside_the_gateway() {
    if !common::root("conditions_work_inside_the_gateway") {
        return;
    }
    let _alone = alone();
    let (mut shapers, calls) = recorder();
    let e = vdsl100(Device::Tun, 1.0);
    let never = AtomicBool::new(false);
    let both = ["none", "recorder"];
    let result = quick(&e, &both, &mut shapers, &mut |_| {}, &never);
    let result = result.unwrap_or_else(|e| panic!("{e}"));
    let made = std::mem::take(&mut *calls.lock().unwrap());
    assert!(!made.is_empty(), "once, or more often if runs were void");
    assert!(made.chunks(2).all(|c| c == ["apply", "clear"]), "{made:?}");
    assert!(result.runs[1].dropped_by_us == 42 && result.runs[0].dropped_by_us == 0);
    assert_eq!(result.runs[0].flows_kbit.len(), 8);
    assert!(
        result.runs[0]
            .flows_kbit
            .contains_key("down/client1/near/3")
    );
    // Floats may lose their last bit on the way; the form may not change.
    let json = serde_json::to_string(&result).unwrap();
    let back: ResultFile = serde_json::from_str(&json).unwrap();
    assert_eq!((back.line, back.runs.len()), (result.line, 2));
}

#[test]
fn a_stop_clears_what_was_applied() {
    if !common::root("a_stop_clears_what_was_applied") {
        return;
    }
    let _alone = alone();
    let (mut shapers, calls) = recorder();
    let e = vdsl100(Device::Tun, 30.0);
    let cancel = AtomicBool::new(false);
    let begun = Instant::now();
    let mut stop = |p: &evenkeel_lab::Progress<'_>| {
        if p.is_loaded() {
            cancel.store(true, Ordering::Relaxed);
        }
    };
    let stopped = quick(&e, &["recorder"], &mut shapers, &mut stop, &cancel);
    assert!(matches!(stopped, Err(LabError::Cancelled)));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(*calls.lock().unwrap(), ["apply", "clear"]);
}

#[test]
fn a_condition_that_there_is_not_is_named() {
    let (mut shapers, _) = recorder();
    let e = vdsl100(Device::Tun, 1.0);
    let never = AtomicBool::new(false);
    let refused = quick(&e, &["cake-95"], &mut shapers, &mut |_| {}, &never);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "there is no condition \"cake-95\" (there are: none, recorder)"
    );
}

/// What [`kill_leaves_nothing_behind`] kills.
fn child_of_the_kill_test() {
    let options = RunOptions {
        quick: true,
        loads: vec!["rrul".into()],
        conditions: vec!["none".into()],
        ..RunOptions::default()
    };
    let mut told = false;
    let mut progress = |p: &evenkeel_lab::Progress<'_>| {
        if p.is_loaded() && !told {
            println!("\nloaded");
            told = true;
        }
    };
    let e = vdsl100(Device::Tun, 60.0);
    let _ = run(
        &e,
        &options,
        &Native::new(&e, &mut []),
        &CellCache::nothing(&e),
        &mut progress,
        &AtomicBool::new(false),
    );
}

#[test]
fn kill_leaves_nothing_behind() {
    if std::env::var_os("EVENKEEL_LAB_CHILD").is_some() {
        return child_of_the_kill_test();
    }
    if !common::root("kill_leaves_nothing_behind") {
        return;
    }
    let _alone = alone();
    let devices = || -> BTreeSet<_> {
        let dir = std::fs::read_dir("/sys/class/net").unwrap();
        dir.map(|d| d.unwrap().file_name()).collect()
    };
    let before = devices();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill_leaves_nothing_behind", "--nocapture"])
        .env("EVENKEEL_LAB_CHILD", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(
        lines.map_while(Result::ok).any(|l| l == "loaded"),
        "the child never got to its load"
    );
    let own = std::fs::metadata("/proc/self/ns/net").unwrap().ino();
    let mut held = namespaces_of(&Path::new("/proc").join(child.id().to_string()));
    held.remove(&own);
    assert!(
        held.len() >= 7,
        "3 servers, provider, gateway, 2 clients: {held:?}"
    );
    child.kill().unwrap();
    child.wait().unwrap();

    assert_eq!(devices(), before, "devices of this machine");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let left: Vec<_> = held
        .iter()
        .filter(|i| mounts.contains(&format!("net:[{i}]")))
        .collect();
    assert!(left.is_empty(), "mounted namespaces: {left:?}");
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let holds = namespaces_of(&process.path());
        let left: Vec<_> = holds.intersection(&held).collect();
        assert!(left.is_empty(), "{:?} still holds {left:?}", process.path());
    }
    // And the next run works.
    let e = vdsl100(Device::Tun, 1.0);
    let options = RunOptions {
        quick: true,
        loads: vec!["idle".into()],
        conditions: vec!["none".into()],
        ..RunOptions::default()
    };
    let cell = &cells(&e, &options).unwrap()[0];
    let never = AtomicBool::new(false);
    let run = run_cell(&e, cell, &mut [], &mut |_, _| {}, &never).unwrap_or_else(|e| panic!("{e}"));
    assert!(run.ping_ms.n > 10);
}

/// Network namespaces that a process of /proc is in or has open.
fn namespaces_of(process: &Path) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    for thread in std::fs::read_dir(process.join("task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        if let Ok(m) = std::fs::metadata(thread.path().join("ns/net")) {
            found.insert(m.ino());
        }
    }
    for fd in std::fs::read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let link = std::fs::read_link(fd.path()).unwrap_or_default();
        let inode: Option<u64> = link
            .to_str()
            .and_then(|l| l.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok());
        found.extend(inode);
    }
    found
}
