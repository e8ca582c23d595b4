//! Links, addresses and routes in the calling thread's network namespace, through netlink.
//!
//! Principles: one request, one acknowledgement; every error names the device. Non-goals: queueing disciplines (crate `evenkeel-kernel`), undoing
//! anything (the namespaces go away).

use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};

use evenkeel_sys::netlink::Socket;
use evenkeel_sys::{Error, Netns};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Request};
use nix::errno::Errno;

/// A pair of virtual Ethernet devices: `device` here, `peer` in namespace `there`.
pub fn add_veth(device: &str, peer: &str, there: &Netns) -> Result<(), Error> {
    let mut far = LinkMessage::default();
    far.attributes = vec![
        LinkAttribute::IfName(peer.to_owned()),
        LinkAttribute::NetNsFd(there.as_fd().as_raw_fd()),
    ];
    let mut link = LinkMessage::default();
    link.attributes = vec![
        LinkAttribute::IfName(device.to_owned()),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(far))),
        ]),
    ];
    let what = format!("add veth {device} with {peer} in {}", there.name());
    ask(&what, Request::NewLink(link), NLM_F_CREATE | NLM_F_EXCL)
}

/// Switches `device` on, with room for `queue` packets in it if given.
pub fn up(device: &str, queue: Option<u32>) -> Result<(), Error> {
    let mut link = LinkMessage::default();
    link.header.index = index(device)?;
    if let Some(n) = queue {
        link.attributes.push(LinkAttribute::TxQueueLen(n));
        let what = format!("set the queue of {device} to {n} packets");
        ask(&what, Request::SetLink(link.clone()), 0)?;
        link.attributes.clear();
    }
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    ask(&format!("switch {device} on"), Request::SetLink(link), 0)
}

/// Adds an address to `device`.
pub fn add_address(device: &str, address: IpAddr, prefix: u8) -> Result<(), Error> {
    let mut message = AddressMessage::default();
    message.header.family = family(address);
    message.header.prefix_len = prefix;
    message.header.index = index(device)?;
    message.attributes = vec![
        AddressAttribute::Local(address),
        AddressAttribute::Address(address),
    ];
    let what = format!("add address {address}/{prefix} to {device}");
    ask(
        &what,
        Request::NewAddress(message),
        NLM_F_CREATE | NLM_F_EXCL,
    )
}

/// Sends everything that has no better route to `gateway`.
pub fn add_default_route(gateway: IpAddr) -> Result<(), Error> {
    default_route(gateway, None)
}

fn default_route(gateway: IpAddr, out: Option<RouteAttribute>) -> Result<(), Error> {
    let mut message = RouteMessage::default();
    message.header.address_family = family(gateway);
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = RouteScope::Universe;
    message.header.kind = RouteType::Unicast;
    let via = match gateway {
        IpAddr::V4(a) => RouteAddress::Inet(a),
        IpAddr::V6(a) => RouteAddress::Inet6(a),
    };
    message.attributes = vec![RouteAttribute::Gateway(via)];
    message.attributes.extend(out);
    let what = format!("add a default route through {gateway}");
    ask(&what, Request::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
}

/// The same through a gateway that is known by its address of the link of `device` (RFC 4861, section 6.3.4).
pub fn add_default_route_on(device: &str, gateway: Ipv6Addr) -> Result<(), Error> {
    let out = RouteAttribute::Oif(index(device)?);
    default_route(gateway.into(), Some(out))
}

/// The address of the link that `device` has.
pub fn link_address(device: &str) -> Result<Ipv6Addr, Error> {
    let what = format!("find the address of the link of {device}");
    let text = std::fs::read_to_string("/proc/thread-self/net/if_inet6")
        .map_err(|e| Error::io(&what, &e))?;
    let one = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let address = u128::from_str_radix(fields.first()?, 16).ok()?;
        (fields.last() == Some(&device)).then(|| Ipv6Addr::from(address))
    };
    let mut all = text.lines().filter_map(one);
    all.find(Ipv6Addr::is_unicast_link_local)
        .ok_or_else(|| Error::new(what, Errno::ENODATA))
}

/// Packets that the kernel wanted to send through `device` and that did not fit into it.
pub fn dropped(device: &str) -> Result<u64, Error> {
    let mut link = LinkMessage::default();
    link.header.index = index(device)?;
    let what = format!("read the counters of {device}");
    let answer = Socket::open_route()?
        .dump(&bytes(Request::GetLink(link), 0))
        .map_err(|e| Error::netlink(&what, e))?;
    let links = answer
        .iter()
        .filter_map(|m| NetlinkMessage::deserialize(m).ok());
    let mut attributes = links.flat_map(|m| match m.payload {
        NetlinkPayload::InnerMessage(Request::NewLink(l)) => l.attributes,
        _ => Vec::new(),
    });
    let counters = attributes.find_map(|a| match a {
        LinkAttribute::Stats64(s) => Some(s.tx_dropped),
        _ => None,
    });
    counters.ok_or_else(|| Error::new(what, Errno::ENODATA))
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn index(device: &str) -> Result<u32, Error> {
    nix::net::if_::if_nametoindex(device)
        .map_err(|e| Error::new(format!("find device {device}"), e))
}

/// Sends a request and waits until the kernel has done it.
fn ask(what: &str, request: Request, flags: u16) -> Result<(), Error> {
    Socket::open_route()?
        .request(&bytes(request, flags))
        .map_err(|e| Error::netlink(what, e))
}

fn bytes(request: Request, flags: u16) -> Vec<u8> {
    let mut message = NetlinkMessage::from(request);
    message.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}
