//! The kernels: where they are, and building the one for virtual time.
//!
//! That one is Debian's linux-source with the configuration and the patch of scripts/uml, built
//! for ARCH=um. It lies in a cache under a name made of the source's version and of a checksum of
//! configuration and patch: `$XDG_CACHE_HOME/evenkeel`, without that /var/cache/evenkeel for
//! root and ~/.cache/evenkeel for others.
//!
//! Principles: nothing comes from anywhere but Debian's archive; what the build asks for that
//! the configuration did not get is an error, not a surprise in a measurement; the scratch
//! directory (1.5 GB) goes away whatever happens. Non-goals: other distributions' sources.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::unistd::Uid;

use super::error::GuestError;
use super::scratch::{Contained, Scratch, missing, needs};
use super::which::which;
use crate::engine::Engine;

const CONFIG: &str = include_str!("../../../../scripts/uml/virtual.config");
const PATCH: &str = include_str!("../../../../scripts/uml/virtual.patch");
/// Debian's package of the source.
const PACKAGE: &str = "linux-source-6.12";
const COMMAND: &str = "evenkeel lab kernel build";
/// What building needs, and where it is from.
const TOOLS: [(&str, &str); 9] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("xz", "xz-utils"),
    ("patch", "patch"),
    ("perl", "perl"),
];

/// What [`build`] did.
#[derive(Debug)]
pub struct Built {
    /// Where the kernel is.
    pub path: PathBuf,
    /// It was there before.
    pub cached: bool,
}

/// Where the kernel of `engine` is.
pub fn find(engine: Engine) -> Result<PathBuf, GuestError> {
    for (tool, package) in [
        ("unshare", "util-linux"),
        ("setsid", "util-linux"),
        ("setarch", "util-linux"),
        ("setpriv", "util-linux"),
        ("ip", "iproute2"),
    ] {
        which(tool).ok_or_else(|| missing(tool, package))?;
    }
    match engine {
        Engine::Native => Err(GuestError::host("boot a guest", "native needs none")),
        Engine::Uml => {
            which("modprobe").ok_or_else(|| missing("modprobe", "kmod"))?;
            which("linux.uml").ok_or_else(|| missing("linux.uml", "user-mode-linux"))
        }
        Engine::Virtual => cached(&cache_dir()).ok_or_else(|| GuestError::Missing {
            what: "the kernel for virtual time".into(),
            remedy: format!("{COMMAND} (some six minutes, once)"),
        }),
    }
}

/// Builds the kernel for virtual time, unless it is there. `progress` gets the phase and a word
/// on what is under way.
pub fn build(
    force: bool,
    progress: &mut dyn FnMut(&str, &str),
    cancel: &AtomicBool,
) -> Result<Built, GuestError> {
    let cache = cache_dir();
    if let Some(path) = cached(&cache).filter(|_| !force) {
        return Ok(Built { path, cached: true });
    }
    let lacking = lacking();
    if !lacking.is_empty() {
        install(&lacking, progress, cancel)?;
    }
    let version = source_version()?;
    let scratch = Scratch::new(&cache)?;
    let dir = scratch.path().to_string_lossy().into_owned();
    let put = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        fs::write(&path, text).map_err(|e| GuestError::host(format!("write {}", path.display()), e))
    };
    put("virtual.config", CONFIG)?;
    put("virtual.patch", PATCH)?;
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let steps = [
        (
            "unpack the source",
            format!(
                "tar -xJf {} --strip-components=1 --checkpoint=5000 \
                 --checkpoint-action=echo=%u --exclude='*/Documentation/*.rst'",
                source().display()
            ),
        ),
        ("patch it", "patch -p1 -i virtual.patch".to_owned()),
        (
            "configure it",
            "make ARCH=um KCONFIG_ALLCONFIG=virtual.config allnoconfig".to_owned(),
        ),
        (
            "compile it",
            format!("make ARCH=um -j{jobs} linux && strip linux"),
        ),
    ];
    for (step, script) in steps {
        let mut count = 0;
        run(&script, &dir, step, cancel, &mut |line| {
            count += 1;
            progress(step, &format!("{count}: {}", line.trim()));
        })?;
        if step == "configure it" {
            configured(&scratch.path().join(".config"))?;
        }
    }
    let path = cache.join(file_name(&version));
    // The rename makes it whole or absent.
    let whole = cache.join(format!(".{}.new", file_name(&version)));
    fs::copy(scratch.path().join("linux"), &whole)
        .and_then(|_| fs::rename(&whole, &path))
        .map_err(|e| GuestError::host(format!("write {}", path.display()), e))?;
    Ok(Built {
        path,
        cached: false,
    })
}

/// Runs a shell script in `dir`, with each line of its output to `tell`.
fn run(
    script: &str,
    dir: &str,
    step: &str,
    cancel: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<(), GuestError> {
    let (read, write) = std::io::pipe().map_err(|e| GuestError::host("make a pipe", e))?;
    let mut child = Contained::start(&format!("set -e; {script}"), &[], |command| {
        let _ = write.try_clone().map(|w| command.stderr(w));
        command
            .stdin(Stdio::null())
            .stdout(write)
            .current_dir(dir)
            .env("LC_ALL", "C")
            .env("DEBIAN_FRONTEND", "noninteractive")
            // The kernel mixes these into its randomness: the same kernel from each build.
            .env("KBUILD_BUILD_TIMESTAMP", "2026-01-01")
            .env("KBUILD_BUILD_VERSION", "1")
            .env("KBUILD_BUILD_USER", "evenkeel")
            .env("KBUILD_BUILD_HOST", "lab");
    })?;
    let (to, lines) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in BufReader::new(read).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                break;
            }
        }
    });
    let mut last: Vec<String> = Vec::new();
    loop {
        if cancel.load(Ordering::Relaxed) {
            child.kill();
            return Err(GuestError::Cancelled);
        }
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => {
                tell(&line);
                last.push(line);
                if last.len() > 40 {
                    last.remove(0);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let _ = reader.join();
    let status = child
        .0
        .wait()
        .map_err(|e| GuestError::host(format!("wait for a step: {step}"), e))?;
    if status.success() {
        return Ok(());
    }
    let errors: Vec<&String> = last
        .iter()
        .filter(|l| l.to_lowercase().contains("error"))
        .collect();
    let said = errors.first().copied().or(last.last());
    Err(GuestError::Build {
        step: step.to_owned(),
        last: said.cloned().unwrap_or_else(|| status.to_string()),
    })
}

/// Packages that building needs and this machine lacks.
fn lacking() -> Vec<&'static str> {
    let tools = TOOLS.into_iter().filter(|t| which(t.0).is_none());
    let mut packages: Vec<&str> = tools.map(|t| t.1).collect();
    if !source().is_file() {
        packages.push(PACKAGE);
    }
    packages
}

fn install(
    packages: &[&str],
    progress: &mut dyn FnMut(&str, &str),
    cancel: &AtomicBool,
) -> Result<(), GuestError> {
    let list = packages.join(" ");
    if !Uid::effective().is_root() || which("apt-get").is_none() {
        return Err(GuestError::Missing {
            what: list.clone(),
            remedy: format!("as root: apt-get install {list}"),
        });
    }
    let get = format!("apt-get install -y --no-install-recommends {list}");
    let step = format!("install {list}");
    let script = format!("{get} || {{ apt-get update; {get}; }}");
    run(&script, "/", &step, cancel, &mut |line| {
        progress(&step, line.trim());
    })
}

fn source() -> PathBuf {
    PathBuf::from(format!("/usr/src/{PACKAGE}.tar.xz"))
}

/// The package's version (`6.12.117-1~deb12u1`).
fn source_version() -> Result<String, GuestError> {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f", "${Version}", PACKAGE])
        .output()
        .map_err(|e| needs("dpkg-query", "dpkg", &e))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || version.is_empty() {
        return Err(missing(PACKAGE, PACKAGE));
    }
    Ok(version)
}

/// Whether everything that [`CONFIG`] asks for is in the configuration that came out.
fn configured(path: &Path) -> Result<(), GuestError> {
    let text = fs::read_to_string(path)
        .map_err(|e| GuestError::host(format!("read {}", path.display()), e))?;
    match refused(CONFIG, &text) {
        lost if lost.is_empty() => Ok(()),
        lost => Err(GuestError::Build {
            step: "configure it".into(),
            last: format!("this source does not take {}", lost.join(", ")),
        }),
    }
}

/// What of the fragment `asked` is not so in `got`.
fn refused<'a>(asked: &'a str, got: &str) -> Vec<&'a str> {
    let got: Vec<&str> = got.lines().collect();
    let set = |option: &str| got.iter().any(|l| l.split('=').next() == Some(option));
    asked
        .lines()
        .filter(|line| match line.strip_prefix("# ") {
            Some(off) => off.strip_suffix(" is not set").is_some_and(set),
            None => line.starts_with("CONFIG_") && !got.contains(line),
        })
        .collect()
}

fn file_name(version: &str) -> String {
    format!("linux-{version}-{}", made_with())
}

/// The checksum of configuration and patch.
fn made_with() -> String {
    checksum([CONFIG, PATCH].concat().as_bytes())
}

/// FNV-1a, 64 bits, in hexadecimal digits.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, b| {
        (sum ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{sum:016x}")
}

/// The newest kernel made with this configuration, of whatever source.
fn cached(dir: &Path) -> Option<PathBuf> {
    let sum = made_with();
    let mut found: Vec<PathBuf> = fs::read_dir(dir)
        .ok()?
        .flatten()
        .map(|e| e.path())
        .filter(|p| {
            let name = p.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("linux-") && name.ends_with(&sum)
        })
        .collect();
    found.sort_by_key(|p| p.metadata().and_then(|m| m.modified()).ok());
    found.pop()
}

/// Where things lie that can be made again.
pub(crate) fn cache_dir() -> PathBuf {
    let from = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    match from("XDG_CACHE_HOME") {
        Some(cache) => cache.join("evenkeel"),
        None if Uid::effective().is_root() => PathBuf::from("/var/cache/evenkeel"),
        None => from("HOME").unwrap_or_default().join(".cache/evenkeel"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_source_did_not_take_is_named() {
        let asked =
            "# words\nCONFIG_A=y\nCONFIG_B=y\n# CONFIG_C is not set\n# CONFIG_D is not set\n";
        assert_eq!(
            refused(
                asked,
                "CONFIG_A=y\nCONFIG_C=y\n# CONFIG_D is not set\nCONFIG_BB=y\n"
            ),
            ["CONFIG_B=y", "# CONFIG_C is not set"]
        );
        assert!(refused(asked, "CONFIG_B=y\nCONFIG_A=y\n").is_empty());
    }

    #[test]
    fn a_kernel_is_found_by_its_configuration() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(cached(dir.path()), None);
        fs::write(dir.path().join("linux-6.12.1-0123456789abcdef"), "x").unwrap();
        assert_eq!(cached(dir.path()), None);
        let name = file_name("6.12.1");
        assert_eq!(name.len(), "linux-6.12.1-".len() + 16);
        fs::write(dir.path().join(&name), "x").unwrap();
        assert_eq!(cached(dir.path()), Some(dir.path().join(name)));
        assert_eq!(cached(&dir.path().join("nowhere")), None);
    }
}
