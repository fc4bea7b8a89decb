//! The interface for endpoints that a caller writes: protocol stacks with real datagrams.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;

use forebay_queue::Ecn;
use forebay_units::{Bytes, Nanos};

use crate::network::{RouteId, SetupError};

/// The largest number of endpoints, and of pairs of joined endpoints.
const MAX_ENDPOINTS: usize = 1 << 20;
/// The MTU of a path unless [`crate::Simulation::set_mtu`] sets another one.
const ETHERNET_MTU: u16 = 1500;
/// The smallest MTU that IPv4 allows (RFC 791 section 3.2).
const LEAST_MTU: u64 = 68;
/// The largest MTU: with an Ethernet header, a packet's length has 16 bits.
const MAX_MTU: u64 = u16::MAX as u64 - ETHERNET_HEADER as u64;
/// The number of calls of an endpoint at one instant after which it counts as an endless loop. An
/// endpoint that sends at 100 Gbit/s makes this many in a tenth of a second.
const MAX_CALLS: u32 = 1 << 20;

const ETHERNET_HEADER: u16 = 14;
const IPV4_HEADER: u16 = 20;
const IPV6_HEADER: u16 = 40;
const UDP_HEADER: u16 = 8;

/// A protocol stack that sends and receives UDP datagrams in simulated time.
///
/// An endpoint does no I/O and reads no clock. The simulation tells it what arrives and when its
/// timer expires, and asks after each of the two what it sends. A stack with an interface of this
/// kind needs only an adapter; the crate `forebay-sim-quic` has one for `quinn-proto`. Datagrams
/// travel through the links, queues and boxes of the network with their bytes and their ECN field.
///
/// ```
/// use std::net::SocketAddr;
///
/// use forebay_queue::Ecn;
/// use forebay_sim::{Endpoint, LinkConfig, Received, Route, Simulation, Transmit};
/// use forebay_units::Nanos;
///
/// /// Sends one question, and remembers when the answer came.
/// struct Asker {
///     question: Option<SocketAddr>,
///     answered: Option<Nanos>,
/// }
///
/// impl Endpoint for Asker {
///     fn on_datagram(&mut self, now: Nanos, _: Received<'_>) {
///         self.answered = Some(now);
///     }
///     fn poll_transmit(&mut self, _: Nanos, payload: &mut Vec<u8>) -> Option<Transmit> {
///         payload.extend(b"question");
///         Some(Transmit { to: self.question.take()?, ecn: Ecn::NotEct })
///     }
/// }
///
/// /// Sends every datagram back to where it came from.
/// struct Echo(Vec<(SocketAddr, Vec<u8>)>);
///
/// impl Endpoint for Echo {
///     fn on_datagram(&mut self, _: Nanos, datagram: Received<'_>) {
///         self.0.push((datagram.from, datagram.payload.to_vec()));
///     }
///     fn poll_transmit(&mut self, _: Nanos, payload: &mut Vec<u8>) -> Option<Transmit> {
///         let (to, bytes) = self.0.pop()?;
///         payload.extend(bytes);
///         Some(Transmit { to, ecn: Ecn::NotEct })
///     }
/// }
///
/// # fn main() -> Result<(), forebay_sim::SetupError> {
/// let mut sim = Simulation::new(1, ());
/// let (near, far) = ("10.0.0.1:1000".parse().unwrap(), "10.0.0.2:7".parse().unwrap());
/// let asker = sim.add_endpoint(near, Asker { question: Some(far), answered: None })?;
/// let echo = sim.add_endpoint(far, Echo(Vec::new()))?;
/// let delay = Nanos::from_millis(15);
/// let there = sim.add_link(LinkConfig { delay, ..LinkConfig::default() })?;
/// let back = sim.add_link(LinkConfig { delay, ..LinkConfig::default() })?;
/// let (there, back) = (sim.add_route(Route::over(there))?, sim.add_route(Route::over(back))?);
/// sim.join(asker, echo, there, back)?;
/// sim.run_until(Nanos::from_secs(1));
/// assert_eq!(sim.endpoint(asker).answered, Some(Nanos::from_millis(30)));
/// # Ok(())
/// # }
/// ```
pub trait Endpoint: Any {
    /// Handles a datagram that arrived.
    fn on_datagram(&mut self, now: Nanos, datagram: Received<'_>);

    /// Returns the next datagram to send now, whose bytes it appends to `payload`, or `None`.
    ///
    /// The simulation calls this until it returns `None`: at the start, after each datagram that
    /// arrived, after each timer, and after [`crate::Simulation::endpoint_mut`]. `payload` is
    /// empty at the call. Its contents are ignored with `None`.
    fn poll_transmit(&mut self, now: Nanos, payload: &mut Vec<u8>) -> Option<Transmit>;

    /// Returns when to call [`Endpoint::on_timer`]; `None` means never, and a time in the past
    /// means now. By default an endpoint has no timer.
    ///
    /// The simulation asks whenever it has called another method, so the time may change then.
    fn next_timer(&mut self) -> Option<Nanos> {
        None
    }

    /// Handles the expiry of the timer.
    fn on_timer(&mut self, _now: Nanos) {}
}

/// A datagram that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// The address of the sender.
    pub from: SocketAddr,
    /// The ECN field at arrival.
    pub ecn: Ecn,
    /// The UDP payload.
    pub payload: &'a [u8],
}

/// A datagram to send, apart from its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The address of the receiver.
    pub to: SocketAddr,
    /// The ECN field.
    pub ecn: Ecn,
}

/// The number of an endpoint of the type `T`.
pub struct EndpointId<T> {
    pub(crate) index: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> EndpointId<T> {
    pub(crate) fn new(index: u32) -> Self {
        Self { index, of: PhantomData }
    }
}

impl<T> Clone for EndpointId<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for EndpointId<T> {}

impl<T> fmt::Debug for EndpointId<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EndpointId({})", self.index)
    }
}

/// The datagram counters of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Datagrams that it put on a route.
    pub sent: u64,
    /// Datagrams that arrived.
    pub received: u64,
    /// Datagrams to an address that it is not joined with; they are dropped.
    pub no_route: u64,
    /// Datagrams that were longer than the MTU of the path; they are dropped.
    pub too_long: u64,
}

/// An endpoint with what the simulation knows about it.
pub(crate) struct Attached {
    pub(crate) endpoint: Box<dyn Endpoint>,
    pub(crate) address: SocketAddr,
    pub(crate) counters: EndpointCounters,
    /// The time of the earliest pending event.
    pub(crate) awaited: Nanos,
    /// Whether to ask at that event for datagrams even if the timer has not expired.
    pub(crate) woken: bool,
    /// The destination of the latest datagram, and the sending end towards it.
    latest: Option<(SocketAddr, u32)>,
    /// The time of the latest call.
    called: Nanos,
    /// The number of calls at that time.
    calls: u32,
}

impl Attached {
    /// Counts a call at `now`.
    ///
    /// # Panics
    /// Panics if the endpoint has been called so often at this instant that it never ends.
    pub(crate) fn count_call(&mut self, now: Nanos) {
        if self.called != now {
            (self.called, self.calls) = (now, 0);
        }
        self.calls += 1;
        assert!(
            self.calls < MAX_CALLS,
            "the endpoint {} was called {MAX_CALLS} times at {now}: poll_transmit must return None \
             when nothing is left to send, and next_timer must advance",
            self.address,
        );
    }
}

/// The sending end of a path between two endpoints, in one direction.
pub(crate) struct End {
    pub(crate) route: RouteId,
    pub(crate) receiver: u32,
    /// The address of the sender, as the receiver sees it.
    pub(crate) from: SocketAddr,
    pub(crate) flow_hash: u32,
    /// The number of packets sent, for fingerprints.
    pub(crate) made: u64,
    mtu: u16,
}

impl End {
    /// Returns the length on the wire of a datagram with a payload of `len` bytes, or `None` if it
    /// is longer than the MTU.
    pub(crate) fn wire_len(&self, len: usize) -> Option<u16> {
        let ip_header = if self.from.is_ipv4() { IPV4_HEADER } else { IPV6_HEADER };
        let len = u16::try_from(len).ok()?.checked_add(ip_header + UDP_HEADER)?;
        (len <= self.mtu).then(|| len + ETHERNET_HEADER)
    }
}

/// All endpoints of a simulation and the paths between them.
#[derive(Default)]
pub(crate) struct Endpoints {
    pub(crate) all: Vec<Attached>,
    pub(crate) ends: Vec<End>,
    addresses: HashSet<SocketAddr>,
    /// The sending end from an endpoint to an address.
    by_address: HashMap<(u32, SocketAddr), u32>,
    /// The payload that is being written; kept to reuse its memory.
    pub(crate) payload: Vec<u8>,
}

impl Endpoints {
    /// Adds an endpoint that is called first at `now`.
    pub(crate) fn add(
        &mut self,
        now: Nanos,
        address: SocketAddr,
        endpoint: Box<dyn Endpoint>,
    ) -> Result<u32, SetupError> {
        if self.all.len() >= MAX_ENDPOINTS {
            return Err(SetupError::TooMany("endpoints"));
        }
        if !self.addresses.insert(address) {
            return Err(SetupError::AddressInUse(address));
        }
        self.all.push(Attached {
            endpoint,
            address,
            counters: EndpointCounters::default(),
            awaited: now,
            woken: true,
            latest: None,
            called: now,
            calls: 0,
        });
        Ok((self.all.len() - 1) as u32)
    }

    /// Joins two endpoints by the route from the first one to the second one and the route back.
    pub(crate) fn join(
        &mut self,
        ids: [u32; 2],
        routes: [RouteId; 2],
        flow_hash: u32,
    ) -> Result<(), SetupError> {
        let addresses = ids.map(|id| self.all[id as usize].address);
        let [first, second] = addresses;
        if first.is_ipv4() != second.is_ipv4() {
            return Err(SetupError::Families { first, second });
        }
        if ids[0] == ids[1] || self.by_address.contains_key(&(ids[0], second)) {
            return Err(SetupError::Joined { first, second });
        }
        if self.ends.len() / 2 >= MAX_ENDPOINTS {
            return Err(SetupError::TooMany("joined endpoints"));
        }
        for sender in 0..2 {
            let receiver = 1 - sender;
            self.by_address.insert((ids[sender], addresses[receiver]), self.ends.len() as u32);
            self.ends.push(End {
                route: routes[sender],
                receiver: ids[receiver],
                from: addresses[sender],
                // The reverse direction is another flow.
                flow_hash: if sender == 0 { flow_hash } else { !flow_hash },
                made: 0,
                mtu: ETHERNET_MTU,
            });
        }
        Ok(())
    }

    /// Sets the MTU in both directions between two joined endpoints.
    pub(crate) fn set_mtu(&mut self, ids: [u32; 2], mtu: Bytes) -> Result<(), SetupError> {
        let [first, second] = ids.map(|id| self.all[id as usize].address);
        if !(LEAST_MTU..=MAX_MTU).contains(&mtu.0) {
            return Err(SetupError::Range { what: "an MTU", must: "68 to 65521 bytes" });
        }
        let Some(end) = self.by_address.get(&(ids[0], second)) else {
            return Err(SetupError::NotJoined { first, second });
        };
        // Both directions of a pair are beside each other.
        let pair = (*end & !1) as usize;
        self.ends[pair..pair + 2].iter_mut().for_each(|end| end.mtu = mtu.0 as u16);
        Ok(())
    }

    /// Returns whether a route joins endpoints.
    pub(crate) fn use_route(&self, route: RouteId) -> bool {
        self.ends.iter().any(|end| end.route == route)
    }

    /// Returns the end from an endpoint to an address.
    pub(crate) fn end(&mut self, index: usize, to: SocketAddr) -> Option<u32> {
        let latest = &mut self.all[index].latest;
        match *latest {
            Some((address, end)) if address == to => Some(end),
            _ => {
                let end = *self.by_address.get(&(index as u32, to))?;
                *latest = Some((to, end));
                Some(end)
            }
        }
    }
}
