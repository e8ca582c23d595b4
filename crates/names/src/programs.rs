//! Programs of this host: their control groups and their sockets.
//!
//! Principles: a program is found by the name of its file, of its process, or of the unit, container or flatpak that it
//! runs in; what it has started belongs to it; a control group in which nothing else runs stands for all of its sockets,
//! also those to come, and for the others their sockets do. Non-goals: programs that nobody named, other hosts'.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use evenkeel_datapath::values::NameKey;
use evenkeel_kernel::{Keys, control_groups};

/// A process.
#[derive(Debug, Clone, Default)]
struct Process {
    parent: u32,
    /// Of its process, its file and its first argument, in lower case.
    names: [String; 3],
    /// Path of its control group.
    group: String,
}

/// What the names of programs stand for.
pub(crate) fn find(names: &BTreeSet<String>) -> Keys {
    let processes = processes();
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for (id, process) in &processes {
        children.entry(process.parent).or_default().push(*id);
    }
    let mut keys = Keys::new();
    for name in names {
        let mut all: HashSet<u32> = HashSet::new();
        let lower = name.to_lowercase();
        let mut open: Vec<u32> = processes
            .iter()
            .filter(|(_, p)| p.names.contains(&lower) || is_in_group(&p.group, &lower))
            .map(|(id, _)| *id)
            .collect();
        while let Some(id) = open.pop() {
            if all.insert(id) {
                open.extend(children.get(&id).into_iter().flatten());
            }
        }
        let mut found = groups(&all, &processes);
        found.extend(sockets(&all));
        keys.insert(name.clone(), found);
    }
    keys
}

/// Whether a control group is of a unit, a container or a flatpak of that name. systemd writes - as `\x2d` there.
fn is_in_group(path: &str, name: &str) -> bool {
    path.to_lowercase()
        .replace("\\x2d", "-")
        .split('/')
        .any(|part| {
            let Some((bare, kind)) = part.rsplit_once('.') else {
                return part == name;
            };
            if part == name || bare == name && ["service", "scope", "slice"].contains(&kind) {
                return true;
            }
            // `machine-NAME.scope`, `app-gnome-NAME-1234.scope`, `app-flatpak-NAME-1234.scope`, `docker-ID.scope`.
            let of = |prefix: &str| {
                bare.strip_prefix(prefix)
                    .and_then(|rest| rest.strip_prefix(name))
            };
            let ends =
                |rest: &str| rest.is_empty() || rest.starts_with('-') || rest.starts_with('@');
            let apps = ["machine-", "app-", "app-gnome-", "app-flatpak-"];
            apps.into_iter().any(|p| of(p).is_some_and(ends)) || is_container(bare, name)
        })
}

/// Whether `docker-ID` or `libpod-ID` is the container whose number begins so, or whose name it is.
fn is_container(bare: &str, name: &str) -> bool {
    let engines = ["docker-", "libpod-", "crio-", "cri-containerd-"];
    let Some(id) = engines.into_iter().find_map(|e| bare.strip_prefix(e)) else {
        return false;
    };
    if name.len() >= 12 && id.starts_with(name) {
        return true;
    }
    let settings = format!("/var/lib/docker/containers/{id}/config.v2.json");
    let text = fs::read_to_string(settings)
        .unwrap_or_default()
        .to_lowercase();
    text.contains(&format!("\"name\":\"/{name}\""))
}

/// All that this process may see.
fn processes() -> BTreeMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|e| e.file_name().to_str()?.parse().ok());
    let mut all = BTreeMap::new();
    all.extend(ids.filter_map(|id| Some((id, process(id)?))));
    all
}

fn process(id: u32) -> Option<Process> {
    let file = |name: &str| format!("/proc/{id}/{name}");
    let stat = fs::read_to_string(file("stat")).ok()?;
    // `PID (COMM) STATE PPID ...`; COMM may have spaces and parentheses.
    let (head, rest) = stat.rsplit_once(") ")?;
    let base = |path: &Path| path.file_name().map(|n| n.to_string_lossy().to_lowercase());
    let command = fs::read(file("cmdline")).unwrap_or_default();
    let first = command.split(|b| *b == 0).next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    let executable = fs::read_link(file("exe")).ok();
    let groups = fs::read_to_string(file("cgroup")).unwrap_or_default();
    Some(Process {
        parent: rest.split(' ').nth(1)?.parse().ok()?,
        names: [
            head.split_once(" (")?.1.to_lowercase(),
            executable.and_then(|e| base(&e)).unwrap_or_default(),
            base(Path::new(&*first)).unwrap_or_default(),
        ],
        group: groups
            .lines()
            .find_map(|l| l.strip_prefix("0::"))
            .unwrap_or_default()
            .to_owned(),
    })
}

/// Control groups in which nothing but `all` runs.
fn groups(all: &HashSet<u32>, processes: &BTreeMap<u32, Process>) -> BTreeSet<NameKey> {
    let Some(root) = control_groups() else {
        return BTreeSet::new();
    };
    let mut own: BTreeMap<&str, bool> = BTreeMap::new();
    for (id, process) in processes {
        // The root's are the kernel's and everybody's.
        if process.group.len() > 1 {
            *own.entry(&process.group).or_insert(true) &= all.contains(id);
        }
    }
    let only = own.into_iter().filter(|(_, is_own)| *is_own);
    let numbers = only.filter_map(|(path, _)| {
        let place = root.join(path.trim_start_matches('/'));
        fs::metadata(place).ok().map(|m| NameKey::Cgroup(m.ino()))
    });
    let mut keys = BTreeSet::new();
    keys.extend(numbers);
    keys
}

/// Their sockets.
fn sockets(all: &HashSet<u32>) -> BTreeSet<NameKey> {
    let here = fs::read_link("/proc/thread-self/ns/net").ok();
    // Of each network namespace one process, whose lists are read.
    let mut places: HashMap<_, (u32, HashSet<u64>)> = HashMap::new();
    for id in all {
        let Ok(namespace) = fs::read_link(format!("/proc/{id}/ns/net")) else {
            continue;
        };
        let numbers = &mut places
            .entry(namespace)
            .or_insert_with(|| (*id, HashSet::new()))
            .1;
        for entry in fs::read_dir(format!("/proc/{id}/fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let target = fs::read_link(entry.path()).unwrap_or_default();
            let target = target.to_string_lossy();
            let number = target
                .strip_prefix("socket:[")
                .and_then(|t| t.strip_suffix(']'));
            numbers.extend(number.and_then(|n| n.parse::<u64>().ok()));
        }
    }
    let mut keys = BTreeSet::new();
    for (namespace, (id, numbers)) in places {
        let is_here = Some(&namespace) == here.as_ref();
        for (list, proto) in [("tcp", 6), ("tcp6", 6), ("udp", 17), ("udp6", 17)] {
            let text = fs::read_to_string(format!("/proc/{id}/net/{list}")).unwrap_or_default();
            keys.extend(listed(&text, proto, &numbers, is_here));
        }
    }
    keys
}

/// Those of a list whose numbers are among `numbers`; such without a far side only of this namespace.
fn listed(
    text: &str,
    proto: u8,
    numbers: &HashSet<u64>,
    is_here: bool,
) -> impl Iterator<Item = NameKey> {
    text.lines().filter_map(move |line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = words.get(9)?.parse().ok()?;
        if !numbers.contains(&number) {
            return None;
        }
        let (_, local_port) = end(words.get(1)?)?;
        let (remote, remote_port) = end(words.get(2)?)?;
        if remote_port == 0 {
            return is_here.then_some(NameKey::Port {
                proto,
                port: local_port,
            });
        }
        Some(NameKey::Tuple {
            proto,
            local_port,
            remote,
            remote_port,
        })
    })
}

/// `0100007F:1F90`: words of the address in the host's order, the port as a number.
fn end(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    if !address.is_ascii() {
        return None;
    }
    let word = |n: usize| u32::from_str_radix(address.get(8 * n..8 * n + 8)?, 16).ok();
    let address = match address.len() {
        8 => Ipv4Addr::from(word(0)?.to_ne_bytes()).into(),
        32 => {
            let mut octets = [0; 16];
            for n in 0..4 {
                octets[4 * n..4 * n + 4].copy_from_slice(&word(n)?.to_ne_bytes());
            }
            let v6 = Ipv6Addr::from(octets);
            v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
        }
        _ => return None,
    };
    Some((address, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::UdpSocket;

    #[test]
    fn units_flatpaks_and_containers() {
        let id = "0123456789abcdef0123";
        for (path, name, is) in [
            ("/system.slice/ssh.service", "ssh", true),
            ("/system.slice/ssh.service", "ssh.service", true),
            ("/system.slice/ssh.service", "system", true),
            ("/system.slice/openssh.service", "ssh", false),
            (
                "/user.slice/app.slice/app-flatpak-us.zoom.Zoom-1234.scope",
                "us.zoom.zoom",
                true,
            ),
            (
                "/user.slice/app-gnome-org.gnome.Maps-99.scope",
                "org.gnome.maps",
                true,
            ),
            ("/user.slice/app-gnome-zoom2-99.scope", "zoom", false),
            ("/machine.slice/machine-web\\x2done.scope", "web-one", true),
            (&format!("/system.slice/docker-{id}.scope"), &id[..12], true),
            (&format!("/system.slice/docker-{id}.scope"), &id[..5], false),
            ("/", "zoom", false),
        ] {
            assert_eq!(is_in_group(path, name), is, "{path} {name}");
        }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn lines_of_the_kernel() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                    0: 0100007F:1F90 096433C6:01BB 01 00000000:00000000 00:00000000 00000000  1000        0 777 1\n   \
                    1: 00000000:2261 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 778 2\n";
        let numbers = HashSet::from([777, 778]);
        let remote = "198.51.100.9".parse().unwrap();
        let tuple = NameKey::Tuple {
            proto: 6,
            local_port: 8080,
            remote,
            remote_port: 443,
        };
        let port = NameKey::Port {
            proto: 6,
            port: 8801,
        };
        assert_eq!(
            listed(text, 6, &numbers, true).collect::<Vec<_>>(),
            [tuple, port]
        );
        assert_eq!(
            listed(text, 6, &numbers, false).collect::<Vec<_>>(),
            [tuple]
        );
        let mapped = "0000000000000000FFFF0000096433C6:0035";
        assert_eq!(end(mapped), Some((remote, 53)));
    }

    #[test]
    fn this_process_is_found_by_its_name() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let own = process(std::process::id()).unwrap();
        for name in own.names.into_iter().filter(|n| !n.is_empty()) {
            let found = find(&[name.clone()].into());
            assert!(
                found[&name].contains(&NameKey::Port { proto: 17, port }),
                "{name}"
            );
        }
        assert!(find(&["no-such-program".to_owned()].into())["no-such-program"].is_empty());
    }

    proptest! {
        #[test]
        fn any_text(text: String, path: String) {
            let _ = listed(&text, 6, &HashSet::new(), true).count();
            let _ = (end(&text), is_in_group(&path, &text));
        }
    }
}
