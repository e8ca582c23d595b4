//! Values that several parts of an experiment's file have. Non-goals: what they are for.

use evenkeel_core::pipe::Buffer;
use serde::Deserializer;

use crate::millis::millis;

/// `"30ms"` at the rate of the moment, `"60packets"`, or an integer of bytes on the wire.
pub(super) fn buffer<'de, D: Deserializer<'de>>(d: D) -> Result<Buffer, D::Error> {
    struct V;
    impl serde::de::Visitor<'_> for V {
        type Value = Buffer;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a buffer like \"30ms\", \"60packets\" or an integer of bytes")
        }
        fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<Buffer, E> {
            match u64::try_from(v) {
                Ok(bytes @ 1..) => Ok(Buffer::Bytes(bytes)),
                _ => Err(E::custom("a buffer holds at least one byte")),
            }
        }
        fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Buffer, E> {
            let packets = v.strip_suffix("packets").map(|n| n.trim().parse());
            if let Some(Ok(n @ 1..)) = packets {
                return Ok(Buffer::Packets(n));
            }
            let ms = v.strip_suffix("ms").and_then(|n| n.trim().parse().ok());
            match ms.filter(|ms| (0.001..=60_000.0).contains(ms)) {
                Some(ms) => Ok(Buffer::Time(millis(ms))),
                None => Err(E::custom(format!(
                    "{v:?} is not a buffer (write \"30ms\", \"60packets\" or an integer of bytes)"
                ))),
            }
        }
    }
    d.deserialize_any(V)
}

/// Whether a value is in its range.
pub(super) fn within(key: &str, v: f64, low: f64, high: f64) -> Result<(), String> {
    if (low..=high).contains(&v) {
        return Ok(());
    }
    Err(format!("{key} is {v}, it must be {low} to {high}"))
}
