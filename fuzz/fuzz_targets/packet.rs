//! What a raw socket might hand us.
#![no_main]

use evenkeel_wire::packet::{Echo, Ip, Quoted, Tcp, Udp};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = evenkeel_wire::dns::answer(bytes);
    let transports = Ip::parse(bytes).map(|ip| (ip.header(), ip.payload()));
    for payload in [Some(bytes), transports.ok().map(|t| t.1)]
        .into_iter()
        .flatten()
    {
        if let Ok(tcp) = Tcp::parse(payload) {
            tcp.options().for_each(drop);
            let _ = (
                tcp.timestamps(),
                tcp.window_scale(),
                tcp.mss(),
                tcp.is_empty_ack(),
            );
        }
        if let (Ok(udp), Ok((ip, _))) = (Udp::parse(payload), transports) {
            udp.checksum_ok(&ip);
        }
        let _ = (
            Echo::parse(payload),
            Quoted::parse_v4(payload),
            Quoted::parse_v6(payload),
        );
    }
});
