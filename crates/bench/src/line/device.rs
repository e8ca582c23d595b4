//! What the interface tells of a line.
//!
//! Principles: netlink and /proc, nothing is changed; a hint is what it is: it says which framings are
//! possible, not which one it is. Non-goals: measuring.

use evenkeel_kernel::Session;
use serde::{Deserialize, Serialize};

use crate::failed::Failed;

/// A device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Its name.
    pub name: String,
    /// Bytes of the largest IP packet.
    pub mtu: u32,
    /// `ppp`, `vlan`, `wwan`, `wlan`, `ethernet`, `tun`, ...
    pub kind: String,
    /// What it stands on, if that is another device.
    pub on: Option<String>,
    /// What follows for packets, in sentences.
    pub hints: Vec<String>,
}

/// What is known of a device.
pub fn facts(name: &str) -> Result<Facts, Failed> {
    let failed = |e: evenkeel_kernel::Error| Failed::Work(e.to_string());
    let mut session = Session::open().map_err(failed)?;
    let link = session.link(name).map_err(failed)?;
    let link = link.ok_or_else(|| {
        Failed::Usage(format!(
            "there is no device {name}: `ip link` names those that there are"
        ))
    })?;
    let vlan = std::fs::read_to_string("/proc/thread-self/net/vlan/config").unwrap_or_default();
    let pppoe = std::fs::read_to_string("/proc/thread-self/net/pppoe").unwrap_or_default();
    let on = lower_of(&vlan, name);
    let kind = match link.kind.as_str() {
        "" if name.starts_with("ppp") => "ppp",
        "" if name.starts_with("wwan") => "wwan",
        "" if crate::client::device::Device(name.into()).is_wifi() => "wlan",
        "" => "ethernet",
        kind => kind,
    };
    Ok(Facts {
        name: name.into(),
        mtu: link.mtu,
        kind: kind.into(),
        hints: hints(kind, link.mtu, sessions(&pppoe)),
        on,
    })
}

/// The device that a VLAN device stands on (/proc/net/vlan/config: `name | number | device`).
fn lower_of(config: &str, name: &str) -> Option<String> {
    config.lines().find_map(|l| {
        let mut fields = l.split('|').map(str::trim);
        let ours = fields.next() == Some(name);
        fields.nth(1).filter(|_| ours).map(str::to_owned)
    })
}

/// PPPoE sessions of this machine (/proc/net/pppoe: a heading and a line for each).
fn sessions(pppoe: &str) -> usize {
    pppoe
        .lines()
        .skip(1)
        .filter(|l| !l.trim().is_empty())
        .count()
}

fn hints(kind: &str, mtu: u32, sessions: usize) -> Vec<String> {
    let mut hints = Vec::new();
    match kind {
        "ppp" if sessions > 0 => hints.push(
            "a PPPoE session ends here: 8 bytes of it are in every packet's overhead".to_owned(),
        ),
        "vlan" => hints.push("a VLAN tag of 4 bytes is in every packet's overhead".to_owned()),
        "wwan" => {
            hints.push("a mobile network: its rate changes, and no framing is fixed".to_owned());
        }
        "wlan" => hints.push(
            "radio: what is measured may be its own queue and rate, not the line's".to_owned(),
        ),
        _ => {}
    }
    match mtu {
        1492 if kind != "ppp" => {
            hints.push("packets of 1492 bytes: PPPoE somewhere on the way".to_owned());
        }
        1280..1492 => hints.push(format!(
            "packets of {mtu} bytes: a tunnel somewhere on the way"
        )),
        _ => {}
    }
    hints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files() {
        let vlan = "VLAN Dev name    | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\neth0.7         | 7  | eth0\n";
        assert_eq!(lower_of(vlan, "eth0.7").as_deref(), Some("eth0"));
        assert_eq!(lower_of(vlan, "eth0"), None);
        let pppoe = "Id       Address              Device\n00000001 02:00:00:00:00:01    eth0.7\n";
        assert_eq!(
            (
                sessions(pppoe),
                sessions(""),
                sessions("Id Address Device\n")
            ),
            (1, 0, 0)
        );
    }

    #[test]
    fn what_an_interface_tells() {
        assert!(hints("ppp", 1492, 1)[0].contains("8 bytes"));
        assert!(hints("vlan", 1500, 0)[0].contains("4 bytes"));
        assert!(hints("ethernet", 1492, 0)[0].contains("PPPoE"));
        assert!(hints("ethernet", 1280, 0)[0].contains("tunnel"));
        assert!(hints("ethernet", 1500, 0).is_empty());
    }

    #[test]
    fn the_loopback_has_facts_and_nothing_has_none() {
        let lo = facts("lo").unwrap();
        assert_eq!((lo.name.as_str(), lo.on), ("lo", None));
        assert!(matches!(facts("no-such"), Err(Failed::Usage(_))));
    }
}
