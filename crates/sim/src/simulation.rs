//! The simulation: what happens when.

mod connections;
mod egress;
mod forwarding;
mod hosts;
mod requests;
mod setup;
mod sockets;

use forebay_queue::DropReason;
use forebay_units::Nanos;

use self::connections::Phase;
use crate::boxes::{BoxCounters, Bundle, Receivebox};
use crate::egress::Egress;
use crate::events::EventQueue;
use crate::link::{Link, LinkCounters};
use crate::network::{BundleId, LinkId, Route, RouteCounters, RouteId};
use crate::observer::Observer;
use crate::packet::{Packets, Queued};
use crate::tcp::{Endpoint, Pacing, Stack};
use crate::traffic::{Application, Requests, Socket};
use forebay_prefetch::prefetch;

/// How often control loops tick (Bundler section 6.2).
const TICK: Nanos = Nanos::from_millis(10);

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The first packet on a link's wire reaches its end.
    ArriveFirst(u16),
    /// A packet reaches the end of a link on which packets overtake each other.
    Arrive {
        packet: u32,
        link: u16,
    },
    /// A link's wire is free.
    Serve(u16),
    /// A bundle's shaper may let a packet out.
    Release(u16),
    Tick(u16),
    /// An endpoint's timer.
    Timer(u32),
    /// A bulk flow begins or ends.
    Begin(u32),
    End(u32),
    /// The next request of a schedule is asked.
    Ask(u32),
    /// A closed loop's client asks for the first time.
    AskFirst {
        requests: u32,
        client: u32,
    },
    /// A UDP flow's timer.
    Socket(u32),
    /// A machine's queue has room for an endpoint.
    Wake(u32),
}

/// A connection's end in its place.
struct Host {
    /// While the connection is open.
    tcp: Option<Endpoint>,
    phase: Phase,
    stack: Stack,
    peer: u32,
    route: RouteId,
    hash: u32,
    /// Packets made, for fingerprints.
    made: u64,
    /// The earliest timer event that is under way.
    awaited: Nanos,
    application: Application,
}

/// What has happened so far, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events handled.
    pub events: u64,
    /// Steps of all packets: each link, sendbox or receivebox that one entered.
    pub hops: u64,
    /// Packets made by hosts and boxes,
    pub made: u64,
    /// that reached where they went,
    pub delivered: u64,
    /// that a queue dropped or a wire lost,
    pub dropped: u64,
    /// and that are under way.
    pub live: u64,
    /// TCP segments sent again.
    pub retransmissions: u64,
    /// TCP retransmission timers that ran out, those of handshakes too.
    pub timeouts: u64,
}

/// A network with its hosts, and its virtual clock.
///
/// The same setup and seed give the same run to the last bit, on any machine: nothing here reads a
/// clock, and nothing depends on addresses or on a hash map's order.
pub struct Simulation<O> {
    now: Nanos,
    seed: u64,
    events: EventQueue<Event>,
    packets: Packets,
    links: Vec<Link>,
    bundles: Vec<Bundle>,
    egresses: Vec<Egress>,
    routes: Vec<Route>,
    route_counters: Vec<RouteCounters>,
    hosts: Vec<Host>,
    /// The first ends of connections that have ended, whose places are free.
    ended: Vec<u32>,
    requests: Vec<Requests>,
    sockets: Vec<Socket>,
    traffics: u32,
    /// Connections agree on ECN.
    ecn: bool,
    pacing: Pacing,
    /// Dropped in the present step; kept for its memory.
    drops: Vec<(Queued, DropReason)>,
    totals: Totals,
    observer: O,
}

impl<O: Observer> Simulation<O> {
    /// Runs until `time`, what happens at that instant included.
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

    /// The present.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// What has happened so far.
    pub fn totals(&self) -> Totals {
        // Of connections that have ended, and of those that are there.
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

    /// How many TCP connections there are at the moment, those that are still being made or taken
    /// down included.
    pub fn connections(&self) -> usize {
        self.hosts.len() / 2 - self.ended.len()
    }

    /// The packets of a link.
    pub fn link(&self, link: LinkId) -> LinkCounters {
        self.links[link.index()].counters
    }

    /// The packets of a route.
    pub fn route(&self, route: RouteId) -> RouteCounters {
        self.route_counters[usize::from(route.0)]
    }

    /// The packets of a bundle at its sendbox.
    pub fn sendbox(&self, bundle: BundleId) -> BoxCounters {
        self.bundles[bundle.index()].counters()
    }

    /// Kills a bundle's receivebox: packets pass it, and nothing is counted or answered.
    pub fn kill_receivebox(&mut self, bundle: BundleId) {
        self.bundles[bundle.index()].receivebox.kill();
    }

    /// Starts a bundle's receivebox again: it counts from zero and was told nothing.
    pub fn start_receivebox(&mut self, bundle: BundleId) {
        self.bundles[bundle.index()].receivebox = Receivebox::new();
    }

    /// A bundle's receivebox's clock jumps by so many nanoseconds, ahead if above zero.
    pub fn shift_receivebox_clock(&mut self, bundle: BundleId, by: i64) {
        self.bundles[bundle.index()].shift_receivebox_clock(by);
    }

    /// A bundle's sendbox's clock, which is monotonic, jumps ahead; only its control loop looks at it.
    pub fn advance_sendbox_clock(&mut self, bundle: BundleId, by: Nanos) {
        self.bundles[bundle.index()].advance_sendbox_clock(by);
    }

    /// Packets that a link sends from now on take `delay`, at most 100 s; on a link that does not
    /// reorder they do not overtake those before them.
    pub fn set_delay(&mut self, link: LinkId, delay: Nanos) {
        self.links[link.index()].set_delay(delay);
    }

    /// Who was told.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// Who was told.
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
                self.went_out(link);
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
            Event::Ask(requests) => self.ask_scheduled(requests),
            Event::AskFirst { requests, client } => self.ask_again(requests, client),
            Event::Socket(socket) => self.on_socket(socket),
            Event::Wake(host) => self.flush(host),
        }
    }
}
