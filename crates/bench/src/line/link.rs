//! The sockets that trains go through.
//!
//! Two kinds of far ends. `evenkeel serve` counts our trains, answers their markers and sends trains to us, all
//! on one flow, so that a bottleneck with a queue for each flow is seen as it is. Any other host answers the
//! echo that ends a train of datagrams to a port on which nobody listens; nothing comes back by trains.
//! Principles: kernel time stamps of what comes; what is sent is stamped by the clock just before the first
//! packet, a constant that a marker alone has as well. Non-goals: which trains.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use evenkeel_core::Direction;
use evenkeel_core::linklayer::saturation::{Seen, Train};
use evenkeel_measure::packet::Probe;
use evenkeel_sys::poll::{Interest, Poller, Timer};
use evenkeel_sys::stamp::StampedSocket;
use evenkeel_sys::{DeviceName, PacketOptions, clock, sched};

use crate::client::own::Control;
use crate::failed::Failed;
use crate::trains::{self, Message, Says};

/// A marker that takes longer than this beyond its train is lost.
const PATIENCE: Duration = Duration::from_millis(1500);
/// RFC 863: what arrives is thrown away.
const DISCARD: u16 = 9;

/// A far end and the way to it.
pub(super) struct Link {
    far: Far,
    /// Trains go by this one.
    socket: StampedSocket,
    poller: Poller,
    timer: Timer,
    headers: u32,
    seq: u32,
}

enum Far {
    Serves {
        /// The session ends with it.
        _control: Control,
        session: u32,
    },
    Echoes {
        socket: StampedSocket,
        v6: bool,
        session: u32,
    },
}

/// What came.
enum Came {
    Marker {
        at: Duration,
        held: Duration,
        sent_in: Duration,
        count: u32,
    },
    Filling,
}

const SOCKET: u64 = 0;
const TIMER: u64 = 1;

impl Link {
    /// To `server`, by `device`.
    pub(super) fn open(server: SocketAddr, token: &str, device: &str) -> Result<Self, Failed> {
        // Trains wait for nobody.
        let _ = sched::realtime_thread(20);
        let any: IpAddr = if server.is_ipv6() {
            [0u16; 8].into()
        } else {
            [0, 0, 0, 0].into()
        };
        let socket = StampedSocket::udp_arrivals(SocketAddr::new(any, 0))?;
        let options = PacketOptions {
            dont_fragment: true,
            device: DeviceName::new(device).ok(),
            ..PacketOptions::default()
        };
        // Without rights the routes decide, which is how the device was found.
        if socket.set_options(server.ip(), &options).is_err() {
            let whole = PacketOptions {
                device: None,
                ..options
            };
            socket.set_options(server.ip(), &whole)?;
        }
        let (poller, timer) = (Poller::new()?, Timer::new()?);
        poller.add(&timer, TIMER, Interest::Read)?;
        let far = match Control::open(server, token) {
            Ok(control) => {
                let session = control.session as u32;
                socket.connect(server)?;
                poller.add(&socket, SOCKET, Interest::Read)?;
                Far::Serves {
                    _control: control,
                    session,
                }
            }
            // With a token somebody is meant who wants it.
            Err(e) if !token.is_empty() => return Err(e),
            Err(_) => {
                let echo = StampedSocket::echo(server.ip())?;
                echo.connect(SocketAddr::new(server.ip(), 0))?;
                socket.connect(SocketAddr::new(server.ip(), DISCARD))?;
                poller.add(&echo, SOCKET, Interest::Read)?;
                let session = clock::realtime().as_nanos() as u32;
                Far::Echoes {
                    socket: echo,
                    v6: server.is_ipv6(),
                    session,
                }
            }
        };
        Ok(Link {
            far,
            headers: trains::headers(server),
            socket,
            poller,
            timer,
            seq: 0,
        })
    }

    /// It is `evenkeel serve`.
    pub(super) fn serves(&self) -> bool {
        matches!(self.far, Far::Serves { .. })
    }

    /// Bytes of the smallest packet.
    pub(super) fn headers(&self) -> u32 {
        self.headers
    }

    /// Whether one packet of this size arrives.
    pub(super) fn arrives(&mut self, d: Direction, size: u32) -> Result<bool, Failed> {
        let one = Train {
            sizes: vec![size],
            count: 1,
            spread: Duration::ZERO,
            pause: Duration::ZERO,
        };
        let seen = self.train(d, &one, Duration::from_millis(5))?;
        Ok(seen.took.is_some() && seen.lost == Some(0))
    }

    /// Sends a train, or has one sent, after a rest.
    pub(super) fn train(
        &mut self,
        d: Direction,
        train: &Train,
        rest: Duration,
    ) -> Result<Seen, Failed> {
        std::thread::sleep(rest);
        self.drain()?;
        self.seq += 1;
        match d {
            Direction::Up => self.up(train),
            Direction::Down => self.down(train),
        }
    }

    fn up(&mut self, train: &Train) -> Result<Seen, Failed> {
        if let Far::Serves { .. } = self.far
            && train.count > 0
        {
            // Whoever counts begins at nothing.
            self.say(Says::Count);
            if self.hear(PATIENCE)?.is_none() {
                return Ok(Seen {
                    sent_in: Duration::ZERO,
                    took: None,
                    lost: None,
                });
            }
            self.seq += 1;
        }
        let (mut first, lacking) = trains::send(&self.socket, None, self.headers, train);
        let last = clock::realtime();
        if train.count == 0 {
            first = last;
        }
        self.say(Says::Count);
        let heard = self.hear(PATIENCE + 4 * (train.spread + train.pause))?;
        let Some((
            Came::Marker {
                at, held, count, ..
            },
            _,
        )) = heard
        else {
            return Ok(Seen {
                sent_in: last.saturating_sub(first),
                took: None,
                lost: None,
            });
        };
        let lost = train.count.saturating_sub(count);
        Ok(Seen {
            sent_in: last.saturating_sub(first),
            took: Some(at.saturating_sub(first).saturating_sub(held)),
            // Those that did not go are none of the line's.
            lost: self.serves().then_some(lost.max(lacking)),
        })
    }

    fn down(&mut self, train: &Train) -> Result<Seen, Failed> {
        let asked = clock::realtime();
        self.say(Says::Send(train.clone()));
        let heard = self.hear(PATIENCE + 4 * (train.spread + train.pause))?;
        let Some((
            Came::Marker {
                at,
                held,
                sent_in,
                count,
            },
            filling,
        )) = heard
        else {
            return Ok(Seen {
                sent_in: Duration::ZERO,
                took: None,
                lost: None,
            });
        };
        Ok(Seen {
            sent_in,
            took: Some(at.saturating_sub(asked).saturating_sub(held)),
            lost: Some(train.count.saturating_sub(filling.min(count))),
        })
    }

    /// Sends a message. What does not go is not answered.
    fn say(&self, says: Says) {
        match &self.far {
            Far::Serves { session, .. } => {
                let m = Message {
                    session: *session,
                    seq: self.seq,
                    says,
                };
                trains::once(&self.socket, None, &m.emit());
            }
            Far::Echoes {
                socket,
                v6,
                session,
            } => {
                let probe = Probe {
                    session: *session,
                    seq: self.seq,
                    server_rx: Duration::ZERO,
                    server_tx: Duration::ZERO,
                };
                trains::once(socket, None, &probe.emit_echo(*v6));
            }
        }
    }

    /// Waits for the marker with our number; with it the number of packets that came before.
    fn hear(&mut self, patience: Duration) -> Result<Option<(Came, u32)>, Failed> {
        let until = clock::monotonic() + patience;
        self.timer.set(until)?;
        let mut ready = Vec::new();
        let mut filling = 0;
        loop {
            while let Some(came) = self.next()? {
                match came {
                    Came::Filling => filling += 1,
                    marker @ Came::Marker { .. } => return Ok(Some((marker, filling))),
                }
            }
            if clock::monotonic() >= until {
                return Ok(None);
            }
            self.poller.wait(&mut ready)?;
            if ready.iter().any(|r| r.token == TIMER) {
                self.timer.clear();
            }
        }
    }

    /// What came next; markers with other numbers are of earlier trains.
    fn next(&mut self) -> Result<Option<Came>, Failed> {
        let mut b = [0; 2048];
        let socket = match &self.far {
            Far::Serves { .. } => &self.socket,
            Far::Echoes { socket, .. } => socket,
        };
        while let Some(notice) = socket.notice()? {
            let _ = notice;
        }
        while let Some(r) = socket.receive(&mut b)? {
            let at = r.at.unwrap_or_else(clock::realtime);
            let bytes = &b[..r.len];
            match &self.far {
                Far::Serves { session, .. } => match Message::parse(bytes) {
                    Some(Message {
                        session: s,
                        seq,
                        says:
                            Says::Marker {
                                held,
                                sent_in,
                                count,
                            },
                    }) => {
                        if s == *session && seq == self.seq {
                            return Ok(Some(Came::Marker {
                                at,
                                held,
                                sent_in,
                                count,
                            }));
                        }
                    }
                    _ => return Ok(Some(Came::Filling)),
                },
                Far::Echoes { v6, session, .. } => {
                    let ours = Probe::parse_echo(bytes, *v6);
                    if ours.is_some_and(|p| p.session == *session && p.seq == self.seq) {
                        let (held, sent_in) = (Duration::ZERO, Duration::ZERO);
                        return Ok(Some(Came::Marker {
                            at,
                            held,
                            sent_in,
                            count: 0,
                        }));
                    }
                }
            }
        }
        Ok(None)
    }

    /// What is left of the train before.
    fn drain(&mut self) -> Result<(), Failed> {
        let mut b = [0; 2048];
        while self.socket.receive(&mut b)?.is_some() {}
        while self.socket.notice()?.is_some() {}
        Ok(())
    }
}
