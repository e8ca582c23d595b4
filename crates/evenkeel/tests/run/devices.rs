//! Devices that go, and devices that are not there yet.

use nix::sys::signal::Signal;

use crate::common::{in_namespace, ip, root, seen};
use crate::running::{Running, evenkeel, left, said, until};
use crate::service::{Manager, serve};

#[test]
fn a_device_that_goes_is_waited_for() {
    if !root("a_device_that_goes_is_waited_for") {
        return;
    }
    in_namespace(|dir| {
        let run = Running::start(dir, "run wan --rate 20mbit 5mbit");
        let clean = || {
            let links = seen();
            assert!(!links.contains("ifb") && !links.contains("wan"), "{links}");
        };
        ip("link del wan");
        until("that it waits", || {
            evenkeel(dir, "status")
                .1
                .contains("wan: there is no such device for")
        });
        assert!(said(dir).contains("the device has gone: waiting for it"));
        clean();
        let (code, json, _) = evenkeel(dir, "status wan --json");
        assert!(code == 0 && json.contains("\"gone_since_s\": "), "{json}");

        let bare = ["link add wan type veth peer name peer", "link set wan up"];
        bare.into_iter().for_each(ip);
        until("that it shapes again", || {
            let (_, out, _) = evenkeel(dir, "status wan");
            out.contains("line 20.0 Mbit/s") && !out.contains("no such device")
        });
        assert!(said(dir).contains("the device is there again"));

        ip("link del wan");
        until("that it waits again", || {
            said(dir).matches("waiting for it").count() == 2
        });
        run.signal(Signal::SIGINT);
        assert_eq!(run.end().0, 0);
        clean();
        assert_eq!(left(dir), [""; 0]);
    });
}

#[test]
fn a_named_device_is_waited_for_until_it_is_up() {
    if !root("a_named_device_is_waited_for_until_it_is_up") {
        return;
    }
    in_namespace(|dir| {
        let mut manager = Manager::new(dir);
        let run = serve(dir, "run ppp0 --wait");
        until("that it waits", || manager.heard("STATUS=waiting for ppp0"));
        ip("link add ppp0 type veth peer name other");
        until("that it waits on", || {
            manager.heard("STATUS=waiting for ppp0 to be up")
        });
        run.signal(Signal::SIGTERM);
        assert_eq!(run.end().0, 0);
        assert_eq!(left(dir), [""; 0]);
    });
}
