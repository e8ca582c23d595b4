//! What tests of the program share: network namespaces of their own, and what is seen in them.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use evenkeel_sys::Netns;

/// Whether we are root; says so if not.
pub(crate) fn root(test: &str) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if !root {
        let _ = writeln!(std::io::stderr(), "SKIP {test}: needs root");
    }
    root
}

/// Puts an executable copy of `from` to `to`. By another process: a child that another test forks in
/// that moment would otherwise hold the file open, and what is open for writing cannot be executed.
#[allow(dead_code)] // Not by every test.
pub(crate) fn put_program(from: &Path, to: &Path) {
    let mut install = Command::new("install");
    let status = install.args(["-m", "755"]).arg(from).arg(to).status();
    assert!(status.unwrap().success(), "install {}", to.display());
}

pub(crate) fn ip(args: &str) {
    let status = Command::new("ip").args(args.split(' ')).status().unwrap();
    assert!(status.success(), "ip {args}");
}

/// Makes a veth device `wan` that is up.
pub(crate) fn add_wan() {
    for args in [
        "link add wan type veth peer name peer",
        "addr add 192.0.2.1/24 dev wan",
        "link set peer up",
        "link set wan up",
    ] {
        ip(args);
    }
}

/// Runs `f` in a namespace with nothing but `lo`; it gets a directory of its own.
pub(crate) fn in_empty_namespace(f: impl FnOnce(&Path) + Send) {
    let tmp = tempfile::tempdir().unwrap();
    let inside = || {
        ip("link set lo up");
        f(tmp.path());
    };
    Netns::new("test").unwrap().run(inside).unwrap();
}

/// The same with [`add_wan`]'s device.
pub(crate) fn in_namespace(f: impl FnOnce(&Path) + Send) {
    in_empty_namespace(|dir| {
        add_wan();
        f(dir);
    });
}

/// Devices, disciplines and filters of this namespace, as iproute2 shows them.
pub(crate) fn seen() -> String {
    let show = |program: &str, args: &str| {
        let out = Command::new(program).args(args.split(' ')).output();
        String::from_utf8(out.unwrap().stdout).unwrap()
    };
    let links = show("ip", "-d -o link");
    // The counter of ifindex allocations is no trace of ours; carrier states settle by themselves.
    show("tc", "qdisc show")
        + &show("tc", "filter show dev wan ingress")
        + &links
            .replace("LOWERLAYERDOWN", "UP")
            .replace("NO-CARRIER,", "")
}

/// Exit code, stdout, stderr.
#[allow(dead_code)] // Not by every test.
pub(crate) fn words(out: Output) -> (i32, String, String) {
    let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
    let code = out.status.code().unwrap_or(-1);
    (code, text(out.stdout), text(out.stderr))
}

/// One line on stderr, nothing else.
#[allow(dead_code)] // Not by every test.
pub(crate) fn refused(got: &(i32, String, String), code: i32, says: &str) {
    let (exit, out, err) = got;
    assert_eq!((*exit, out.as_str()), (code, ""), "{says}: {err}");
    assert_eq!(err.lines().count(), 1, "{says}: {err}");
    assert!(err.contains(says), "{says}: {err}");
}
