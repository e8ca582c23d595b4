//! Arrivals that are policed: set up, changed in place, seen in status, taken back.

use std::net::UdpSocket;

use evenkeel_core::exit::{Exit, Exits as _};
use evenkeel_core::plan::{Feature, Ingress};
use evenkeel_kernel::{Health, Request, Status, status};

use crate::world::{Wan, World, everywhere, request};

fn policed(down: &str) -> Request {
    Request {
        ingress: Ingress::Police { mark: 0 },
        ..request(down, "10mbit", "ptm:30")
    }
}

fn now(w: &World) -> Status {
    let all = status(&w.dir, Some("wan")).unwrap();
    let status = all.into_iter().next().unwrap();
    assert_eq!(status.health, Health::Working);
    status
}

fn has_ifb(w: &World) -> bool {
    w.seen().iter().any(|line| line.starts_with("link ek-ifb"))
}

#[test]
fn arrivals_are_policed_and_all_is_taken_back() {
    everywhere("arrivals_are_policed_and_all_is_taken_back", |w| {
        if !w.caps.has(Feature::Bpf) {
            let e = w.shape(&policed("50mbit")).unwrap_err();
            assert!(e.to_string().contains("eBPF"), "{e}");
            return;
        }
        let before = w.seen();
        let first = w.shape(&policed("50mbit")).unwrap();
        assert!(!first.in_place && !has_ifb(w));
        // At the line's own rate: the steps are at 98, 99 and 100 % of it.
        let down = now(w).down;
        assert_eq!((down.shaped, &*down.device), (Some(down.line), "wan"));
        assert_eq!(now(w).policed.map(|p| p.dropped_large), Some(0));

        // Another rate is a change in place, another way is not.
        let again = w.shape(&policed("1mbit")).unwrap();
        assert!(again.in_place);
        assert_eq!(now(w).down.shaped, Some("1mbit".parse().unwrap()));
        let shaped = w.shape(&request("1mbit", "10mbit", "ptm:30")).unwrap();
        assert!(!shaped.in_place && has_ifb(w));
        assert_eq!(now(w).policed, None);
        assert!(!w.shape(&policed("1mbit")).unwrap().in_place);
        assert!(!has_ifb(w));

        if w.wan == Wan::Veth {
            let far = w.far();
            far.ns
                .run(|| {
                    let socket = UdpSocket::bind("10.9.0.2:0").unwrap();
                    socket.connect("10.9.0.1:44444").unwrap();
                    // Refused by its receiver after the first: nobody listens, nobody minds.
                    for _ in 0..200 {
                        let _ = socket.send(&[0; 1400]);
                    }
                })
                .unwrap();
            let status = now(w);
            let policed = status.policed.unwrap();
            assert!(policed.dropped_large > 0, "{policed:?}");
            assert_eq!((policed.dropped_small, policed.dropped_acks), (0, 0));
            assert_eq!(status.down.dropped, policed.dropped_large);
            w.clear();
            return;
        }
        w.clear();
        assert_eq!(w.seen(), before);
    });
}

/// Where the kernel has no IFB, arrivals are policed rather than not at all.
#[test]
fn without_ifb_arrivals_are_policed() {
    everywhere("without_ifb_arrivals_are_policed", |w| {
        if !w.caps.has(Feature::Bpf) {
            return;
        }
        let mut caps = w.caps.clone();
        caps.0.remove(&Feature::Ifb);
        let auto = request("50mbit", "10mbit", "ptm:30");
        let shaped = evenkeel_kernel::shape_with(&caps, &w.dir, &auto).unwrap();
        assert!(shaped.state.policer.is_some() && !has_ifb(w));
        assert!(now(w).policed.is_some());
        let ifb = Request {
            ingress: Ingress::Ifb,
            ..auto
        };
        let e = evenkeel_kernel::shape_with(&caps, &w.dir, &ifb).unwrap_err();
        assert_eq!(e.exit(), Exit::Lacking, "{e}");
        w.clear();
    });
}
