//! What an answer waits in our own ingress queue is told from its path: an IFB that holds every
//! packet back, between a prober and an echo one cable apart. Judged in virtual time.

mod common;

use std::net::SocketAddr;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use evenkeel_core::plan::Ingress;
use evenkeel_kernel::{Request, StateDir, maps, shape};
use evenkeel_measure::echo::Echo;
use evenkeel_measure::probe::{ProbeConfig, Prober};
use evenkeel_sys::{Netns, netns::set_sysctl};

fn run(line: &str) {
    let mut words = line.split(' ');
    let program = words.next().unwrap();
    let out = Command::new(program).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{line}: {said}");
}

/// Ours with the prober, shaped; theirs with the echo; a cable between them.
fn prepare(near: &Netns, far: &Netns, records: std::path::PathBuf) {
    let (tell, told) = channel();
    let (end, ended) = channel::<()>();
    // `ip` knows a namespace by a task in it.
    let task = far.spawn("far", move || {
        tell.send(nix::unistd::gettid()).unwrap();
        let _ = ended.recv();
    });
    let task = task.unwrap();
    let far_id = told.recv().unwrap();
    near.run(move || {
        set_sysctl("net.ipv4.ping_group_range", "0 2147483647").unwrap();
        run("ip link add wan type veth peer name peer");
        run(&format!("ip link set peer netns {far_id}"));
        run("ip addr add 10.9.0.1/24 dev wan");
        run("ip link set wan up");
    })
    .unwrap();
    far.run(|| {
        run("ip addr add 10.9.0.2/24 dev peer");
        run("ip link set peer up");
    })
    .unwrap();
    near.run(move || {
        let rate = "50mbit".parse().unwrap();
        let request = Request {
            ingress: Ingress::Ifb,
            ..common::request("wan", rate, rate)
        };
        let shaped = shape(&StateDir::new(records), &request).unwrap();
        // A probe of 98 bytes takes 7.8 ms and one comes every 5 ms: ever more wait.
        run(&format!(
            "tc qdisc replace dev {} root tbf rate 100kbit burst 1600 limit 100000",
            shaped.state.ifb
        ));
    })
    .unwrap();
    drop(end);
    task.join().unwrap().unwrap();
}

#[test]
fn our_own_ingress_queue_is_told_from_the_path() {
    if !common::in_virtual_time("our_own_ingress_queue_is_told_from_the_path") {
        return;
    }
    let records = tempfile::tempdir().unwrap();
    let (near, far) = (Netns::new("near").unwrap(), Netns::new("far").unwrap());
    prepare(&near, &far, records.path().to_owned());
    let target: SocketAddr = "10.9.0.2:44811".parse().unwrap();
    let _echo = far.run(move || Echo::start(target)).unwrap().unwrap();
    let prober = near.run(move || {
        let programs = maps("wan").unwrap().expect("this kernel takes eBPF");
        let config = ProbeConfig {
            target,
            interval: Duration::from_millis(10),
            icmp: true,
        };
        Prober::start_with(config, Some(Box::new(programs)))
    });
    let prober = prober.unwrap().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let outcome = prober.finish().unwrap();
    for (kind, samples) in [("UDP", &outcome.udp), ("ICMP", &outcome.icmp)] {
        let answered = samples.probes.iter().filter_map(|p| p.rtt.zip(p.held));
        let answered: Vec<_> = answered.collect();
        assert!(answered.len() > 50, "{kind}: {}", answered.len());
        let late = &answered[answered.len() - 20..];
        let mut path: Vec<_> = late.iter().map(|(rtt, held)| rtt.abs_diff(*held)).collect();
        path.sort();
        let (rtt, held) = late[0];
        println!("{kind}: {rtt:?}, of which {held:?} in our queue; path {path:?}");
        assert!(
            late.iter().all(|p| p.1 > Duration::from_millis(100)),
            "{kind}: {late:?}"
        );
        assert!(path[19] < Duration::from_millis(1), "{kind}: {path:?}");
    }
}
