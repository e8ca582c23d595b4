//! The bytes that a backend charges for a packet are those the line takes.
//!
//! CAKE reports the largest adjusted length it has seen, so sizes go up. HTB reports tokens: after
//! one packet on a full bucket they are short by exactly that packet, in ticks of 64 ns.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use evenkeel_core::Framing;
use evenkeel_core::framing::{Mode, PRESETS};
use evenkeel_core::plan::{Backend, Capabilities, EGRESS, Feature};
use evenkeel_core::tc::Handle;
use evenkeel_kernel::Session;
use evenkeel_wire::tc::stats::AppStats;
use evenkeel_wire::tc::{ClassBody, QdiscInfo};

use crate::world::{Wan, World, everywhere, request, sender};

/// IP lengths around the edges of cells, of 64 bytes and of the minimum frame.
const LENGTHS: [u32; 22] = [
    28, 29, 40, 46, 47, 52, 56, 57, 64, 72, 73, 100, 120, 121, 256, 576, 577, 1000, 1440, 1492,
    1499, 1500,
];

/// Programs have no part in what a discipline charges, and their verifier takes a second: with them one framing is
/// changed to the next in place, and without them each is set up anew, on both kinds of devices.
#[test]
fn every_framing_is_charged_as_the_line_does() {
    everywhere("every_framing_is_charged_as_the_line_does", |w| {
        if w.caps.has(Feature::Bpf) {
            for (n, preset) in PRESETS.into_iter().enumerate() {
                let in_place = n > 0;
                is_charged(w, &w.caps, preset, in_place);
            }
            w.clear();
        }
        if !w.caps.has(Feature::Bpf) || w.wan == Wan::Tun {
            let mut caps = w.caps.clone();
            caps.0.remove(&Feature::Bpf);
            for preset in PRESETS {
                is_charged(w, &caps, preset, false);
                w.clear();
            }
        }
    });
}

/// Shapes to one framing and sends a packet of each length.
fn is_charged(w: &World, caps: &Capabilities, (name, framing): (&str, Framing), in_place: bool) {
    let request = request("50mbit", "8mbit", &framing.to_string());
    let shaped = evenkeel_kernel::shape_with(caps, &w.dir, &request).unwrap();
    assert_eq!(
        (shaped.state.backend, shaped.in_place),
        (w.backend, in_place)
    );
    let socket = sender();
    for ip in LENGTHS {
        let wire = f64::from(framing.wire_len(ip));
        let payload = vec![0; ip as usize - 28];
        let charged = match w.backend {
            Backend::Cake => {
                socket.send(&payload).unwrap();
                f64::from(largest("wan"))
            }
            _ => htb(w, framing, || {
                socket.send(&payload).unwrap();
            }),
        };
        let too_many = match (w.backend, framing.mode) {
            (Backend::Cake, _) => 0.0,
            // See core::plan's own test of what HTB can be told.
            (_, Mode::Ptm) => 2.1,
            _ if framing.overhead < w.link_header() as i16 => 53.1,
            _ => 0.1,
        };
        assert!(
            charged >= wire - 0.1 && charged <= wire + too_many,
            "{:?} {:?} {name}, in place {in_place}: IP {ip} is {wire} on the line, charged {charged:.2}",
            w.backend,
            w.wan
        );
    }
}

/// Heavy datagrams, which know no windows, count for more where CAKE shapes them; whoever they are
/// for gets them as they came, on every backend.
#[test]
fn heavy_datagrams_count_more_and_come_as_they_were() {
    everywhere("heavy_datagrams_count_more_and_come_as_they_were", |w| {
        if w.wan != Wan::Veth {
            return;
        }
        let request = request("100mbit", "10mbit", "ptm:30");
        let shaped = w.shape(&request).unwrap();
        let here = UdpSocket::bind("10.9.0.1:44444").unwrap();
        here.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let far = w.far();
        let there = far.ns.run(|| UdpSocket::bind("10.9.0.2:443").unwrap());
        let (there, sent) = (there.unwrap(), vec![7; 1372]);
        let mut came = vec![0; 2048];
        for n in 0..100 {
            there.send_to(&sent, "10.9.0.1:44444").unwrap();
            let len = here.recv(&mut came).unwrap_or_else(|e| panic!("{n}: {e}"));
            assert!(came[..len] == sent, "{n}: {len} bytes");
            // A quarter of the line.
            std::thread::sleep(Duration::from_micros(500));
        }
        if w.backend == Backend::Cake {
            let wire = request.framing.unwrap().wire_len(1400);
            let charged = largest(&shaped.state.ifb);
            let heavy = w.caps.has(Feature::Bpf);
            let expected = if heavy { wire + wire / 25 } else { wire };
            let most = if heavy { wire + wire / 10 } else { wire };
            assert!((expected..=most).contains(&charged), "{charged} of {wire}");
        }
        w.clear();
    });
}

fn root(device: &str) -> QdiscInfo {
    let mut session = Session::open().unwrap();
    let index = session.link(device).unwrap().unwrap().index;
    let all = session.qdiscs(index).unwrap();
    all.into_iter().find(|q| q.parent == Handle::ROOT).unwrap()
}

/// Largest length that CAKE has charged.
fn largest(device: &str) -> u32 {
    match root(device).stats.app {
        AppStats::Cake(cake) => cake.max_adjlen,
        other => panic!("{other:?}"),
    }
}

/// Line bytes that HTB charges its root class for the one packet that `send` sends.
fn htb(w: &World, framing: Framing, send: impl Fn()) -> f64 {
    let mut session = Session::open().unwrap();
    let index = session.link("wan").unwrap().unwrap().index;
    let mut class = || {
        let all = session.classes(index).unwrap();
        all.into_iter()
            .find(|c| c.classid == Handle::class(EGRESS, 1))
            .unwrap()
    };
    let ClassBody::Htb(htb) = class().body else {
        panic!("not HTB")
    };
    // Longer than the emptiest bucket takes to fill.
    let full = htb.rate.time_for(3 * u64::from(htb.burst)).unwrap() + Duration::from_millis(1);
    let since = Instant::now();
    while since.elapsed() < full {
        std::thread::sleep(full);
    }
    let sent = class().stats.packets;
    send();
    let since = Instant::now();
    let after = loop {
        let now = class();
        if now.stats.packets > sent {
            break now;
        }
        assert!(
            since.elapsed() < Duration::from_secs(5),
            "the packet never left"
        );
        std::thread::sleep(Duration::from_millis(1));
    };
    let AppStats::Htb(stats) = after.stats.app else {
        panic!("no HTB statistics")
    };
    // The bucket's depth in ticks, as HTB was given it.
    let ticks_per_byte = 8e9 / htb.rate.bps() as f64 / 64.0;
    let depth = (f64::from(htb.burst) * ticks_per_byte).round();
    let charged = (depth - f64::from(stats.tokens)) / ticks_per_byte;
    let (_, (n, d)) = evenkeel_core::plan::htb_link(framing, w.link_header());
    charged * d as f64 / n as f64
}
