//! What somebody might say at the control socket.
#![no_main]

use evenkeel_socket::{Right, Rights, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = parse(bytes) {
        let rights = Rights {
            token: Some("secret".into()),
            ..Rights::default()
        };
        for right in [Right::All, Right::Pages, Right::Status] {
            let _ = rights.refuse(right, &request);
        }
    }
});
