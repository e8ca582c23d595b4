//! Segment sizes in SYNs as the programs in this kernel bound them (`BPF_PROG_TEST_RUN`): what
//! comes out is compared byte by byte with what went in, and its checksum is computed anew.
//!
//! Principles: options are literal bytes. They need root and a kernel with eBPF.

use evenkeel_core::Framing;
use evenkeel_core::units::PerDirection;
use evenkeel_datapath::Programs;
use evenkeel_datapath::values::{DirectionConfig, PriorityMode};

mod tcp;
use tcp::{ACK, FIN, Form, RST, SYN, Segment};

/// Longest packets from us and towards us.
const LONGEST: PerDirection<u16> = PerDirection {
    up: 920,
    down: 1304,
};

struct Bench(Programs);

impl Bench {
    fn new(link: u16, longest: PerDirection<Option<u16>>) -> Self {
        let mut programs = Programs::load(link).unwrap_or_else(|e| panic!("{e}"));
        let told = |max_packet| DirectionConfig {
            mode: PriorityMode::None,
            major: 0,
            max_packet,
            framing: Framing::default(),
        };
        let mut maps = programs.maps().unwrap();
        maps.set_directions(longest.map(told)).unwrap();
        Bench(programs)
    }

    /// What a packet became, which has nothing but the bytes `changed` of its TCP header changed.
    fn run(&self, form: Form, ours: bool, segment: &Segment, changed: &[usize]) -> Vec<u8> {
        let before = form.packet(ours, segment);
        let program = if ours { "ek_egress" } else { "ek_ingress" };
        let (_, after) = self.0.test_packet(program, &before).unwrap();
        assert_eq!(form.sum(&after), 0xffff, "checksum of {segment:?}");
        for (at, (b, a)) in before.iter().zip(&after).enumerate() {
            let here = at.checked_sub(form.tcp());
            assert!(
                b == a || here.is_some_and(|at| changed.contains(&at)),
                "byte {at}: {b} became {a}: {segment:?}"
            );
        }
        after
    }
}

fn syn(flags: u8, options: &[u8]) -> Segment {
    Segment {
        flags,
        seq: 7,
        ack: 9,
        window: 1234,
        options: options.to_vec(),
        payload: 0,
    }
}

/// Options with a segment size at the offset that is returned, which is odd or even.
fn sized(mss: u16) -> [(Vec<u8>, usize); 3] {
    let [high, low] = mss.to_be_bytes();
    [
        (vec![2, 4, high, low], 22),
        (vec![1, 2, 4, high, low, 1, 3, 3, 7, 1, 1, 0], 23),
        (
            vec![
                4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 9, 2, 4, high, low,
            ],
            38,
        ),
    ]
}

#[test]
fn what_a_syn_announces_bounds_the_other_direction() {
    for form in Form::all() {
        let bench = Bench::new(form.link, LONGEST.map(Some));
        let headers = if form.six { 60 } else { 40 };
        for (ours, longest) in [(true, LONGEST.down), (false, LONGEST.up)] {
            for mss in [
                1,
                536,
                longest - headers,
                longest - headers + 1,
                1460,
                9000,
                u16::MAX,
            ] {
                for flags in [SYN, SYN | ACK] {
                    for (options, at) in sized(mss) {
                        let segment = syn(flags, &options);
                        let after = bench.run(form, ours, &segment, &[16, 17, at, at + 1]);
                        let at = form.tcp() + at;
                        let is = u16::from_be_bytes([after[at], after[at + 1]]);
                        assert_eq!(is, mss.min(longest - headers), "{form:?} {segment:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_announces_nothing_is_left_alone() {
    let broken: [&[u8]; 8] = [
        &[],
        &[3, 3, 7, 0],
        // Wrong lengths, one of them beyond the header.
        &[2, 3, 5, 180],
        &[2, 0, 5, 180],
        &[1, 1, 2, 4],
        &[1, 2, 4, 5],
        // Behind the end of the list, and within another option.
        &[0, 2, 4, 5, 180, 0, 0, 0],
        &[254, 8, 2, 4, 5, 180, 0, 0],
    ];
    for form in Form::all() {
        let bench = Bench::new(form.link, LONGEST.map(Some));
        for ours in [true, false] {
            for options in broken {
                let mut segment = syn(SYN, options);
                bench.run(form, ours, &segment, &[]);
                // What lies behind the header is data.
                segment.payload = 600;
                bench.run(form, ours, &segment, &[]);
            }
            for (options, _) in sized(1460) {
                for flags in [ACK, FIN | ACK, RST] {
                    bench.run(form, ours, &syn(flags, &options), &[]);
                }
            }
        }
    }
}

#[test]
fn each_direction_is_bounded_by_itself() {
    for form in Form::all() {
        for (up, down, changes) in [
            (None, None, [false, false]),
            (Some(920), None, [false, true]),
            (None, Some(920), [true, false]),
            // No packet is as short as its headers.
            (Some(40), Some(40), [false, false]),
        ] {
            let longest = PerDirection { up, down };
            let bench = Bench::new(form.link, longest);
            for (ours, changes) in [true, false].into_iter().zip(changes) {
                let segment = syn(SYN, &[2, 4, 5, 180]);
                let after = bench.run(form, ours, &segment, &[16, 17, 22, 23]);
                let changed = after[form.tcp() + 22..form.tcp() + 24] != [5, 180];
                assert_eq!(changed, changes, "{form:?} {longest:?} {ours}");
            }
        }
    }
}
