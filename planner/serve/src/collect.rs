//! Receives flow records from the network and collects them while the service runs.
//!
//! The threads that receive datagrams decode them, one at a time. Meanwhile the kernel keeps
//! further datagrams in the socket's buffer. What it drops shows as lost by the sequence numbers of
//! messages.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_plan::flows::collector::Trouble;
use forebay_plan::flows::relayed::Relay;
use forebay_plan::flows::time::Window;
use forebay_plan::flows::{Collector, Grain, Report, report};
use forebay_plan::network::Demand;
use socket2::{Domain, Protocol, Socket, Type};

use crate::clock;
use crate::config::Flows;
use crate::inputs::Fixed;
use crate::kafka::Feed;
use crate::learn::{Learning, NotLearned};

/// The socket buffer that is requested: a second of 10 000 full datagrams, in bytes.
const BUFFER: usize = 16 << 20;
/// The interval at which a thread checks whether it should stop.
const RETRY: Duration = Duration::from_millis(200);
/// The number of bins of a window.
const BINS: i64 = 60;

/// Why flow records give no demands yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotMeasured {
    /// The window began before the collection.
    #[error(
        "there are usable flow records of {0} s, but the window and its delay are {1} s: wait until then"
    )]
    Early(i64, i64),
    /// Relayed flow records are missing, so demands would be too low.
    #[error("not all flow records of the window were read from Kafka: {0}")]
    Behind(String),
    /// Routes are missing, so flows of some users are not known to be theirs.
    #[error(transparent)]
    NotLearned(#[from] NotLearned),
    /// An exporter is silent, so demands would be too low.
    #[error(
        "{first} sent no flow records in the whole window ({all} exporters did not), so demands \
         would be too low: check it, or set `optional = true` in the table of exporters"
    )]
    Silent {
        /// The address of one of the silent exporters.
        first: IpAddr,
        /// The number of silent exporters.
        all: usize,
    },
}

/// The collected records, and the window over which they become demands.
#[derive(Debug)]
pub struct Collecting {
    collector: Mutex<Collector>,
    learning: Option<Arc<Learning>>,
    feed: Option<Arc<Feed>>,
    started: i64,
    /// The times of this struct are in milliseconds.
    width: i64,
    window: i64,
    delay: i64,
}

impl Collecting {
    /// Starts collecting at `now`, if `fixed` has exporters. With `learning`, its routes tell where
    /// flows leave the network. With `feed`, records are read from Kafka too.
    pub(crate) fn new(
        flows: &Flows,
        fixed: &Fixed,
        learning: Option<Arc<Learning>>,
        feed: Option<Arc<Feed>>,
        now: i64,
    ) -> Option<Self> {
        let table = fixed.exporters.clone()?;
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let (window, delay) = (millis(flows.window), millis(flows.delay));
        let width = (window / BINS).max(1);
        let mut collector = match &learning {
            Some(learning) => Collector::with_routes(
                table,
                learning.users(),
                &fixed.file.providers,
                &fixed.file.asns,
                &fixed.topology,
            ),
            None => Collector::new(table, &fixed.prefixes, Grain::Router),
        };
        // The bins reach back to the start of the oldest window, and one is for the present.
        let bins = (window + delay) / width + 3;
        collector.begin(now - (bins - 1) * width, width, usize::try_from(bins).unwrap_or(1));
        let collector = Mutex::new(collector);
        Some(Self { collector, learning, feed, started: now, width, window, delay })
    }

    fn collector(&self) -> MutexGuard<'_, Collector> {
        // After a panic the sums may lack a flow, but are consistent.
        self.collector.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time until there may be demands.
    pub(crate) fn first(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.window + self.delay + self.width).unwrap_or(0))
    }

    /// Takes a datagram.
    pub(crate) fn take(&self, from: IpAddr, octets: &[u8], now: i64) {
        let mut collector = self.collector();
        collector.advance(now + self.width);
        collector.datagram(from, octets, now, &mut |trouble| {
            let Trouble { at, what } = trouble;
            tracing::debug!("datagram from {from}, at octet {at}: {what}");
        });
    }

    /// Takes messages that `relay` wrote, and which were read at `now`.
    #[cfg_attr(not(feature = "kafka"), allow(dead_code, reason = "Kafka has the only caller"))]
    pub(crate) fn relayed(&self, relay: Relay, messages: &[Vec<u8>], now: i64) {
        let mut collector = self.collector();
        collector.advance(now + self.width);
        for message in messages {
            collector.relayed(relay, message, &mut |trouble| {
                let Trouble { at, what } = trouble;
                tracing::debug!("relayed by {}, at octet {at}: {what}", relay.name());
            });
        }
    }

    /// Returns what was read from Kafka, if records are.
    pub(crate) fn feed(&self) -> Option<&Arc<Feed>> {
        self.feed.as_ref()
    }

    /// Returns the demands of the last window.
    ///
    /// # Errors
    /// If they would be lower than the traffic.
    pub(crate) fn demands(&self, now: i64) -> Result<Vec<Demand>, NotMeasured> {
        let mut collector = self.collector();
        collector.advance(now + self.width);
        let window = collector.last(now - self.delay, self.window);
        let mut started = self.started;
        if let Some(learning) = &self.learning {
            // Flows that came before the routes were counted for no users.
            started = started.max(i64::try_from(learning.ready()?).unwrap_or(i64::MAX));
        }
        if window.begin < started {
            let whole = (self.window + self.delay + self.width) / 1000;
            return Err(NotMeasured::Early((now - started) / 1000, whole));
        }
        if let Some(why) = self.feed.as_ref().and_then(|feed| feed.behind(window.end)) {
            return Err(NotMeasured::Behind(why));
        }
        let silent = collector.silent(window.begin);
        if let Some(first) = silent.first() {
            return Err(NotMeasured::Silent { first: *first, all: silent.len() });
        }
        Ok(report::demands(&collector.demands(window)))
    }

    /// Returns a report with the demands of the last window, and all counts since the start.
    pub(crate) fn report(&self, fixed: &Fixed, now: i64) -> Report {
        let mut collector = self.collector();
        collector.advance(now + self.width);
        let window = collector.last(now - self.delay, self.window);
        let counted = Window { begin: self.started, end: now };
        Report::new(&collector, window, counted, &fixed.file.providers, &fixed.topology)
    }
}

/// Returns sockets at all of `addresses`. IPv6 sockets do not take IPv4, so that both families can
/// have the same port.
///
/// # Errors
/// If an address cannot be used: the address and the cause.
pub fn bind(addresses: &[SocketAddr]) -> Result<Vec<UdpSocket>, (SocketAddr, io::Error)> {
    let open = |address: &SocketAddr| {
        let open = || {
            let socket =
                Socket::new(Domain::for_address(*address), Type::DGRAM, Some(Protocol::UDP))?;
            if address.is_ipv6() {
                socket.set_only_v6(true)?;
            }
            // The system limits the buffer.
            let _ = socket.set_recv_buffer_size(BUFFER);
            socket.set_read_timeout(Some(RETRY))?;
            socket.bind(&(*address).into())?;
            Ok(socket.into())
        };
        open().map_err(|e| (*address, e))
    };
    addresses.iter().map(open).collect()
}

/// Receives from `socket` until `stop` is set. Calls `take` with each datagram, its sender, and its
/// time of arrival in milliseconds since 1970.
pub fn receive(socket: &UdpSocket, stop: &AtomicBool, take: &(dyn Fn(IpAddr, &[u8], i64) + Sync)) {
    // The largest datagram has this size.
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
                    tracing::warn!("cannot receive flow records: {e}");
                    std::thread::sleep(RETRY);
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
        let prefixes = Arc::new(prefixes);
        let exporters = Some(exporters);
        Fixed { topology, file, prefixes, next_hops: None, exporters, reserve: 0.0 }
    }

    /// Returns an IPFIX message with a flow of this many octets; times are seconds since 1970.
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
        let collecting = Collecting::new(&flows, &fixed, None, None, BEGIN).unwrap();
        assert_eq!(collecting.first(), Duration::from_secs(91));
        let at = |seconds: i64| BEGIN + seconds * 1000;
        assert_eq!(collecting.demands(at(50)), Err(NotMeasured::Early(50, 91)));
        let [one, two] = ["192.0.2.1", "192.0.2.2"].map(|a| a.parse().unwrap());
        // 8 kbit/s from start to end, reported every half a minute; the other exporter reports an
        // unknown interface.
        for seconds in [30, 60, 90, 120, 150, 180] {
            collecting.take(one, &message(30_000, at(seconds - 30), at(seconds)), at(seconds));
        }
        assert_eq!(
            collecting.demands(at(180)),
            Err(NotMeasured::Silent { first: two, all: 1 }),
            "demands that may be too low are not used"
        );
        collecting.take(two, &message(30_000, at(0), at(1)), at(180));
        let demands = collecting.demands(at(180)).unwrap();
        assert_eq!((demands.len(), demands[0].rate.as_bps()), (1, 8000));
        // Later the last half a minute is missing, and then all of it. That the other exporter is
        // silent by then is expected.
        let report = collecting.report(&fixed, at(240));
        assert_eq!(report.demands[0].demand, 4000.0);
        assert!(collecting.report(&fixed, at(600)).demands.is_empty());
        assert!(matches!(collecting.demands(at(600)), Err(NotMeasured::Silent { all: 2, .. })));
    }

    #[test]
    fn demands_wait_until_kafka_is_read() {
        let (window, delay) = (Duration::from_secs(60), Duration::from_secs(30));
        let flows = Flows { listen: Vec::new(), window, delay };
        let feed = Arc::new(Feed::default());
        feed.begin(&[(0, 0)].into(), BEGIN);
        let collecting =
            Collecting::new(&flows, &fixed(), None, Some(Arc::clone(&feed)), BEGIN).unwrap();
        let at = |seconds: i64| BEGIN + seconds * 1000;
        for address in ["192.0.2.1", "192.0.2.2"] {
            collecting.take(address.parse().unwrap(), &message(1, at(60), at(90)), at(90));
        }
        let asked = at(60);
        feed.batch(0, &crate::kafka::Batch { asked, ..Default::default() });
        let why = collecting.demands(at(100)).unwrap_err();
        let NotMeasured::Behind(text) = &why else { panic!("{why}") };
        assert_eq!(text, "partition 0 is 10 s behind with 0 messages");
        feed.batch(0, &crate::kafka::Batch { asked: at(70), ..Default::default() });
        assert!(collecting.demands(at(100)).is_ok());
    }

    #[test]
    fn without_exporters_nothing_is_collected() {
        let fixed = Fixed { exporters: None, ..fixed() };
        let time = Duration::from_secs(1);
        let flows = Flows { listen: Vec::new(), window: time, delay: time };
        assert!(Collecting::new(&flows, &fixed, None, None, BEGIN).is_none());
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
