//! The server of pages, `evenkeel-web`: a child without rights that asks at the control socket.
//!
//! Principles: nothing that comes over the network by HTTP is read by a process that may change the network; the child
//! has no capability, and does not know the token, which the daemon compares; one that ends is started again, not at
//! once. Non-goals: pages.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use evenkeel_socket::Rights;
use evenkeel_sys::child;
use evenkeel_terminal::Failure;

use super::watcher::Voice;
use crate::config::{Config, Reads};
use crate::lab;

/// The program.
const NAME: &str = "evenkeel-web";
/// Where it finds the address of Home Assistant, which may have a password: others see no environment of it.
const MQTT: &str = "EVENKEEL_MQTT";
/// Whose members may do everything.
const GROUP: &str = "evenkeel";
/// One that ended is started again after this.
const AGAIN: Duration = Duration::from_secs(10);
/// Bytes of a token: 128 bits.
const TOKEN: usize = 16;

/// What it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PagesConfig {
    http: Option<SocketAddr>,
    names: Vec<String>,
    reads: Reads,
    mqtt: Option<String>,
}

impl PagesConfig {
    /// `None`: nobody wants any.
    pub(crate) fn of(config: &Config) -> Option<Self> {
        if config.http.is_none() && config.mqtt.is_none() {
            return None;
        }
        let is_loopback = config.http.is_none_or(|a| a.ip().is_loopback());
        let usual = if is_loopback {
            Reads::Anyone
        } else {
            Reads::Token
        };
        Some(PagesConfig {
            http: config.http,
            names: config.http_names.clone(),
            reads: config.http_read.unwrap_or(usual),
            mqtt: config.mqtt.clone(),
        })
    }
}

/// The child.
pub(crate) struct Pages {
    program: PathBuf,
    config: PagesConfig,
    socket: PathBuf,
    token: String,
    user: u32,
    child: Option<Child>,
    next: Instant,
}

impl Pages {
    /// Finds the program and the token; nothing runs yet.
    pub(crate) fn prepare(config: PagesConfig, socket: &Path, dir: &Path) -> Result<Self, Failure> {
        let program = lab::find(NAME)?;
        let file = dir.join("token");
        let token =
            token(&file).map_err(|e| Failure::work(format_args!("{}: {e}", file.display())))?;
        let user = child::without_rights(&mut Command::new(&program)).map_err(Failure::work)?;
        Ok(Pages {
            program,
            config,
            socket: socket.to_owned(),
            token,
            user,
            child: None,
            next: Instant::now(),
        })
    }

    /// Who may what at the socket where there are pages.
    pub(crate) fn rights(&self) -> Rights {
        Rights {
            pages: Some(self.user),
            token: Some(self.token.clone()),
            ..Self::no_rights()
        }
    }

    /// And where there are none.
    pub(crate) fn no_rights() -> Rights {
        Rights::of_group(GROUP)
    }

    /// Starts it, or sees whether it has ended.
    pub(crate) fn tend(&mut self, voice: &Voice) {
        if let Some(child) = &mut self.child {
            match child.try_wait() {
                Ok(None) => return,
                Ok(Some(status)) => voice.say(&format!(
                    "warning: {NAME} has ended ({status}); it is started again"
                )),
                Err(e) => voice.say(&format!("warning: {NAME}: {e}")),
            }
            self.child = None;
            self.next = Instant::now() + AGAIN;
        }
        if Instant::now() < self.next {
            return;
        }
        match self.start() {
            Ok(child) => self.child = Some(child),
            Err(e) => {
                voice.say(&format!("warning: start {}: {e}", self.program.display()));
                self.next = Instant::now() + AGAIN;
            }
        }
    }

    fn start(&self) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command
            .arg("--socket")
            .arg(&self.socket)
            .stdin(Stdio::null());
        command.env_clear().current_dir("/");
        if let Some(address) = self.config.http {
            command.args(["--listen", &address.to_string()]);
        }
        for name in &self.config.names {
            command.args(["--name", name]);
        }
        if self.config.reads == Reads::Token {
            command.arg("--read-with-token");
        }
        if let Some(url) = &self.config.mqtt {
            command.env(MQTT, url);
        }
        child::without_rights(&mut command)?;
        command.spawn()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The token of a file, which is made if there is none.
fn token(file: &Path) -> io::Result<String> {
    match fs::read_to_string(file) {
        Ok(text) if text.trim().len() >= TOKEN => return Ok(text.trim().to_owned()),
        Ok(_) => {
            return Err(io::Error::other(
                "this is too short for a token; remove it, and one is made",
            ));
        }
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        Err(_) => {}
    }
    let mut bytes = [0; TOKEN];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let text = format!("{:032x}", u128::from_be_bytes(bytes));
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut options = fs::OpenOptions::new();
    // Readable by the group, as the socket is for it.
    let mut made = options
        .write(true)
        .create_new(true)
        .mode(0o640)
        .open(file)?;
    made.write_all(format!("{text}\n").as_bytes())?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("deeper/token");
        let made = token(&file).unwrap();
        assert_eq!(
            (made.len(), token(&file).unwrap()),
            (2 * TOKEN, made.clone())
        );
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o640
        );
        fs::write(&file, "short").unwrap();
        assert!(token(&file).is_err());
    }

    #[test]
    fn loopback_is_for_anyone_and_the_rest_for_the_token() {
        let config = |http: &str, read| {
            let config = Config {
                http: Some(http.parse().unwrap()),
                http_read: read,
                ..Config::default()
            };
            PagesConfig::of(&config).unwrap().reads
        };
        assert_eq!(config("127.0.0.1:8017", None), Reads::Anyone);
        assert_eq!(config("192.0.2.1:8017", None), Reads::Token);
        assert_eq!(config("[::]:80", Some(Reads::Anyone)), Reads::Anyone);
        assert_eq!(config("[::1]:80", Some(Reads::Token)), Reads::Token);
        assert_eq!(PagesConfig::of(&Config::default()), None);
    }
}
