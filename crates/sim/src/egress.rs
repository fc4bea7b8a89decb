//! A machine's way out: what is between its sockets and a link, and what happens where it is full.
//!
//! ```text
//!   sockets ── queue of the guest ── ring ── queue of the hypervisor ── wire
//!   (source    (`slots` super-       (`ring`  (a link's own queue)
//!   buffers)   packets)              segments)
//! ```
//!
//! A socket hands over super-packets, of as many segments as TCP's autosizing makes them, and each
//! takes one slot. The ring holds what the hypervisor has taken and its wire has not yet sent:
//! descriptors that are not free before the wire is done with them (zero copy). Where the guest's
//! queue or the hypervisor's is full, there are two ways to go on, each chosen for itself:
//!
//! | | [`WhenFull::Drop`], as Linux does | [`WhenFull::Wait`], zD |
//! |---|---|---|
//! | guest | the super-packet is refused, the socket keeps it: a *virtual drop*. The socket reduces its window once a round trip (`tcp_enter_cwr`) and tries again at its next event: an acknowledgement, the end of another of its super-packets, its pace, or, with nothing on its way, a timeout | the flow is paused, and resumed in its turn |
//! | | small queues: a third super-packet waits in the socket until one of two has left | the same limit, by the gate |
//! | hypervisor | the super-packet is lost, and TCP finds out by its acknowledgements: a *physical drop* | the ring stops until there is room |
//!
//! No CPU is modelled: nothing here costs time but the wire. So what zD gains by wasting no work is
//! not seen, nor what it costs.

use std::collections::VecDeque;

use forebay_queue::backpressure::{Config, FlowId, FlowPacket, Gate};
use forebay_queue::{ConfigError, Ecn, Fifo, Limit, fifo};
use forebay_units::{Bytes, Nanos};

use crate::network::{LinkId, RouteId};

/// Super-packets that small queues let a socket have in the queue (`tcp_small_queue_check`).
const SMALL_QUEUE: u8 = 2;
/// Segments of the largest super-packet, and more.
const SIZES: usize = 48;

/// What happens where a queue inside the machine is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// As in Linux.
    Drop,
    /// Backpressure, as in zD.
    Wait,
}

/// How a machine's way out is set up.
#[derive(Clone, Copy, Debug)]
pub struct EgressSetup {
    /// Whose packets take it. Its first hop must be `link`, and its traffic bulk TCP flows that were
    /// added before.
    pub route: RouteId,
    /// The hypervisor's queue and wire. Its queue counts segments.
    pub link: LinkId,
    /// Super-packets that the guest's queue holds.
    pub slots: u32,
    /// Segments that the ring holds.
    pub ring: u32,
    /// What happens where the guest's queue is full.
    pub guest: WhenFull,
    /// What happens where the hypervisor's is.
    pub hypervisor: WhenFull,
}

/// What happened at a machine's way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EgressCounters {
    /// Super-packets that entered the guest's queue.
    pub accepted: u64,
    /// That it refused.
    pub virtual_drops: u64,
    /// Super-packets that the hypervisor's queue had no room for, and lost.
    pub physical_drops: u64,
    /// Flows paused, by backpressure or by small queues,
    pub paused: u64,
    /// and resumed.
    pub resumed: u64,
    /// The most super-packets in the guest's queue.
    pub longest: u64,
    /// Super-packets by segments, the last for those with more.
    pub sizes: [u64; SIZES],
}

/// A super-packet: its segments are packets of the simulation.
#[derive(Clone, Debug)]
pub(crate) struct Super {
    pub(crate) endpoint: u32,
    pub(crate) segments: Vec<u32>,
    len: u64,
}

impl forebay_queue::Packet for Super {
    fn len(&self) -> Bytes {
        Bytes(self.len)
    }

    fn flow_hash(&self) -> u32 {
        self.endpoint
    }

    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    fn set_ce(&mut self) {}
}

impl FlowPacket for Super {
    fn flow(&self) -> FlowId {
        FlowId(self.endpoint)
    }
}

/// What small queues know of a socket.
#[derive(Clone, Copy, Debug, Default)]
struct Socket {
    queued: u8,
    throttled: bool,
}

/// The guest's queue.
enum Guest {
    Linux { queue: VecDeque<Super>, slots: usize, sockets: Vec<Socket> },
    Gate(Box<Gate<Super, Fifo<Super>>>),
}

/// Whether a socket may hand over a super-packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    Yes,
    /// It waits, and will be woken.
    Waits,
    /// It was refused: a virtual drop.
    Refused,
}

pub(crate) struct Egress {
    pub(crate) setup: EgressSetup,
    guest: Guest,
    /// Segments in the ring.
    in_ring: u32,
    /// The super-packet that the hypervisor has no room for.
    pub(crate) stopped: Option<Super>,
    pub(crate) counters: EgressCounters,
    /// Lists of segments that are free, kept for their memory.
    spare: Vec<Vec<u32>>,
}

impl Egress {
    /// For sockets of up to `endpoints` ends of connections.
    pub(crate) fn new(setup: EgressSetup, endpoints: u32) -> Result<Self, ConfigError> {
        let limit = Limit::packets(setup.slots);
        let fifo = Fifo::new(fifo::Config { limit })?;
        let guest = match setup.guest {
            WhenFull::Drop => Guest::Linux {
                queue: VecDeque::new(),
                slots: setup.slots as usize,
                sockets: vec![Socket::default(); endpoints as usize],
            },
            WhenFull::Wait => {
                let flows = endpoints.max(1);
                Guest::Gate(Box::new(Gate::new(Config { flows, ..Config::default() }, fifo)?))
            }
        };
        let counters = EgressCounters {
            accepted: 0,
            virtual_drops: 0,
            physical_drops: 0,
            paused: 0,
            resumed: 0,
            longest: 0,
            sizes: [0; SIZES],
        };
        Ok(Self { setup, guest, in_ring: 0, stopped: None, counters, spare: Vec::new() })
    }

    /// Whether `endpoint`, which has something to send, may hand over a super-packet. If not, it is
    /// to send nothing now.
    pub(crate) fn admit(&mut self, now: Nanos, endpoint: u32) -> Admitted {
        let counters = &mut self.counters;
        match &mut self.guest {
            Guest::Linux { queue, slots, sockets } => {
                let socket = &mut sockets[endpoint as usize];
                if socket.queued >= SMALL_QUEUE {
                    counters.paused += u64::from(!socket.throttled);
                    socket.throttled = true;
                    return Admitted::Waits;
                }
                if queue.len() >= *slots {
                    counters.virtual_drops += 1;
                    return Admitted::Refused;
                }
            }
            Guest::Gate(gate) => {
                let was = gate.is_paused(FlowId(endpoint));
                if gate.pause_flow(now, FlowId(endpoint), 0) {
                    counters.paused += u64::from(!was);
                    return Admitted::Waits;
                }
            }
        }
        Admitted::Yes
    }

    /// An empty super-packet of `endpoint`, to be filled.
    pub(crate) fn begin(&mut self, endpoint: u32) -> Super {
        Super { endpoint, segments: self.spare.pop().unwrap_or_default(), len: 0 }
    }

    /// Enqueues a super-packet, as [`Egress::admit`] allowed.
    pub(crate) fn enqueue(&mut self, now: Nanos, packet: Super) {
        self.counters.accepted += 1;
        self.counters.sizes[packet.segments.len().min(SIZES) - 1] += 1;
        let waiting = match &mut self.guest {
            Guest::Linux { queue, sockets, .. } => {
                sockets[packet.endpoint as usize].queued += 1;
                queue.push_back(packet);
                queue.len() as u64
            }
            Guest::Gate(gate) => {
                let offered = gate.offer(now, packet, &mut |_, _| ());
                debug_assert!(offered.is_ok(), "it was admitted");
                forebay_queue::Qdisc::backlog(gate.qdisc()).packets
            }
        };
        self.counters.longest = self.counters.longest.max(waiting);
    }

    /// A socket that was woken has nothing to send.
    pub(crate) fn idle(&mut self, endpoint: u32) {
        if let Guest::Gate(gate) = &mut self.guest {
            gate.idle(FlowId(endpoint));
        }
    }

    /// The next super-packet for the hypervisor, if the ring has room. `wake` gets those who may send
    /// again.
    pub(crate) fn dequeue(&mut self, now: Nanos, mut wake: impl FnMut(u32)) -> Option<Super> {
        if self.stopped.is_some() || self.in_ring >= self.setup.ring {
            return None;
        }
        let counters = &mut self.counters;
        match &mut self.guest {
            Guest::Linux { queue, sockets, .. } => {
                let packet = queue.pop_front()?;
                let socket = &mut sockets[packet.endpoint as usize];
                socket.queued -= 1;
                if std::mem::take(&mut socket.throttled) {
                    counters.resumed += 1;
                    wake(packet.endpoint);
                }
                Some(packet)
            }
            Guest::Gate(gate) => gate.dequeue(now, &mut |_, _| ()),
        }
    }

    /// Those whose turn it is.
    pub(crate) fn resume(&mut self, now: Nanos, mut wake: impl FnMut(u32)) {
        if let Guest::Gate(gate) = &mut self.guest {
            for FlowId(endpoint) in gate.resume(now) {
                self.counters.resumed += 1;
                wake(endpoint);
            }
        }
    }

    /// A super-packet has gone into the hypervisor's queue.
    pub(crate) fn entered(&mut self, segments: u32) {
        self.in_ring += segments;
    }

    /// The hypervisor's wire has sent a segment.
    pub(crate) fn sent(&mut self) {
        self.in_ring = self.in_ring.saturating_sub(1);
    }

    /// Segments of a super-packet are elsewhere now, or nowhere.
    pub(crate) fn reuse(&mut self, mut segments: Vec<u32>) {
        segments.clear();
        self.spare.push(segments);
    }
}

impl Super {
    pub(crate) fn push(&mut self, id: u32, len: u16) {
        self.segments.push(id);
        self.len += u64::from(len);
    }
}
