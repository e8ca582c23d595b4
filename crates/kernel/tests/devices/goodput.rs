//! What the programs take of a fast path's goodput: TCP over a veth with all offloads, with and
//! without them in turns of a fifth of a second, so that a busy machine slows both down alike.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel_core::plan::{Backend, Feature, PROGRAM_PREF, PROGRAMS};
use evenkeel_core::tc::{
    Bpf, Filter, FilterKey, FilterKind, Handle, Op, Protocol, Qdisc, QdiscSpec,
};
use evenkeel_datapath::Programs;
use evenkeel_kernel::Session;

use crate::world::{Wan, everywhere};

const HOOKS: [Handle; 2] = [Handle::CLSACT_EGRESS, Handle::CLSACT_INGRESS];
const TURN: Duration = Duration::from_millis(200);
const TURNS: usize = 20;
/// So often at most.
const TRIES: usize = 3;

fn attach(session: &mut Session, programs: &Programs) {
    for (parent, name) in HOOKS.into_iter().zip(PROGRAMS) {
        let bpf = Bpf {
            fd: programs.fd(name).unwrap(),
            id: None,
            name: name.to_owned(),
            classid: None,
            direct_action: true,
        };
        let filter = Filter {
            parent,
            pref: PROGRAM_PREF,
            protocol: Protocol::All,
            handle: 1,
            kind: FilterKind::Bpf(bpf),
        };
        let dev = "wan".into();
        session.apply(&Op::FilterAdd { dev, filter }).unwrap();
    }
}

fn detach(session: &mut Session) {
    for parent in HOOKS {
        let key = FilterKey {
            parent,
            pref: PROGRAM_PREF,
            protocol: Some(Protocol::All),
            handle: 0,
        };
        let (dev, kind) = ("wan".into(), None);
        session.apply(&Op::FilterDel { dev, key, kind }).unwrap();
    }
}

/// Reads all that comes and counts it.
fn count(mut from: TcpStream, total: &AtomicU64) {
    let mut buffer = vec![0; 1 << 18];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        total.fetch_add(n as u64, Ordering::Relaxed);
    }
}

fn pour(mut to: TcpStream) {
    let data = vec![0; 1 << 18];
    while to.write_all(&data).is_ok() {}
}

/// Gbit/s without the programs and with them, medians of turns.
fn measure(
    way: &str,
    listener: &TcpListener,
    session: &mut Session,
    programs: &Programs,
) -> [f64; 2] {
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (there, _) = listener.accept().unwrap();
    let end = near.try_clone().unwrap();
    let (from, into) = if way == "upload" {
        (near, there)
    } else {
        (there, near)
    };
    let total = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&total);
    let reader = std::thread::spawn(move || count(into, &counted));
    let writer = std::thread::spawn(move || pour(from));
    let mut rates = [Vec::new(), Vec::new()];
    for turn in 0..2 * TURNS {
        let with = turn % 2;
        if with == 1 {
            attach(session, programs);
        }
        let (before, since) = (total.load(Ordering::Relaxed), Instant::now());
        std::thread::sleep(TURN);
        let moved = total.load(Ordering::Relaxed) - before;
        rates[with].push(moved as f64 * 8.0 / since.elapsed().as_secs_f64() / 1e9);
        if with == 1 {
            detach(session);
        }
    }
    end.shutdown(std::net::Shutdown::Both).unwrap();
    writer.join().unwrap();
    reader.join().unwrap();
    rates.map(|mut all| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    })
}

#[test]
fn the_programs_leave_the_goodput_as_it_is() {
    everywhere("the_programs_leave_the_goodput_as_it_is", |w| {
        // What is attached does not depend on the disciplines, which are not there.
        if w.wan != Wan::Veth || w.backend != Backend::HtbBuckets || !w.caps.has(Feature::Bpf) {
            return;
        }
        let far = w.far();
        let mut session = Session::open().unwrap();
        let programs = Programs::load(14).unwrap();
        let clsact = QdiscSpec {
            dev: "wan".into(),
            parent: Handle::INGRESS,
            handle: Handle::INGRESS_QDISC,
            qdisc: Qdisc::Clsact,
            stab: None,
        };
        session.apply(&Op::QdiscAdd(clsact)).unwrap();
        let listener = far.ns.run(|| TcpListener::bind("10.9.0.2:0").unwrap());
        let listener = listener.unwrap();
        for way in ["upload", "download"] {
            // The aim is 97 %; others may use the machine in one kind of turn more than in the other, but seldom thrice.
            let mut measured = (0..TRIES).map(|_| {
                let rates = measure(way, &listener, &mut session, &programs);
                let [without, with] = rates;
                println!(
                    "| {way} | {without:.2} | {with:.2} | {:.1} |",
                    100.0 * with / without
                );
                rates
            });
            assert!(
                measured.any(|[without, with]| with >= 0.85 * without),
                "{way}: less than 85 % each time"
            );
        }
    });
}
