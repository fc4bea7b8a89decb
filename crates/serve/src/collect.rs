//! Flow records off the network: sockets, and what is collected of them while the service runs.
//!
//! Datagrams are decoded by the threads that receive them, one at a time. The kernel keeps what comes meanwhile, as far as its
//! buffer goes; what it drops shows as lost by the messages' numbers.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_plan::flows::collector::Trouble;
use forebay_plan::flows::time::Window;
use forebay_plan::flows::{Collector, Grain, Report, report};
use forebay_plan::network::Demand;
use socket2::{Domain, Protocol, Socket, Type};

use crate::clock;
use crate::config::Flows;
use crate::inputs::Fixed;

/// What the kernel is asked to keep of each socket: a second of 10 000 full datagrams.
const BUFFER: usize = 16 << 20;
/// How often a thread looks whether it should end.
const LOOK: Duration = Duration::from_millis(200);
/// A window is made of so many bins.
const BINS: i64 = 60;

/// Why there are no demands of flow records yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotMeasured {
    /// The window began before anything was collected.
    #[error(
        "flow records are there for {0} s, and the window and its delay are {1} s: wait for that"
    )]
    Early(i64, i64),
    /// An exporter is silent, so that demands would be too low.
    #[error(
        "{first} sent no flow records in the whole window ({all} exporters did not), so demands would be too low: look \
         after it, or say `optional = true` in the table of exporters"
    )]
    Silent {
        /// One of them.
        first: IpAddr,
        /// How many they are.
        all: usize,
    },
}

/// What is collected, and by which window it becomes demands.
#[derive(Debug)]
pub struct Collecting {
    collector: Mutex<Collector>,
    started: i64,
    /// In milliseconds, as all here.
    width: i64,
    window: i64,
    delay: i64,
}

impl Collecting {
    /// Begins at `now`, if `fixed` has exporters.
    pub(crate) fn new(flows: &Flows, fixed: &Fixed, now: i64) -> Option<Self> {
        let table = fixed.exporters.clone()?;
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let (window, delay) = (millis(flows.window), millis(flows.delay));
        let width = (window / BINS).max(1);
        let mut collector = Collector::new(table, &fixed.prefixes, Grain::Router);
        // As far back as a window may begin, and one bin for what is going on.
        let bins = (window + delay) / width + 3;
        collector.begin(now - (bins - 1) * width, width, usize::try_from(bins).unwrap_or(1));
        Some(Self { collector: Mutex::new(collector), started: now, width, window, delay })
    }

    fn collector(&self) -> MutexGuard<'_, Collector> {
        // A panic leaves sums that lack a flow at most.
        self.collector.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long it takes until there may be demands.
    pub(crate) fn first(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.window + self.delay + self.width).unwrap_or(0))
    }

    /// Takes a datagram.
    pub(crate) fn take(&self, from: IpAddr, octets: &[u8], now: i64) {
        let mut collector = self.collector();
        collector.advance(now + self.width);
        collector.datagram(from, octets, now, &mut |trouble| {
            let Trouble { at, what } = trouble;
            tracing::debug!("a datagram from {from}, at octet {at}: {what}");
        });
    }

    /// The demands of the last window.
    ///
    /// # Errors
    /// If they would not be what is sent.
    pub(crate) fn demands(&self, now: i64) -> Result<Vec<Demand>, NotMeasured> {
        let mut collector = self.collector();
        collector.advance(now + self.width);
        let window = collector.last(now - self.delay, self.window);
        if window.begin < self.started {
            let whole = (self.window + self.delay + self.width) / 1000;
            return Err(NotMeasured::Early((now - self.started) / 1000, whole));
        }
        let silent = collector.silent(window.begin);
        if let Some(first) = silent.first() {
            return Err(NotMeasured::Silent { first: *first, all: silent.len() });
        }
        Ok(report::demands(&collector.demands(window)))
    }

    /// What was collected: demands of the last window, and all counts since the start.
    pub(crate) fn report(&self, fixed: &Fixed, now: i64) -> Report {
        let mut collector = self.collector();
        collector.advance(now + self.width);
        let window = collector.last(now - self.delay, self.window);
        let counted = Window { begin: self.started, end: now };
        Report::new(&collector, window, counted, &fixed.file.providers, &fixed.topology)
    }
}

/// Sockets at all of `addresses`. Those of IPv6 are for IPv6 only, so that both families can have the same port.
///
/// # Errors
/// If one cannot be: the address, and why.
pub fn bind(addresses: &[SocketAddr]) -> Result<Vec<UdpSocket>, (SocketAddr, io::Error)> {
    let open = |address: &SocketAddr| {
        let open = || {
            let socket =
                Socket::new(Domain::for_address(*address), Type::DGRAM, Some(Protocol::UDP))?;
            if address.is_ipv6() {
                socket.set_only_v6(true)?;
            }
            // As much as the system allows.
            let _ = socket.set_recv_buffer_size(BUFFER);
            socket.set_read_timeout(Some(LOOK))?;
            socket.bind(&(*address).into())?;
            Ok(socket.into())
        };
        open().map_err(|e| (*address, e))
    };
    addresses.iter().map(open).collect()
}

/// Receives from `socket` until it is to stop. `take` is called with each datagram, who sent it, and when it came, in
/// milliseconds since 1970.
pub fn receive(socket: &UdpSocket, stop: &AtomicBool, take: &(dyn Fn(IpAddr, &[u8], i64) + Sync)) {
    // As large as a datagram can be.
    let mut octets = vec![0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        match socket.recv_from(&mut octets) {
            Ok((length, from)) => {
                let now = i64::try_from(clock::now()).unwrap_or(i64::MAX);
                take(from.ip(), &octets[..length], now);
            }
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => {}
                _ => {
                    tracing::warn!("receiving flow records: {e}");
                    std::thread::sleep(LOOK);
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_plan::input;

    use super::*;

    const BEGIN: i64 = 1_795_352_400_000;

    fn fixed() -> Fixed {
        let text = r#"{"directed": false, "nodes": [{"id": 0, "label": "in"}, {"id": 1, "label": "out"}],
            "links": [{"source": 0, "target": 1}]}"#;
        let topology = input::topology("t.json".as_ref(), text).unwrap();
        let text = "[[provider]]\nname = \"video\"\nentry = [{ router = \"in\" }]\n";
        let file = input::providers("p".as_ref(), text, &topology).unwrap();
        let prefixes =
            input::prefixes("x".as_ref(), "prefix,router\n10.0.0.0/8,out\n", &topology).unwrap();
        let text = "[[exporter]]\naddress = \"192.0.2.1\"\ninterface = [{ index = 1, provider = \"video\" }]\n\
                    [[exporter]]\naddress = \"192.0.2.2\"\n";
        let exporters = input::exporters("e".as_ref(), text, &file.providers, &topology).unwrap();
        Fixed { topology, file, prefixes, exporters: Some(exporters) }
    }

    /// An IPFIX message with a flow of so many octets, in seconds since 1970.
    fn message(octets: u32, start: i64, end: i64) -> Vec<u8> {
        #[rustfmt::skip]
        let mut message = vec![
            0, 10,  0, 16 + 28 + 24,  0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,
            0, 2,  0, 28,  1, 0,  0, 5,  0, 1, 0, 4,  0, 10, 0, 4,  0, 12, 0, 4,  0, 150, 0, 4,  0, 151, 0, 4,
            1, 0,  0, 24,
        ];
        message.extend([&octets.to_be_bytes()[..], &[0, 0, 0, 1, 10, 0, 0, 1]].concat());
        for at in [start, end] {
            message.extend(u32::try_from(at / 1000).unwrap().to_be_bytes());
        }
        message
    }

    #[test]
    fn demands_on_a_driven_clock() {
        let fixed = fixed();
        let (window, delay) = (Duration::from_secs(60), Duration::from_secs(30));
        let flows = Flows { listen: Vec::new(), window, delay };
        let collecting = Collecting::new(&flows, &fixed, BEGIN).unwrap();
        assert_eq!(collecting.first(), Duration::from_secs(91));
        let at = |seconds: i64| BEGIN + seconds * 1000;
        assert_eq!(collecting.demands(at(50)), Err(NotMeasured::Early(50, 91)));
        let [one, two] = ["192.0.2.1", "192.0.2.2"].map(|a| a.parse().unwrap());
        // 8 kbit/s from begin to end, reported every half a minute, and for nobody's interface by the other.
        for seconds in [30, 60, 90, 120, 150, 180] {
            collecting.take(one, &message(30_000, at(seconds - 30), at(seconds)), at(seconds));
        }
        assert_eq!(
            collecting.demands(at(180)),
            Err(NotMeasured::Silent { first: two, all: 1 }),
            "demands that may be too low are none"
        );
        collecting.take(two, &message(30_000, at(0), at(1)), at(180));
        let demands = collecting.demands(at(180)).unwrap();
        assert_eq!((demands.len(), demands[0].rate.as_bps()), (1, 8000));
        // Later the last half a minute is missing, and then all of it; that the other is silent by then is no matter here.
        let report = collecting.report(&fixed, at(240));
        assert_eq!(report.demands[0].demand, 4000.0);
        assert!(collecting.report(&fixed, at(600)).demands.is_empty());
        assert!(matches!(collecting.demands(at(600)), Err(NotMeasured::Silent { all: 2, .. })));
    }

    #[test]
    fn without_exporters_nothing_is_collected() {
        let fixed = Fixed { exporters: None, ..fixed() };
        let time = Duration::from_secs(1);
        let flows = Flows { listen: Vec::new(), window: time, delay: time };
        assert!(Collecting::new(&flows, &fixed, BEGIN).is_none());
    }

    #[test]
    fn both_families_have_a_port() {
        let sockets = bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let port = sockets[0].local_addr().unwrap().port();
        assert!(bind(&[SocketAddr::new("::".parse().unwrap(), port)]).is_ok());
        assert_eq!(
            bind(&[sockets[0].local_addr().unwrap()]).unwrap_err().1.kind(),
            io::ErrorKind::AddrInUse
        );
    }
}
