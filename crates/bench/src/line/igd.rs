//! What the router says of the line: UPnP's `WANCommonInterfaceConfig`.
//!
//! The next hop is asked by a unicast M-SEARCH where its description is (UPnP Device Architecture 1.1), or
//! looked for where FRITZ!Boxes have theirs; the description names the service and where it takes SOAP, and
//! that says access type and layer-1 rates (WANCommonInterfaceConfig:1, 2.4.3). No login is needed.
//!
//! Principles: only the next hop of the device is asked, and nothing that it names elsewhere; what comes is of
//! bounded length and time, and parsed as what it is, input of strangers; it is a cross-check and never the
//! truth: a provider's shaper may be lower, and many routers say what they were told. Non-goals: changing
//! anything there.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use evenkeel_core::Rate;
use roxmltree::Document;
use serde::Serialize;

/// Routers answer within.
const PATIENCE: Duration = Duration::from_millis(1200);
/// Descriptions are shorter.
const LONGEST: u64 = 256 * 1024;
/// The service, in either version.
const SERVICE: &str = "urn:schemas-upnp-org:service:WANCommonInterfaceConfig:";
/// Where descriptions are if nobody answers an M-SEARCH.
const USUAL: [(u16, &str); 2] = [(49000, "/igddesc.xml"), (5000, "/rootDesc.xml")];

/// What a router says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Router {
    /// Who.
    pub address: IpAddr,
    /// What it calls itself.
    pub name: String,
    /// `DSL`, `Cable`, `Ethernet`, `POTS`.
    pub access: String,
    /// Layer 1 towards us, if it says so.
    pub down: Option<Rate>,
    /// From us.
    pub up: Option<Rate>,
    /// `Up`, `Down`, ...
    pub status: String,
}

impl Router {
    /// In a sentence.
    pub(crate) fn says(&self) -> String {
        let rate = |r: Option<Rate>| {
            r.map_or(
                "an unknown rate".into(),
                evenkeel_core::units::rounded::rate,
            )
        };
        format!(
            "The router {} ({}) says: {}, {} towards you, {} from you",
            self.address,
            self.name,
            self.access,
            rate(self.down),
            rate(self.up)
        )
    }
}

/// Asks the next hop of `device`; `None`: it says nothing.
pub fn ask(device: &str) -> Option<Router> {
    let hop = next_hop(
        &std::fs::read_to_string("/proc/thread-self/net/route").ok()?,
        device,
    )?;
    let found = search(hop)
        .into_iter()
        .chain(USUAL.map(|(port, path)| (port, path.to_owned())));
    for (port, path) in found {
        let Some(text) = http(hop, port, &request("GET", hop, port, &path, "", "")) else {
            continue;
        };
        let Some(service) = description(&text) else {
            continue;
        };
        let action = format!("{}#GetCommonLinkProperties", service.kind);
        let body = envelope(&service.kind);
        let asked = request("POST", hop, port, &service.control, &action, &body);
        let answer = http(hop, port, &asked)?;
        return properties(&answer, IpAddr::V4(hop), service.name);
    }
    None
}

/// The next hop of the default route by `device`, of the lowest metric (/proc/net/route).
fn next_hop(routes: &str, device: &str) -> Option<Ipv4Addr> {
    let one = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[name, "00000000", hop, _, _, _, metric, "00000000", ..] = &fields[..] else {
            return None;
        };
        let hop = Ipv4Addr::from(u32::from_str_radix(hop, 16).ok()?.to_ne_bytes());
        let usable = name == device && !hop.is_unspecified();
        usable.then_some((metric.parse::<u32>().ok()?, hop))
    };
    routes.lines().skip(1).filter_map(one).min().map(|r| r.1)
}

/// Where the router says its description is.
fn search(hop: Ipv4Addr) -> Option<(u16, String)> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((hop, 1900)).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    let ask = "M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\nMAN: \"ssdp:discover\"\r\nMX: 1\r\nST: urn:schemas-upnp-org:device:InternetGatewayDevice:1\r\n\r\n";
    socket.send(ask.as_bytes()).ok()?;
    let mut b = [0; 2048];
    let n = socket.recv(&mut b).ok()?;
    location(&String::from_utf8_lossy(&b[..n]), hop)
}

/// Port and path of a `LOCATION` header, if it is at `hop`.
fn location(answer: &str, hop: Ipv4Addr) -> Option<(u16, String)> {
    let url = answer.lines().find_map(|l| {
        let (name, value) = l.split_once(':')?;
        name.trim()
            .eq_ignore_ascii_case("location")
            .then(|| value.trim())
    })?;
    let rest = url.strip_prefix("http://")?;
    let (host, path) = rest.split_at(rest.find('/')?);
    let (host, port) = host.split_once(':').unwrap_or((host, "80"));
    let here = host.parse::<Ipv4Addr>().ok()? == hop;
    plain(path)
        .filter(|_| here)
        .map(|p| Some((port.parse().ok()?, p)))?
}

/// A path that can stand in a request.
fn plain(path: &str) -> Option<String> {
    let good =
        path.starts_with('/') && path.len() < 512 && path.bytes().all(|b| b.is_ascii_graphic());
    good.then(|| path.to_owned())
}

fn request(method: &str, hop: Ipv4Addr, port: u16, path: &str, action: &str, body: &str) -> String {
    let mut text =
        format!("{method} {path} HTTP/1.0\r\nHost: {hop}:{port}\r\nConnection: close\r\n");
    if method == "POST" {
        text += &format!(
            "SOAPAction: \"{action}\"\r\nContent-Type: text/xml; charset=\"utf-8\"\r\nContent-Length: {}\r\n",
            body.len()
        );
    }
    text + "\r\n" + body
}

fn envelope(kind: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\" s:encodingStyle=\"http://schemas.xmlsoap.org/soap/encoding/\"><s:Body><u:GetCommonLinkProperties xmlns:u=\"{kind}\"/></s:Body></s:Envelope>"
    )
}

/// The body of an answer with status 200.
fn http(hop: Ipv4Addr, port: u16, request: &str) -> Option<String> {
    let to = SocketAddr::from((hop, port));
    let until = Instant::now() + 2 * PATIENCE;
    let mut socket = TcpStream::connect_timeout(&to, PATIENCE).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    socket.set_write_timeout(Some(PATIENCE)).ok()?;
    socket.write_all(request.as_bytes()).ok()?;
    let mut bytes = Vec::new();
    let mut b = [0; 4096];
    while Instant::now() < until && (bytes.len() as u64) < LONGEST {
        match socket.read(&mut b) {
            Ok(0) | Err(_) => break,
            Ok(n) => bytes.extend_from_slice(&b[..n]),
        }
    }
    body(&bytes)
}

/// The body of an HTTP answer with status 200.
pub fn body(answer: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut status = head.lines().next()?.split(' ');
    let good = status.next()?.starts_with("HTTP/1.") && status.next()? == "200";
    good.then(|| body.to_owned())
}

/// The service of a description.
#[derive(Debug, PartialEq, Eq)]
pub struct Service {
    /// Its whole type.
    pub kind: String,
    /// Path for SOAP.
    pub control: String,
    /// What the device calls itself.
    pub name: String,
}

/// Finds the service in a device's description.
pub fn description(text: &str) -> Option<Service> {
    let xml = Document::parse(text.trim_start_matches('\u{feff}')).ok()?;
    let inside = |of: roxmltree::Node<'_, '_>, name: &str| {
        let found = of.children().find(|c| c.tag_name().name() == name)?;
        found.text().map(|t| t.trim().to_owned())
    };
    let service = xml.descendants().find(|n| {
        n.tag_name().name() == "service"
            && inside(*n, "serviceType").is_some_and(|t| t.starts_with(SERVICE))
    })?;
    let kind = inside(service, "serviceType")?;
    let names_nothing_else = kind
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b":-".contains(&b));
    let control = inside(service, "controlURL")?;
    let control = if control.starts_with('/') {
        control
    } else {
        format!("/{control}")
    };
    let device = xml.descendants().find(|n| n.tag_name().name() == "device");
    let name = device.and_then(|d| inside(d, "modelName").or_else(|| inside(d, "friendlyName")));
    Some(Service {
        kind: Some(kind).filter(|_| names_nothing_else)?,
        control: plain(&control)?,
        name: shown(&name.unwrap_or_else(|| "no name".into())),
    })
}

/// What `GetCommonLinkProperties` answered.
pub fn properties(text: &str, address: IpAddr, name: String) -> Option<Router> {
    let xml = Document::parse(text).ok()?;
    let value = |wanted: &str| {
        let found = xml.descendants().find(|n| n.tag_name().name() == wanted)?;
        found.text().map(str::trim)
    };
    let rate = |wanted| {
        value(wanted)?
            .parse()
            .ok()
            .filter(|v| *v > 0)
            .map(Rate::from_bps)
    };
    Some(Router {
        address,
        name,
        access: shown(value("NewWANAccessType")?),
        down: rate("NewLayer1DownstreamMaxBitRate"),
        up: rate("NewLayer1UpstreamMaxBitRate"),
        status: shown(value("NewPhysicalLinkStatus").unwrap_or_default()),
    })
}

/// A stranger's word, fit for a terminal.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DESCRIPTION: &str = r#"<?xml version="1.0"?>
<root xmlns="urn:schemas-upnp-org:device-1-0"><device>
<deviceType>urn:schemas-upnp-org:device:InternetGatewayDevice:1</deviceType><modelName>Box 7590</modelName>
<deviceList><device><serviceList>
<service><serviceType>urn:schemas-upnp-org:service:WANCommonInterfaceConfig:1</serviceType>
<controlURL>/igdupnp/control/WANCommonIFC1</controlURL></service></serviceList></device></deviceList>
</device></root>"#;
    const ANSWER: &str = r#"<?xml version="1.0"?><s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body>
<u:GetCommonLinkPropertiesResponse xmlns:u="urn:schemas-upnp-org:service:WANCommonInterfaceConfig:1">
<NewWANAccessType>DSL</NewWANAccessType><NewLayer1UpstreamMaxBitRate>46719000</NewLayer1UpstreamMaxBitRate>
<NewLayer1DownstreamMaxBitRate>116799000</NewLayer1DownstreamMaxBitRate><NewPhysicalLinkStatus>Up</NewPhysicalLinkStatus>
</u:GetCommonLinkPropertiesResponse></s:Body></s:Envelope>"#;

    #[test]
    fn a_description_and_an_answer() {
        let s = description(DESCRIPTION).unwrap();
        assert_eq!(s.control, "/igdupnp/control/WANCommonIFC1");
        assert_eq!(
            (s.kind.as_str(), s.name.as_str()),
            (
                "urn:schemas-upnp-org:service:WANCommonInterfaceConfig:1",
                "Box 7590"
            )
        );
        let r = properties(ANSWER, [192, 168, 178, 1].into(), s.name).unwrap();
        assert_eq!((r.access.as_str(), r.status.as_str()), ("DSL", "Up"));
        assert_eq!(
            (r.down, r.up),
            (
                Some(Rate::from_bps(116_799_000)),
                Some(Rate::from_bps(46_719_000))
            )
        );
        assert!(r.says().contains("117 Mbit/s"), "{}", r.says());
    }

    #[test]
    fn only_the_next_hop_is_asked() {
        let hop = Ipv4Addr::new(192, 168, 1, 1);
        let at = |url: &str| location(&format!("HTTP/1.1 200 OK\r\nLocation: {url}\r\n\r\n"), hop);
        assert_eq!(
            at("http://192.168.1.1:49000/igddesc.xml"),
            Some((49000, "/igddesc.xml".into()))
        );
        assert_eq!(at("http://192.168.1.1/x"), Some((80, "/x".into())));
        assert_eq!(at("http://192.168.1.2:49000/x"), None);
        assert_eq!(at("http://evil.example/x"), None);
        assert_eq!(at("http://192.168.1.1:49000/a b"), None);
        assert_eq!(at("https://192.168.1.1/x"), None);
        let routes = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\neth0 00000000 0101A8C0 0003 0 0 100 00000000 0 0 0\neth1 00000000 0201A8C0 0003 0 0 50 00000000 0 0 0\n";
        assert_eq!(next_hop(routes, "eth0"), Some(hop));
        assert_eq!(next_hop(routes, "ppp0"), None);
    }

    #[test]
    fn statuses() {
        assert_eq!(
            body(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nhello").as_deref(),
            Some("hello")
        );
        assert_eq!(body(b"HTTP/1.1 401 No\r\n\r\nhello"), None);
        assert_eq!(body(b"nonsense"), None);
    }

    #[test]
    fn a_name_says_nothing_to_a_terminal() {
        let evil = DESCRIPTION.replace("Box 7590", "Box\u{9b}31m&#27;[2J");
        // An escape is no character of XML; what is one is shown without control characters.
        assert!(description(&evil).is_none_or(|s| !s.name.chars().any(char::is_control)));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in ".{0,300}", at in 0usize..600, with in ".{0,5}") {
            let _ = (description(&text), properties(&text, [1, 1, 1, 1].into(), String::new()));
            let _ = (body(text.as_bytes()), location(&text, [1, 1, 1, 1].into()));
            for whole in [DESCRIPTION, ANSWER] {
                let mut cut = whole.to_owned();
                let at = at.min(cut.len());
                cut.insert_str(at, &with);
                let _ = (description(&cut), properties(&cut, [1, 1, 1, 1].into(), String::new()));
            }
        }
    }
}
