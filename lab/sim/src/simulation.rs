//! The simulation and its events.

mod connections;
mod egress;
mod endpoints;
mod flows;
mod forwarding;
mod hosts;
mod requests;
mod setup;
mod sockets;

use forebay_control::Shares;
use forebay_queue::{DropReason, Ecn};
use forebay_units::Nanos;

pub use self::flows::FlowState;

use self::connections::Phase;
use crate::boxes::{BoxCounters, Bundle, Receivebox, SendboxState};
use crate::egress::Egress;
use crate::endpoint::Endpoints;
use crate::events::EventQueue;
use crate::link::{Link, LinkCounters};
use crate::network::{BundleId, LinkId, Route, RouteCounters, RouteId};
use crate::observer::Observer;
use crate::packet::{Packets, Queued};
use crate::tcp::{Endpoint, Pacing, Stack};
use crate::traffic::{Application, Requests, Socket};
use forebay_prefetch::prefetch;

/// The tick period of control loops (Bundler section 6.2).
const TICK: Nanos = Nanos::from_millis(10);

/// An event with the number of what it concerns.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The first packet on a link's wire reaches its end.
    ArriveFirst(u16),
    /// A packet reaches the end of a link on which packets overtake each other.
    Arrive { packet: u32, link: u16 },
    /// A link's wire is free.
    Serve(u16),
    /// A bundle's shaper may send a packet.
    Release(u16),
    /// A bundle's control loop ticks.
    Tick(u16),
    /// An endpoint's timer expires.
    Timer(u32),
    /// A bulk flow begins.
    Begin(u32),
    /// A bulk flow ends.
    End(u32),
    /// The next request of a schedule is sent.
    NextRequest(u32),
    /// A client of a closed loop sends its first request.
    FirstRequest { requests: u32, client: u32 },
    /// A UDP flow's timer expires.
    Socket(u32),
    /// An endpoint of the caller has something to do.
    Endpoint(u32),
    /// A machine's queue has room for an endpoint.
    Wake(u32),
    /// The time of a super-packet in a machine's queue has come.
    Depart(u16),
}

/// One end of a connection.
struct Host {
    /// The TCP endpoint, while the connection is open.
    tcp: Option<Endpoint>,
    phase: Phase,
    stack: Stack,
    peer: u32,
    route: RouteId,
    hash: u32,
    /// The number of packets sent, for fingerprints.
    made: u64,
    /// The next sequence number and the next one expected when the connection was opened or closed.
    numbers: (u32, u32),
    /// The marked packets that it had received by then.
    marked: u32,
    /// The ECN field with which the other end's SYN or SYN/ACK arrived.
    opening: Ecn,
    /// The time of the earliest pending timer event.
    awaited: Nanos,
    application: Application,
}

/// The totals of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of events handled.
    pub events: u64,
    /// Hops of all packets: links, sendboxes and receiveboxes that they entered.
    pub hops: u64,
    /// Packets that hosts and boxes sent.
    pub made: u64,
    /// Packets that reached their destination.
    pub delivered: u64,
    /// Packets that a queue dropped or a wire lost.
    pub dropped: u64,
    /// Packets in transit.
    pub live: u64,
    /// TCP segments retransmitted.
    pub retransmissions: u64,
    /// TCP retransmission timeouts, including those of handshakes.
    pub timeouts: u64,
}

/// A network with its hosts and a virtual clock.
///
/// The same setup and seed give bit for bit the same run on any machine. The simulation reads no
/// clock, and nothing depends on memory addresses or on the order of a hash map.
pub struct Simulation<O> {
    now: Nanos,
    seed: u64,
    events: EventQueue<Event>,
    packets: Packets,
    links: Vec<Link>,
    bundles: Vec<Bundle>,
    /// What their receiveboxes, which are one, know of all of them.
    shares: Shares,
    egresses: Vec<Egress>,
    routes: Vec<Route>,
    route_counters: Vec<RouteCounters>,
    hosts: Vec<Host>,
    /// The first ends of connections that have ended, whose places can be reused.
    ended: Vec<u32>,
    requests: Vec<Requests>,
    sockets: Vec<Socket>,
    endpoints: Endpoints,
    traffics: u32,
    /// Whether connections use ECN by default.
    ecn: bool,
    pacing: Pacing,
    /// The packets dropped in the current step; kept to reuse its memory.
    drops: Vec<(Queued, DropReason)>,
    totals: Totals,
    observer: O,
}

impl<O: Observer> Simulation<O> {
    /// Runs until `time`, including the events at that instant.
    pub fn run_until(&mut self, time: Nanos) {
        loop {
            let hosts = &self.hosts;
            let soon = |event: &Event| {
                if let Event::Timer(host) = *event {
                    prefetch(&hosts[host as usize]);
                }
            };
            let Some((now, event)) = self.events.pop_hinting(time, soon) else { break };
            self.now = now;
            self.totals.events += 1;
            self.handle(event);
        }
        self.now = self.now.max(time);
    }

    /// Returns the current time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Returns the totals so far.
    pub fn totals(&self) -> Totals {
        // Adds those of ended connections and of existing ones.
        let ended = (self.totals.retransmissions, self.totals.timeouts);
        let repairs = self.hosts.iter().filter_map(|h| h.tcp.as_ref()).map(Endpoint::repairs);
        let (retransmissions, timeouts) = repairs.fold(ended, |sum, r| (sum.0 + r.0, sum.1 + r.1));
        Totals {
            made: self.packets.made(),
            live: self.packets.live(),
            retransmissions,
            timeouts,
            ..self.totals
        }
    }

    /// Returns the current number of TCP connections, including those that are being opened or
    /// closed.
    pub fn connections(&self) -> usize {
        self.hosts.len() / 2 - self.ended.len()
    }

    /// Returns the packet counters of a link.
    pub fn link(&self, link: LinkId) -> LinkCounters {
        self.links[link.index()].counters
    }

    /// Returns the packet counters of a route.
    pub fn route(&self, route: RouteId) -> RouteCounters {
        self.route_counters[usize::from(route.0)]
    }

    /// Returns the packet counters of a bundle at its sendbox.
    pub fn sendbox(&self, bundle: BundleId) -> BoxCounters {
        self.bundles[bundle.index()].counters()
    }

    /// Kills a bundle's sendbox: the packets in its queue are lost, and nothing passes it until
    /// [`Simulation::start_sendbox`].
    pub fn kill_sendbox(&mut self, bundle: BundleId) {
        let (packets, totals) = (&mut self.packets, &mut self.totals);
        self.bundles[bundle.index()].kill_sendbox(self.now, &mut |packet| {
            totals.dropped += 1;
            packets.remove(packet.id);
        });
    }

    /// Makes a bundle's sendbox forward packets without a queue, control or measurements until
    /// [`Simulation::start_sendbox`]. It is for the start, before packets are queued.
    pub fn forward_only(&mut self, bundle: BundleId) {
        self.bundles[bundle.index()].state = SendboxState::Forwards;
    }

    /// Starts a bundle's sendbox, dead or forwarding, with a new control loop.
    pub fn start_sendbox(&mut self, bundle: BundleId) {
        self.bundles[bundle.index()].start_sendbox(self.now);
    }

    /// Stops a bundle's receivebox: packets pass it without being counted.
    pub fn kill_receivebox(&mut self, bundle: BundleId) {
        self.bundles[bundle.index()].receivebox.kill();
    }

    /// Restarts a bundle's receivebox with counters at zero and without an epoch size.
    pub fn start_receivebox(&mut self, bundle: BundleId) {
        self.bundles[bundle.index()].receivebox = Receivebox::new();
    }

    /// Shifts the clock of a bundle's receivebox by a number of nanoseconds, forward if positive.
    pub fn shift_receivebox_clock(&mut self, bundle: BundleId, by: i64) {
        self.bundles[bundle.index()].shift_receivebox_clock(by);
    }

    /// Advances the clock of a bundle's sendbox, which is monotonic. Only its control loop uses
    /// that clock.
    pub fn advance_sendbox_clock(&mut self, bundle: BundleId, by: Nanos) {
        self.bundles[bundle.index()].advance_sendbox_clock(by);
    }

    /// Sets the propagation delay of a link for packets sent from now on, at most 100 s. On a link
    /// that does not reorder, they do not overtake earlier packets.
    pub fn set_delay(&mut self, link: LinkId, delay: Nanos) {
        self.links[link.index()].set_delay(delay);
    }

    /// Returns the observer.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// Returns the observer for changes.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::ArriveFirst(link) => self.arrive_first(link),
            Event::Arrive { packet, link } => self.arrive(link, packet),
            Event::Serve(link) => {
                self.links[usize::from(link)].awaited = false;
                self.serve(link);
                self.resume_egress(link);
            }
            Event::Release(bundle) => {
                if self.bundles[usize::from(bundle)].awaited == self.now {
                    self.bundles[usize::from(bundle)].awaited = Nanos::MAX;
                    self.release(bundle);
                }
            }
            Event::Tick(bundle) => self.tick(bundle),
            Event::Timer(host) => self.on_timer(host),
            Event::Begin(host) => self.begin(host),
            Event::End(host) => self.end(host),
            Event::NextRequest(requests) => self.send_scheduled_request(requests),
            Event::FirstRequest { requests, client } => self.send_next_request(requests, client),
            Event::Socket(socket) => self.on_socket(socket),
            Event::Endpoint(endpoint) => self.on_endpoint(endpoint),
            Event::Wake(host) => self.flush(host),
            Event::Depart(egress) => self.serve_egress(usize::from(egress)),
        }
    }
}
