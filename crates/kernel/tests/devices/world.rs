//! A network namespace with a WAN device to shape, and what there is to see in it.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use evenkeel_core::plan::{Backend, Capabilities, Choice, Feature, Ingress, Mode};
use evenkeel_core::segments::Mss;
use evenkeel_core::tc::Handle;
use evenkeel_core::{Framing, Rate};
use evenkeel_kernel::{Request, Session, StateDir, capabilities};
use evenkeel_sys::Netns;
use evenkeel_sys::tun::{Tun, TunKind};

/// Whether we are root; says that `test` is skipped if not.
pub(crate) fn root(test: &str) -> bool {
    let root = nix_uid() == 0;
    if !root {
        // Past the test harness, which hides the output of what passes.
        let _ = writeln!(std::io::stderr(), "SKIP {test}: needs root");
    }
    root
}

/// Says here what tests in a guest said that they skip.
pub(crate) fn pass_on_skips(text: &str, errors: &str) {
    for line in text.lines().chain(errors.lines()) {
        if let Some(at) = line.find("SKIP ") {
            let _ = writeln!(std::io::stderr(), "{}", &line[at..]);
        }
    }
}

fn nix_uid() -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").unwrap().uid()
}

/// What the WAN device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wan {
    Veth,
    Tun,
}

/// Inside the namespace.
pub(crate) struct World {
    pub(crate) dir: StateDir,
    pub(crate) backend: Backend,
    pub(crate) wan: Wan,
    pub(crate) caps: Capabilities,
    _tun: Option<Tun>,
    tmp: tempfile::TempDir,
}

/// What the kernel can do. It is asked once: its verifier looks at our programs for a second.
pub(crate) fn kernel() -> &'static Capabilities {
    static ALL: OnceLock<Capabilities> = OnceLock::new();
    ALL.get_or_init(|| capabilities().unwrap())
}

/// Runs `f` for every backend that this kernel has, with our programs and without them, on both
/// kinds of devices.
pub(crate) fn everywhere(test: &str, f: impl Fn(&World) + Send + Sync) {
    if !root(test) {
        return;
    }
    let all = kernel();
    if !all.has(Feature::Bpf) {
        let words = "with our programs: this kernel takes no eBPF";
        let _ = writeln!(std::io::stderr(), "SKIP {test}: {words}");
    }
    for backend in Backend::ALL {
        let mut caps = all.clone();
        if backend != Backend::Cake {
            caps.0.remove(&Feature::Cake);
        }
        if backend == Backend::HtbBuckets {
            caps.0.remove(&Feature::FqCodel);
        }
        let has = match backend {
            Backend::Cake => caps.has(Feature::Cake),
            Backend::HtbFqCodel => caps.has(Feature::FqCodel),
            Backend::HtbBuckets => true,
        };
        assert!(
            has || std::env::var_os("EVENKEEL_UML").is_none(),
            "User Mode Linux should have what {backend} needs"
        );
        let programs = caps.has(Feature::Bpf);
        for (wan, bpf) in [(Wan::Veth, true), (Wan::Tun, true), (Wan::Veth, false)] {
            if !has || bpf && !programs {
                continue;
            }
            let mut caps = caps.clone();
            if !bpf {
                caps.0.remove(&Feature::Bpf);
            }
            let caps = &caps;
            let f = &f;
            Netns::new(test)
                .unwrap()
                .run(move || f(&World::new(backend, wan, caps.clone())))
                .unwrap();
        }
    }
}

impl World {
    fn new(backend: Backend, wan: Wan, caps: Capabilities) -> Self {
        // Neighbour discovery would be counted with our own packets. A kernel may lack IPv6.
        let ipv6 = Path::new("/proc/sys/net/ipv6/conf/default/disable_ipv6");
        if ipv6.exists() {
            std::fs::write(ipv6, "1").unwrap();
        }
        let mut commands = String::new();
        let tun = match wan {
            Wan::Veth => {
                commands += "link add wan type veth peer name peer\nlink set peer up\n";
                None
            }
            Wan::Tun => Some(Tun::open("wan", TunKind::Tun).unwrap()),
        };
        commands += "link set lo up\nlink set wan up\naddr add 10.9.0.1/24 dev wan\n";
        if wan == Wan::Veth {
            commands += "neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev wan\n";
        }
        run_all("ip", &commands);
        let tmp = tempfile::tempdir().unwrap();
        World {
            dir: StateDir::new(tmp.path()),
            backend,
            wan,
            caps,
            _tun: tun,
            tmp,
        }
    }

    /// Bytes of link header of the WAN device.
    pub(crate) fn link_header(&self) -> u16 {
        if self.wan == Wan::Veth { 14 } else { 0 }
    }

    pub(crate) fn shape(
        &self,
        request: &Request,
    ) -> Result<evenkeel_kernel::Shaped, evenkeel_kernel::Error> {
        let shaped = evenkeel_kernel::shape_with(&self.caps, &self.dir, request)?;
        assert_eq!(shaped.state.backend, self.backend);
        Ok(shaped)
    }

    pub(crate) fn clear(&self) -> evenkeel_kernel::Cleared {
        evenkeel_kernel::clear(&self.dir, "wan").unwrap()
    }

    /// Everything that shaping could have changed, without counters.
    pub(crate) fn seen(&self) -> BTreeSet<String> {
        let mut session = Session::open().unwrap();
        let mut all = BTreeSet::new();
        for link in session.links().unwrap() {
            all.insert(format!(
                "link {} up={} gso={:?}/{:?} gro={:?}/{:?} qlen={}",
                link.name,
                link.is_up(),
                link.gso_max_size,
                link.gso_max_segs,
                link.gro_max_size,
                link.gro_ipv4_max_size,
                link.txqlen
            ));
            for q in session.qdiscs(link.index).unwrap() {
                all.insert(format!(
                    "{} qdisc {} {} {:?}",
                    link.name, q.parent, q.handle, q.body
                ));
            }
            for c in session.classes(link.index).unwrap() {
                if c.kind == "htb" {
                    all.insert(format!(
                        "{} class {} {} {:?}",
                        link.name, c.parent, c.classid, c.body
                    ));
                }
            }
            for parent in [Handle::CLSACT_INGRESS, Handle::CLSACT_EGRESS, Handle::ROOT] {
                for f in session.filters(link.index, parent).unwrap_or_default() {
                    all.insert(format!(
                        "{} filter {} {} {}",
                        link.name, f.parent, f.pref, f.kind
                    ));
                }
            }
        }
        for file in std::fs::read_dir(self.tmp.path()).unwrap() {
            all.insert(format!("file {}", file.unwrap().file_name().display()));
        }
        all
    }

    /// Moves the veth's other end to a namespace of its own, as 10.9.0.2.
    pub(crate) fn far(&self) -> Far {
        assert_eq!(self.wan, Wan::Veth);
        let ns = Netns::new("far").unwrap();
        // `ip` knows a namespace by a task in it: a thread that waits to be dropped.
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        ns.spawn("far", move || {
            tell.send(nix::unistd::gettid()).unwrap();
            let _ = ended.recv();
        })
        .unwrap();
        ip(&format!("link set peer netns {}", told.recv().unwrap()));
        ns.run(|| {
            ip("addr add 10.9.0.2/24 dev peer");
            ip("link set peer up");
        })
        .unwrap();
        ip("neigh del 10.9.0.2 dev wan");
        Far { ns, _end: end }
    }
}

/// The other side of the WAN device.
pub(crate) struct Far {
    pub(crate) ns: Netns,
    _end: Sender<()>,
}

/// Runs `ip ARGS` in this thread's namespace.
pub(crate) fn ip(args: &str) {
    run("ip", args);
}

/// Runs a program in this thread's namespace and gives what it printed.
pub(crate) fn run(program: &str, args: &str) -> String {
    let out = Command::new(program)
        .args(args.split_whitespace())
        .output()
        .expect(program);
    printed(&format!("{program} {args}"), out)
}

/// The same for many commands of `ip` or `tc`, one a line, in one process: starting one takes User Mode Linux 50 ms. It
/// ends at the first that fails.
pub(crate) fn run_all(program: &str, commands: &str) -> String {
    let mut child = Command::new(program)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect(program);
    // Far fewer bytes than a pipe takes; dropped, so that it ends.
    let told = child.stdin.take().unwrap().write_all(commands.as_bytes());
    let out = child.wait_with_output().expect(program);
    let text = printed(&format!("{program} -batch:\n{commands}"), out);
    told.expect(program);
    text
}

/// What a program printed that succeeded.
fn printed(what: &str, out: Output) -> String {
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{what}: {errors}");
    String::from_utf8(out.stdout).unwrap()
}

/// Told rates and framing of the device `wan`, everything else as by default.
pub(crate) fn request(down: &str, up: &str, framing: &str) -> Request {
    Request {
        rules: Vec::new(),
        device: "wan".into(),
        down: down.parse::<Rate>().unwrap(),
        up: up.parse::<Rate>().unwrap(),
        framing: Some(framing.parse::<Framing>().unwrap()),
        choice: Choice::Auto,
        ingress: Ingress::Auto,
        mode: Mode::Ping,
        windows: true,
        lan: true,
        mss: Mss::Auto,
        replace: false,
    }
}

/// A socket that sends out of the WAN device.
pub(crate) fn sender() -> UdpSocket {
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    socket.connect("10.9.0.2:44444").unwrap();
    socket
}
