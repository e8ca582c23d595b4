//! The prober of `ping` and `trace`: any target, any kind of probe, its errors timed as well.
//!
//! Principles: a [`Pinger`] sends when it is told and waits in one place; what belongs to what is
//! decided by `evenkeel_core::ping::track`; it needs no rights where the kernel asks for none
//! (ICMP echo from a group in `net.ipv4.ping_group_range`, UDP, TCP by an ordinary handshake).
//! Probes of one size class share one flow, so that load balancers do not split the path.
//! Non-goals: printing, statistics, judging (the lab's prober, [`crate::probe`]).

mod clocks;
mod datagram;
mod error;
mod icmp;
mod port;
mod session;
mod tcp;
mod token;

use std::net::SocketAddr;
use std::time::Duration;

use evenkeel_core::ping::arrivals::Arrivals;
use evenkeel_core::ping::track::{Event, Tracker};
use evenkeel_sys::poll::{Interest, Poller, Timer, Waker};
use evenkeel_sys::{Error, PacketOptions};
use nix::errno::Errno;

pub(crate) use clocks::now;
pub use error::PingError;
pub use session::{Request, Session};

use datagram::Datagrams;
use icmp::Icmp;
use port::Ports as _;
use tcp::Handshakes;
use token::{ALARM, SOCKET, TICK, WAKE};

/// Which kind of probe. Ports are those of the target's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// ICMP echo.
    Echo,
    /// ICMP time stamp request; IPv4 only.
    Timestamp,
    /// A UDP datagram.
    Udp,
    /// A TCP SYN, by an ordinary handshake that is reset at once.
    Tcp,
}

/// The sockets of one kind of probe.
enum Wire {
    Icmp(Icmp),
    Udp(Datagrams),
    Tcp(Handshakes),
}

/// Sends probes and hears what becomes of them.
pub struct Pinger {
    target: SocketAddr,
    poller: Poller,
    alarm: Timer,
    /// What the alarm is set to.
    alarm_at: Option<Duration>,
    tracker: Tracker,
    wire: Wire,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Woken {
    /// The waker that was watched.
    pub woken: bool,
    /// The tick that was watched.
    pub tick: bool,
}

impl Pinger {
    /// For probes of `target` that are given up after `timeout`. `smallest`: the fewest payload
    /// bytes that will be sent. `arrivals`: whoever knows when answers arrive, if anybody does.
    pub fn open(
        target: SocketAddr,
        kind: Kind,
        options: PacketOptions,
        timeout: Duration,
        smallest: u32,
        arrivals: Option<Box<dyn Arrivals>>,
    ) -> Result<Self, PingError> {
        let poller = Poller::new()?;
        let alarm = Timer::new()?;
        poller.add(&alarm, ALARM, Interest::Read)?;
        let wire = match kind {
            Kind::Echo => Wire::Icmp(Icmp::echo(target, options, arrivals)?),
            Kind::Timestamp => Wire::Icmp(Icmp::timestamp(target, options, arrivals)?),
            Kind::Udp => Wire::Udp(Datagrams::new(target, options, smallest, arrivals)?),
            Kind::Tcp => Wire::Tcp(Handshakes::new(target, options)),
        };
        match &wire {
            Wire::Icmp(icmp) => poller.add(&icmp.port.socket, SOCKET, Interest::Read)?,
            Wire::Udp(udp) => udp.watch(&poller)?,
            Wire::Tcp(_) => {}
        }
        Ok(Pinger {
            target,
            poller,
            alarm,
            alarm_at: None,
            tracker: Tracker::new(target.ip(), timeout),
            wire,
        })
    }

    /// Also wakes for `waker`.
    pub fn watch(&self, waker: &Waker) -> Result<(), Error> {
        self.poller.add(waker, WAKE, Interest::Read)
    }

    /// Also wakes for the beat of `tick`.
    pub fn follow(&self, tick: &Timer) -> Result<(), Error> {
        self.poller.add(tick, TICK, Interest::Read)
    }

    /// No longer wakes for it.
    pub fn unwatch(&self, waker: &Waker) -> Result<(), Error> {
        self.poller.remove(waker)
    }

    /// TTL or hop limit of what is sent from now on.
    pub fn set_hops(&mut self, hops: u8) -> Result<(), Error> {
        match &mut self.wire {
            Wire::Icmp(icmp) => icmp.port.socket.set_hops(self.target.ip(), hops),
            Wire::Udp(udp) => udp.set_hops(hops),
            Wire::Tcp(tcp) => {
                tcp.options.hops = Some(hops);
                Ok(())
            }
        }
    }

    /// Sends a probe with `size` bytes of payload. The kernel's refusal is its fate as well.
    pub fn send(&mut self, size: u32) -> Result<Result<u64, Errno>, Error> {
        let seq = self.tracker.sent(size, now());
        let (tracker, poller) = (&mut self.tracker, &self.poller);
        let sent = match &mut self.wire {
            Wire::Icmp(icmp) => icmp.send(seq, size, tracker)?,
            Wire::Udp(udp) => udp.send(seq, size, tracker, poller)?,
            Wire::Tcp(tcp) => tcp.send(seq, tracker, poller)?,
        };
        Ok(sent.map(|()| seq).inspect_err(|_| self.tracker.unsent(seq)))
    }

    /// The error that says that a probe of `size` bytes was not sent.
    pub fn unsent(&self, size: u32, errno: Errno) -> PingError {
        PingError::Unsent {
            size,
            target: self.target,
            errno,
        }
    }

    /// Waits until something happens, at most until `until` (steady clock), and takes it in.
    /// Never longer than until the next probe is given up.
    pub fn wait(&mut self, until: Option<Duration>) -> Result<Woken, Error> {
        let due = self.tracker.deadline().into_iter().chain(until).min();
        // Setting the alarm is a system call: one that is early does no harm.
        if let Some(due) = due
            && self.alarm_at.is_none_or(|at| at > due)
        {
            self.alarm.set(due)?;
            self.alarm_at = Some(due);
        }
        let mut ready = Vec::new();
        self.poller.wait(&mut ready)?;
        let mut woken = Woken::default();
        for r in &ready {
            match r.token {
                ALARM => {
                    self.alarm.clear();
                    self.alarm_at = None;
                }
                WAKE => woken.woken = true,
                TICK => woken.tick = true,
                token => {
                    let which = (token - SOCKET) as usize;
                    match &mut self.wire {
                        Wire::Icmp(icmp) => icmp.hear(0, r, &mut self.tracker)?,
                        Wire::Udp(udp) => udp.hear(which, r, &mut self.tracker)?,
                        Wire::Tcp(tcp) => tcp.hear(which, &mut self.tracker)?,
                    }
                }
            }
        }
        self.tracker.advance(now());
        if let Wire::Tcp(tcp) = &mut self.wire {
            tcp.give_up(&self.tracker);
        }
        Ok(woken)
    }

    /// The next thing that became known.
    pub fn poll(&mut self) -> Option<Event> {
        self.tracker.poll()
    }

    /// Probes without a fate.
    pub fn open_probes(&self) -> usize {
        self.tracker.open()
    }

    /// No more may be sent until some have their fate.
    pub fn is_full(&self) -> bool {
        self.tracker.is_full()
    }
}
