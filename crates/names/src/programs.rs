//! Programs of this host: their control groups and their sockets.
//!
//! Principles: a program is found by the name of its file, of its process, or of the unit, container or flatpak that it
//! runs in; what it has started belongs to it; a control group in which nothing else runs stands for all of its sockets,
//! also those to come, and for the others their sockets do; whose sockets may not be read is said. Non-goals: programs
//! that nobody named, other hosts'.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
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
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Each name's control groups and sockets.
    pub keys: Keys,
    /// Of which names sockets may not be read that no control group stands for, and the kernel's words for it.
    pub hidden: BTreeMap<String, String>,
}

/// Looks for programs of these names at `proc`, where `/proc` is.
pub(crate) fn find(names: &BTreeSet<String>, proc: &Path) -> Found {
    let processes = processes(proc);
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for (id, process) in &processes {
        children.entry(process.parent).or_default().push(*id);
    }
    let mut found = Found::default();
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
        let own = own_groups(&all, &processes);
        let sockets = sockets(&all, proc);
        let mut keys = group_keys(&own);
        keys.extend(sockets.keys);
        found.keys.insert(name.clone(), keys);
        let hidden = sockets.hidden.iter().find(|(id, _)| {
            let group = processes.get(id).map(|p| p.group.as_str());
            group.is_none_or(|g| !own.contains(g))
        });
        if let Some((_, why)) = hidden {
            found.hidden.insert(name.clone(), why.clone());
        }
    }
    found
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
fn processes(proc: &Path) -> BTreeMap<u32, Process> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let ids = entries.filter_map(|e| e.file_name().to_str()?.parse().ok());
    let mut all = BTreeMap::new();
    all.extend(ids.filter_map(|id: u32| Some((id, process(&proc.join(id.to_string()))?))));
    all
}

/// The one with this directory.
fn process(dir: &Path) -> Option<Process> {
    let stat = fs::read_to_string(dir.join("stat")).ok()?;
    // `PID (COMM) STATE PPID ...`; COMM may have spaces and parentheses.
    let (head, rest) = stat.rsplit_once(") ")?;
    let base = |path: &Path| path.file_name().map(|n| n.to_string_lossy().to_lowercase());
    let command = fs::read(dir.join("cmdline")).unwrap_or_default();
    let first = command.split(|b| *b == 0).next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    let executable = fs::read_link(dir.join("exe")).ok();
    let groups = fs::read_to_string(dir.join("cgroup")).unwrap_or_default();
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
fn own_groups<'a>(all: &HashSet<u32>, processes: &'a BTreeMap<u32, Process>) -> BTreeSet<&'a str> {
    let mut own: BTreeMap<&str, bool> = BTreeMap::new();
    for (id, process) in processes {
        // The root's are the kernel's and everybody's.
        if process.group.len() > 1 {
            *own.entry(&process.group).or_insert(true) &= all.contains(id);
        }
    }
    own.retain(|_, is_own| *is_own);
    own.into_keys().collect()
}

/// What the programs know control groups by.
fn group_keys(paths: &BTreeSet<&str>) -> BTreeSet<NameKey> {
    let root = control_groups();
    let numbers = paths.iter().filter_map(|path| {
        let place = root.as_ref()?.join(path.trim_start_matches('/'));
        fs::metadata(place).ok().map(|m| NameKey::Cgroup(m.ino()))
    });
    let mut keys = BTreeSet::new();
    keys.extend(numbers);
    keys
}

/// Sockets of processes.
#[derive(Debug, Default)]
struct Sockets {
    keys: BTreeSet<NameKey>,
    /// Processes whose sockets may not be read, and the kernel's words for it.
    hidden: BTreeMap<u32, String>,
}

/// Their sockets.
fn sockets(all: &HashSet<u32>, proc: &Path) -> Sockets {
    let here = fs::read_link(proc.join("thread-self/ns/net")).ok();
    let mut found = Sockets::default();
    // Of each network namespace one process, whose lists are read.
    let mut places: HashMap<_, (u32, HashSet<u64>)> = HashMap::new();
    for id in all {
        let dir = proc.join(id.to_string());
        let read = fs::read_link(dir.join("ns/net"));
        match read.and_then(|namespace| Ok((namespace, socket_numbers(&dir)?))) {
            Ok((namespace, numbers)) => {
                let place = places.entry(namespace).or_insert((*id, HashSet::new()));
                place.1.extend(numbers);
            }
            // It has ended.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => {
                found.hidden.insert(*id, e.to_string());
            }
        }
    }
    for (namespace, (id, numbers)) in places {
        let is_here = Some(&namespace) == here.as_ref();
        for (list, proto) in [("tcp", 6), ("tcp6", 6), ("udp", 17), ("udp6", 17)] {
            let path = proc.join(format!("{id}/net/{list}"));
            let text = fs::read_to_string(path).unwrap_or_default();
            found.keys.extend(listed(&text, proto, &numbers, is_here));
        }
    }
    found
}

/// The numbers of the sockets of the process with this directory.
fn socket_numbers(dir: &Path) -> io::Result<HashSet<u64>> {
    let links = fs::read_dir(dir.join("fd"))?.flatten();
    let number = |link: fs::DirEntry| {
        let target = fs::read_link(link.path()).ok()?;
        let number = target.to_str()?.strip_prefix("socket:[")?;
        number.strip_suffix(']')?.parse().ok()
    };
    Ok(links.filter_map(number).collect())
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
        let proc = Path::new("/proc");
        let own = process(&proc.join("self")).unwrap();
        for name in own.names.into_iter().filter(|n| !n.is_empty()) {
            let found = find(&[name.clone()].into(), proc);
            assert!(
                found.keys[&name].contains(&NameKey::Port { proto: 17, port }),
                "{name}"
            );
            assert!(found.hidden.is_empty(), "{found:?}");
        }
        let found = find(&["no-such-program".to_owned()].into(), proc);
        assert!(found.keys["no-such-program"].is_empty());
    }

    /// A process whose descriptors cannot be read, since they are a file (who may read what depends on who tests).
    fn a_process_that_hides(proc: &Path, id: u32, name: &str, group: &str) {
        let dir = proc.join(id.to_string());
        fs::create_dir_all(dir.join("ns")).unwrap();
        std::os::unix::fs::symlink("net:[7]", dir.join("ns/net")).unwrap();
        fs::write(dir.join("stat"), format!("{id} ({name}) S 1 0")).unwrap();
        fs::write(dir.join("cgroup"), format!("0::{group}\n")).unwrap();
        fs::write(dir.join("fd"), "").unwrap();
    }

    #[test]
    fn sockets_that_may_not_be_read_are_said_where_they_are_needed() {
        let proc = tempfile::tempdir().unwrap();
        a_process_that_hides(proc.path(), 7, "zoom", "/session-2.scope");
        a_process_that_hides(proc.path(), 8, "bash", "/session-2.scope");
        a_process_that_hides(proc.path(), 9, "meet", "/app-meet.scope");
        let names = ["zoom", "meet", "none"].map(str::to_owned);
        let found = find(&names.into(), proc.path());
        let hidden: Vec<_> = found.hidden.into_iter().collect();
        // The other one's control group stands for all of its sockets.
        let why = "Not a directory (os error 20)".to_owned();
        assert_eq!(hidden, [("zoom".to_owned(), why)]);
    }

    proptest! {
        #[test]
        fn any_text(text: String, path: String) {
            let _ = listed(&text, 6, &HashSet::new(), true).count();
            let _ = (end(&text), is_in_group(&path, &text));
        }
    }
}
