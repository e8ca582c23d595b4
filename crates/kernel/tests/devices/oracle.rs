//! What the kernel reports, in iproute2's words, is what was planned, for every framing.

use evenkeel_core::framing::{Mode, PRESETS};
use evenkeel_core::plan::Backend;
use serde_json::Value;

use crate::world::{everywhere, request, run};

#[test]
fn tc_reports_what_was_planned() {
    everywhere("tc_reports_what_was_planned", |w| {
        for (name, framing) in PRESETS {
            let shaped = w.shape(&request("8mbit", "2mbit", name)).unwrap();
            for (dev, rate, ingress) in [
                ("wan".to_owned(), shaped.egress, false),
                (shaped.state.ifb.clone(), shaped.ingress, true),
            ] {
                let what = format!("{:?} {:?} {name} {dev}", w.backend, w.wan);
                if w.backend == Backend::Cake {
                    let all: Value = serde_json::from_str(&run(
                        "tc",
                        &format!("-j -s qdisc show dev {dev} root"),
                    ))
                    .unwrap();
                    let cake = &all[0];
                    assert_eq!(cake["kind"], "cake", "{what}");
                    let o = &cake["options"];
                    assert_eq!(o["bandwidth"], rate.bytes_per_sec(), "{what}");
                    assert_eq!(o["overhead"], i64::from(framing.overhead), "{what}");
                    assert_eq!(
                        o["mpu"].as_u64().unwrap_or(0),
                        u64::from(framing.mpu),
                        "{what}"
                    );
                    let atm = match framing.mode {
                        Mode::None => "noatm",
                        Mode::Atm => "atm",
                        Mode::Ptm => "ptm",
                    };
                    assert_eq!(o["atm"], atm, "{what}");
                    assert_eq!(o["diffserv"], "diffserv4", "{what}");
                    assert_eq!(
                        o["flowmode"],
                        if ingress {
                            "dual-dsthost"
                        } else {
                            "dual-srchost"
                        },
                        "{what}"
                    );
                    assert_eq!(o["nat"], true, "{what}");
                    assert_eq!(o["ingress"], ingress, "{what}");
                    assert_eq!(o["split_gso"], true, "{what}");
                    assert_eq!(o["ack-filter"], "disabled", "{what}");
                } else {
                    let (link, (n, d)) = evenkeel_core::plan::htb_link(framing, w.link_header());
                    let text = run(
                        "tc",
                        &format!(
                            "-d class show dev {dev} classid {}:1",
                            if ingress { "ec1" } else { "ec0" }
                        ),
                    );
                    let kbit = |bps: u64| format!("rate {}", tc_rate(bps));
                    assert!(text.contains(&kbit(rate.bps() * n / d)), "{what}: {text}");
                    if link.overhead > 0 {
                        assert!(
                            text.contains(&format!("overhead {}", link.overhead)),
                            "{what}: {text}"
                        );
                    }
                    let layer = if framing.mode == Mode::Atm {
                        "linklayer atm"
                    } else {
                        "linklayer ethernet"
                    };
                    assert!(text.contains(layer), "{what}: {text}");
                    assert!(
                        text.contains(&format!("mpu {}b", link.mpu)),
                        "{what}: {text}"
                    );
                }
            }
        }
        w.clear();
    });
}

/// A rate as tc prints it: whole bytes per second, three digits after the largest unit's step.
fn tc_rate(bps: u64) -> String {
    let bps = bps / 8 * 8;
    match bps {
        b if b % 1_000_000 == 0 => format!("{}Mbit", b / 1_000_000),
        b if b >= 1_000_000 => format!("{}Kbit", b / 1000),
        b => format!("{b}bit"),
    }
}
