//! A loop after cake-autorate: CAKE whose rates follow load and delay, between rates that were
//! typed in.
//!
//! Written from its description (its guide and the comments of its `defaults.sh`), with the
//! defaults that stand there: reflectors are pinged in turn at 20 Hz; a direction is congested if
//! in 3 of the last 6 answers half the round trip lies more than 30 ms over a slow baseline, and
//! is then cut by 1 to 25 %; at more than 75 % of its rate it is raised by up to 4 % each 200 ms;
//! else it goes back to its base rate by 1 % a second.
//!
//! Principles: the control is pure and separate from the thread that pings; nothing is tuned
//! here. Non-goals: what has no effect within a run of minutes on hosts that answer (sleeping
//! while idle, exchanging reflectors, stalls), one-way times (its default pinger has none).

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_core::Rate;
use evenkeel_core::result::LineFacts;
use evenkeel_core::tc::{Op, Qdisc, QdiscSpec};
use evenkeel_kernel::Session;
use evenkeel_measure::packet::{LEN, Probe};
use evenkeel_sys::clock;
use evenkeel_sys::poll::{Interest, Poller, Timer, Waker};
use evenkeel_sys::stamp::StampedSocket;
use evenkeel_wire::packet::Ip;

use super::parts::IFB;
use crate::{ShaperError, Site};

/// Six pingers every 0.3 s (`no_pingers`, `reflector_ping_interval_s`).
const PING: Duration = Duration::from_millis(50);
/// `monitor_achieved_rates_interval_ms`.
const MONITOR: Duration = Duration::from_millis(200);
/// `high_load_thr`.
const HIGH: f64 = 0.75;
/// `dl_owd_delta_delay_thr_ms`, and the average from which on a cut is largest
/// (`dl_avg_owd_delta_max_adjust_down_thr_ms`) or up to which a raise is
/// (`dl_avg_owd_delta_max_adjust_up_thr_ms`); the same for the upload. ms.
const LATE: f64 = 30.0;
const LATEST: f64 = 60.0;
const EARLY: f64 = 10.0;
/// `bufferbloat_detection_window` and `bufferbloat_detection_thr`.
const WINDOW: usize = 6;
const ENOUGH: usize = 3;
/// `alpha_baseline_increase`, `alpha_baseline_decrease`.
const RISES: f64 = 0.001;
const FALLS: f64 = 0.9;
/// Where baselines begin, ms.
const BASELINE: f64 = 100.0;
/// `shaper_rate_min_adjust_down_bufferbloat`, `..._max_...`.
const CUT: (f64, f64) = (0.99, 0.75);
/// `shaper_rate_min_adjust_up_load_high`, `..._max_...`.
const RAISE: (f64, f64) = (1.0, 1.04);
/// `shaper_rate_adjust_down_load_low`, `..._up_load_low`.
const BACK: (f64, f64) = (0.99, 1.01);
/// `bufferbloat_refractory_period_ms`, `decay_refractory_period_ms`.
const AFTER_CUT: Duration = Duration::from_millis(300);
const AFTER_DECAY: Duration = Duration::from_secs(1);
/// ICMP type.
const ECHO_REPLY: u8 = 0;
/// Bits of a packet on the wire, whose time is added to the threshold.
const PACKET: f64 = 1500.0 * 8.0;

/// What is typed in for one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Told {
    pub(super) min: Rate,
    pub(super) base: Rate,
    pub(super) max: Rate,
}

impl Told {
    /// Towards us and from us: of the rate that the line is sold as 95 %, which is what CAKE's
    /// users type, and 10 %; at most 95 % of what the line carries at its best.
    pub(super) fn of(line: &LineFacts) -> [Told; 2] {
        let [down, up] = line.best.unwrap_or([line.down, line.up]);
        [(line.down, down), (line.up, up)].map(|(sold, best)| Told {
            min: sold.permille(100),
            base: sold.permille(950),
            max: best.max(sold).permille(950),
        })
    }
}

/// One direction.
#[derive(Debug)]
struct DirectionState {
    told: Told,
    /// bit/s.
    rate: f64,
    achieved: f64,
    /// A rate was measured since the last raise.
    news: bool,
    /// How far the last answers lay over the baseline, ms, and whether that was late.
    deltas: VecDeque<(f64, bool)>,
    cut: Duration,
    decayed: Duration,
}

impl DirectionState {
    fn new(told: Told) -> Self {
        DirectionState {
            told,
            rate: told.base.bps() as f64,
            achieved: 0.0,
            news: false,
            deltas: VecDeque::new(),
            cut: Duration::ZERO,
            decayed: Duration::ZERO,
        }
    }

    /// An answer that was `delta` ms over its baseline.
    fn answered(&mut self, delta: f64, now: Duration) {
        let packet = PACKET * 1e3 / self.rate;
        if self.deltas.len() == WINDOW {
            self.deltas.pop_front();
        }
        self.deltas.push_back((delta, delta > LATE + packet));
        let mean = self.deltas.iter().map(|d| d.0).sum::<f64>() / self.deltas.len() as f64;
        let late = self.deltas.iter().filter(|d| d.1).count() >= ENOUGH;
        let high = self.achieved > HIGH * self.rate;
        let base = self.told.base.bps() as f64;
        // From `a` at `from` to `b` at `to`.
        let between = |(a, b): (f64, f64), from: f64, to: f64| {
            a + (b - a) * ((mean - from) / (to - from)).clamp(0.0, 1.0)
        };
        let rested = now >= self.cut + AFTER_CUT;
        if late {
            if rested {
                self.rate *= between(CUT, LATE, LATEST);
                self.cut = now;
            }
        } else if high {
            if rested && std::mem::take(&mut self.news) {
                self.rate *= between((RAISE.1, RAISE.0), EARLY, LATE);
            }
        } else if now >= self.decayed + AFTER_DECAY {
            self.decayed = now;
            self.rate = if self.rate > base {
                (self.rate * BACK.0).max(base)
            } else {
                (self.rate * BACK.1).min(base)
            };
        }
        let bounds = (self.told.min.bps() as f64, self.told.max.bps() as f64);
        self.rate = self.rate.clamp(bounds.0, bounds.1);
    }
}

/// The loop, without clock and sockets.
#[derive(Debug)]
struct Control {
    directions: [DirectionState; 2],
    /// Half a round trip to each reflector, ms.
    baselines: Vec<f64>,
}

impl Control {
    fn new(told: [Told; 2], reflectors: usize) -> Self {
        Control {
            directions: told.map(DirectionState::new),
            baselines: vec![BASELINE; reflectors],
        }
    }

    /// What passed per second towards us and from us, bit/s.
    fn passed(&mut self, achieved: [f64; 2]) {
        for (way, achieved) in self.directions.iter_mut().zip(achieved) {
            way.achieved = achieved;
            way.news = true;
        }
    }

    /// An answer of a reflector after `rtt`.
    fn answered(&mut self, reflector: usize, rtt: Duration, now: Duration) {
        let half = rtt.as_secs_f64() * 500.0;
        let Some(baseline) = self.baselines.get_mut(reflector) else {
            return;
        };
        let share = if half >= *baseline { RISES } else { FALLS };
        *baseline += share * (half - *baseline);
        let delta = half - *baseline;
        for way in &mut self.directions {
            way.answered(delta, now);
        }
    }

    fn rates(&self) -> [Rate; 2] {
        [0, 1].map(|i| Rate::from_kbit((self.directions[i].rate / 1e3) as u64))
    }
}

/// The loop at work.
#[derive(Debug)]
pub(super) struct Running {
    stop: Arc<Waker>,
    thread: Option<JoinHandle<Result<(), ShaperError>>>,
}

impl Running {
    /// Changes the disciplines of `made`, on a thread in the caller's namespace.
    pub(super) fn start(site: &Site, made: &[Op]) -> Result<Self, ShaperError> {
        let stop = Arc::new(Waker::new()?);
        let of = |device: &str| {
            made.iter().find_map(|op| match op {
                Op::QdiscAdd(spec) if spec.dev == device.into() => Some(spec.clone()),
                _ => None,
            })
        };
        let (Some(down), Some(up)) = (of(IFB), of(&site.wan)) else {
            return Err("there is no discipline to change".into());
        };
        let mut follower = Follower::new(site, [down, up], Arc::clone(&stop))?;
        let thread = std::thread::Builder::new()
            .name("autorate".into())
            .spawn(move || follower.follow())?;
        Ok(Running {
            stop,
            thread: Some(thread),
        })
    }

    /// Waits for its end.
    pub(super) fn stop(mut self) -> Result<(), ShaperError> {
        self.stop.wake();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(done)) => done,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.wake();
    }
}

/// What the thread has.
struct Follower {
    stop: Arc<Waker>,
    control: Control,
    session: Session,
    device: u32,
    disciplines: [QdiscSpec; 2],
    /// In force.
    rates: [Rate; 2],
    socket: StampedSocket,
    session_id: u32,
    reflectors: Vec<IpAddr>,
    /// When each probe was sent, wall clock.
    sent: Vec<Duration>,
    /// Bytes so far, and when.
    counted: Option<(Duration, [u64; 2])>,
}

impl Follower {
    fn new(
        site: &Site,
        disciplines: [QdiscSpec; 2],
        stop: Arc<Waker>,
    ) -> Result<Self, ShaperError> {
        let told = Told::of(&site.line);
        let mut session = Session::open()?;
        let link = session.link(&site.wan)?;
        let any = IpAddr::from([0, 0, 0, 0]);
        Ok(Follower {
            stop,
            control: Control::new(told, site.far.len()),
            session,
            device: link.ok_or("the device has gone")?.index,
            disciplines,
            rates: told.map(|t| t.base),
            // Not an echo socket, which wants a group that a fresh namespace does not have.
            socket: StampedSocket::raw_icmp(any, &[ECHO_REPLY])?,
            session_id: clock::realtime().as_nanos() as u32,
            reflectors: site.far.clone(),
            sent: Vec::new(),
            counted: None,
        })
    }

    fn follow(&mut self) -> Result<(), ShaperError> {
        const STOP: u64 = 0;
        const BEAT: u64 = 1;
        const SOCKET: u64 = 2;
        let poller = Poller::new()?;
        let beat = Timer::new()?;
        beat.every(clock::monotonic(), PING)?;
        poller.add(&*self.stop, STOP, Interest::Read)?;
        poller.add(&beat, BEAT, Interest::Read)?;
        poller.add(&self.socket, SOCKET, Interest::Read)?;
        let mut ready = Vec::new();
        let mut monitored = Duration::ZERO;
        loop {
            poller.wait(&mut ready)?;
            for r in &ready {
                match r.token {
                    STOP => return Ok(()),
                    BEAT => {
                        beat.clear();
                        let now = clock::monotonic();
                        if now >= monitored + MONITOR {
                            monitored = now;
                            self.monitor(now)?;
                        }
                        self.ping();
                    }
                    _ => self.hear()?,
                }
            }
            self.set()?;
        }
    }

    /// Asks the next reflector.
    fn ping(&mut self) {
        let number = self.sent.len();
        self.sent.push(clock::realtime());
        if self.reflectors.is_empty() {
            return;
        }
        let probe = Probe {
            session: self.session_id,
            seq: number as u32,
            server_rx: Duration::ZERO,
            server_tx: Duration::ZERO,
        };
        let reflector = self.reflectors[number % self.reflectors.len()];
        // One that cannot be sent is not answered.
        let _ = self
            .socket
            .send_to(&probe.emit_echo(false), (reflector, 0).into());
    }

    fn hear(&mut self) -> Result<(), ShaperError> {
        // Stamps of what was sent: its own pinger has none.
        while self.socket.notice()?.is_some() {}
        let mut buffer = [0; 2 * LEN];
        while let Some(r) = self.socket.receive(&mut buffer)? {
            let bytes = buffer.get(..r.len).unwrap_or_default();
            let reply = Ip::parse(bytes).ok();
            let Some(probe) = reply.and_then(|ip| Probe::parse_echo(ip.payload(), false)) else {
                continue;
            };
            let number = probe.seq as usize;
            if let Some(sent) = self.sent.get(number)
                && probe.session == self.session_id
            {
                let came = r.at.unwrap_or_else(clock::realtime);
                let reflector = number % self.reflectors.len().max(1);
                let rtt = came.saturating_sub(*sent);
                self.control.answered(reflector, rtt, clock::monotonic());
            }
        }
        Ok(())
    }

    /// Reads what passed.
    fn monitor(&mut self, now: Duration) -> Result<(), ShaperError> {
        let c = self.session.counters(self.device)?;
        let bytes = [c.rx_bytes, c.tx_bytes];
        if let Some((then, before)) = self.counted.replace((now, bytes)) {
            let took = now.saturating_sub(then).as_secs_f64().max(1e-3);
            let passed = [0, 1].map(|i| (bytes[i].wrapping_sub(before[i]) * 8) as f64 / took);
            self.control.passed(passed);
        }
        Ok(())
    }

    /// Changes what is to be changed.
    fn set(&mut self) -> Result<(), ShaperError> {
        for (i, rate) in self.control.rates().into_iter().enumerate() {
            let spec = &mut self.disciplines[i];
            if let Qdisc::Cake(cake) = &mut spec.qdisc
                && self.rates[i] != rate
            {
                cake.bandwidth = Some(rate);
                self.session.apply(&Op::QdiscChange(spec.clone()))?;
                self.rates[i] = rate;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(min: u64, base: u64, max: u64) -> Told {
        let [min, base, max] = [min, base, max].map(|m| Rate::from_kbit(m * 1000));
        Told { min, base, max }
    }

    /// Seconds until the rate towards us passes `until`, with answers of `rtt` ms 20 times a
    /// second and the line used to the full, or not at all.
    fn takes(control: &mut Control, rtt: u64, full: bool, until: impl Fn(f64) -> bool) -> f64 {
        let begun = 1000;
        for n in 0..10_000u64 {
            let now = Duration::from_secs(begun) + PING * n as u32;
            let rate = control.directions[0].rate;
            if until(rate / 1e6) {
                return n as f64 * PING.as_secs_f64();
            }
            if n % 4 == 0 {
                control.passed([if full { rate } else { 0.0 }; 2]);
            }
            control.answered(0, Duration::from_millis(rtt), now);
        }
        panic!("never");
    }

    #[test]
    fn it_is_as_fast_as_described() {
        let mut control = Control::new([told(5, 20, 80); 2], 1);
        control.answered(0, Duration::from_millis(20), Duration::ZERO);
        control.answered(0, Duration::from_millis(20), Duration::ZERO);
        // 35 steps of 4 % each 200 ms.
        let up = takes(&mut control, 20, true, |r| r > 79.9);
        assert!((6.8..7.4).contains(&up), "{up}");
        // +60 ms of round trip is tolerated for ever.
        let before = control.directions[0].rate;
        takes(&mut control, 20, true, |_| true);
        for n in 0..200 {
            control.answered(0, Duration::from_millis(75), Duration::from_secs(2000 + n));
        }
        assert!(control.directions[0].rate >= before * 0.99);
        // Beyond, five cuts by a quarter, 300 ms apart.
        let down = takes(&mut control, 250, true, |r| r < 20.0);
        assert!((1.2..2.0).contains(&down), "{down}");
        assert!((control.directions[1].rate / control.directions[0].rate - 1.0).abs() < 0.01);
    }

    #[test]
    fn without_load_it_goes_back_to_the_base_rate() {
        let mut control = Control::new([told(5, 20, 80); 2], 1);
        control.directions[0].rate = 40e6;
        let back = takes(&mut control, 20, false, |r| r <= 20.0);
        assert!((60.0..75.0).contains(&back), "{back}");
        let floor = Control::new([told(5, 20, 80); 2], 1);
        let mut control = floor;
        takes(&mut control, 10, false, |_| true);
        let least = takes(&mut control, 2000, true, |r| r <= 5.0);
        assert!(least < 4.0, "{least}");
    }
}
