//! A file made by hand from the format: a head, one uncompressed frame, one map.

use proptest::prelude::*;

use super::super::figures::figures;
use super::*;

/// 3 s of download with a megabyte in its first half second and five later, 3 s of upload; idle before
/// and between. The fourth ping waited for the upload; the third was lost, the fifth's answer, too.
const MAP: &[u8] = b"\x8d\
    \xa7version\x02\
    \xacgenerated_by\xacCrusader 0.3\
    \xa6config\x85\xa7stagger\x82\xa4secs\x00\xa5nanos\x00\xadload_duration\x82\xa4secs\x03\
    \xa5nanos\x00\xaegrace_duration\x82\xa4secs\x02\xa5nanos\x00\xadping_interval\x82\xa4sec\
    s\x00\xa5nanos\xce\x1d\xcde\x00\xb2bandwidth_interval\x82\xa4secs\x00\xa5nanos\xce\x1d\
    \xcde\x00\
    \xa4ipv6\xc2\
    \xb8load_termination_timeout\xc2\
    \xafserver_overload\xc3\
    \xaeserver_latency\x82\xa4secs\x00\xa5nanos\xce\x011-\x00\
    \xa5start\x82\xa4secs\x01\xa5nanos\x00\
    \xa8duration\x82\xa4secs\x0c\xa5nanos\x00\
    \xadstream_groups\x92\x83\xa8download\xc3\xa4both\xc2\xa7streams\x91\x81\xa4data\x92\x82\
    \xa4time\x82\xa4secs\x03\xa5nanos\xce\x1d\xcde\x00\xa5bytes\xce\x00\x0fB@\x82\xa4time\
    \x82\xa4secs\x06\xa5nanos\x00\xa5bytes\xce\x00[\x8d\x80\x83\xa8download\xc2\xa4both\xc2\
    \xa7streams\x91\x81\xa4data\x92\x82\xa4time\x82\xa4secs\x08\xa5nanos\x00\xa5bytes\x00\
    \x82\xa4time\x82\xa4secs\x0b\xa5nanos\x00\xa5bytes\xce\x00\x04\x93\xe0\
    \xa5pings\x95\x83\xa5index\x00\xa4sent\x82\xa4secs\x01\xa5nanos\xce\x1d\xcde\x00\xa7late\
    ncy\x82\xa5total\x82\xa4secs\x00\xa5nanos\xce\x011-\x00\xa2up\x82\xa4secs\x00\xa5nanos\
    \xce\x00z\x12\x00\x83\xa5index\x01\xa4sent\x82\xa4secs\x04\xa5nanos\x00\xa7latency\x82\
    \xa5total\x82\xa4secs\x00\xa5nanos\xce\x03\x93\x87\x00\xa2up\x82\xa4secs\x00\xa5nanos\
    \xce\x00z\x12\x00\x83\xa5index\x02\xa4sent\x82\xa4secs\x04\xa5nanos\xce\x1d\xcde\x00\xa7\
    latency\xc0\x83\xa5index\x03\xa4sent\x82\xa4secs\x09\xa5nanos\x00\xa7latency\x82\xa5tota\
    l\x82\xa4secs\x00\xa5nanos\xce\x05\xf5\xe1\x00\xa2up\x82\xa4secs\x00\xa5nanos\xce\x05>\
    \xc6\x00\x83\xa5index\x04\xa4sent\x82\xa4secs\x09\xa5nanos\xce\x1d\xcde\x00\xa7latency\
    \x82\xa5total\xc0\xa2up\x82\xa4secs\x00\xa5nanos\xce\x05]J\x80\
    \xaapeer_pings\xc0\
    \xa9test_data\x92\x83\xa5start\x82\xa4secs\x03\xa5nanos\x00\xa3end\x82\xa4secs\x06\xa5na\
    nos\x00\xa4kind\xa8Download\x83\xa5start\x82\xa4secs\x08\xa5nanos\x00\xa3end\x82\xa4secs\
    \x0b\xa5nanos\x00\xa4kind\xa6Upload";

/// Its CRC-32C, masked as Snappy's frames want it.
const SUM: [u8; 4] = 0xd146_32fe_u32.to_le_bytes();

fn file(version: u8) -> Vec<u8> {
    let mut all = b"\xcb\x59\x7c\xae\x82\xab\x72\x53".to_vec();
    all.extend([version, 0, 0, 0, 0, 0, 0, 0]);
    all.extend(b"\xff\x06\x00\x00sNaPpY");
    // Not compressed; sum and map are this long.
    all.push(0x01);
    all.extend(&(MAP.len() as u32 + 4).to_le_bytes()[..3]);
    all.extend(SUM);
    all.extend(MAP);
    all
}

#[test]
fn each_load_is_a_run() {
    let runs = read(&file(2)).unwrap();
    let names: Vec<_> = runs.iter().map(|b| b.test.as_str()).collect();
    assert_eq!(names, ["download", "upload"]);
    for b in &runs {
        let p = b.phases;
        assert_eq!((p.load, p.tail, p.end), (2.0, 5.0, 7.0));
        assert_eq!(b.program, "Crusader 0.3");
        assert_eq!(b.void(), "Crusader found its server overloaded");
        assert!((figures(b).idle_ms.unwrap().avg - 20.0).abs() < 1e-9);
    }
    let rates = |b: &Bench| {
        let (f, kbit) = (figures(b), |m: f64| (m * 1000.0).round());
        (f.down_mbit.map(kbit), f.up_mbit.map(kbit))
    };
    assert_eq!(rates(&runs[0]), (Some(16_000.0), None));
    assert_eq!(rates(&runs[1]), (None, Some(800.0)));
}

#[test]
fn pings_and_bytes_stand_where_they_were() {
    let runs = read(&file(2)).unwrap();
    let pings = |b: &Bench| -> Vec<_> {
        let all = &b.probes[0].probes;
        all.iter().map(|p| (p.t, p.rtt, p.up)).collect()
    };
    let idle = (0.5, Some(20.0), Some(8.0));
    assert_eq!(
        pings(&runs[0]),
        [idle, (3.0, Some(60.0), Some(8.0)), (3.5, None, None)]
    );
    assert_eq!(
        pings(&runs[1]),
        [idle, (3.0, Some(100.0), Some(88.0)), (3.5, None, None)]
    );
    let bytes = &runs[0].streams[0].bytes;
    assert_eq!(bytes[..20].iter().sum::<u64>(), 0);
    assert_eq!(bytes[20..25].iter().sum::<u64>(), 1_000_000);
    assert_eq!(bytes[25..35].iter().sum::<u64>(), 2_000_000);
    assert_eq!(bytes.iter().sum::<u64>(), 6_000_000);
}

#[test]
fn other_versions_and_damage_are_refused() {
    let refused = |bytes: &[u8]| read(bytes).unwrap_err();
    assert!(refused(&file(0)).contains("version 0"));
    assert!(refused(&file(3)).contains("version 3"));
    assert!(refused(b"{}").contains("does not begin"));
    let mut damaged = file(1);
    damaged[200] ^= 1;
    assert!(refused(&damaged).contains("Snappy"));
    let whole = file(1);
    assert!(refused(&whole[..26]).contains("MessagePack"));
}

proptest! {
    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
        if let Ok(file) = rmp_serde::from_slice::<File>(&bytes) {
            let _ = runs(&file);
        }
    }

    #[test]
    fn damaged_maps_do_no_harm(at in 0..MAP.len(), with in any::<u8>()) {
        let mut map = MAP.to_vec();
        map[at] = with;
        for b in rmp_serde::from_slice::<File>(&map).ok().and_then(|f| runs(&f).ok()).into_iter().flatten() {
            figures(&b);
        }
    }
}
