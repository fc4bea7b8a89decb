//! The egress of a machine: the queues between its sockets and a link, and what happens when they
//! are full.
//!
//! ```text
//!   sockets ── queue of the guest ── ring ── queue of the hypervisor ── wire
//!   (source    (`slots` super-       (`ring`  (a link's own queue)
//!   buffers)   packets)              segments)
//! ```
//!
//! A socket sends super-packets, whose number of segments TCP's autosizing determines. Each takes
//! one slot of the guest's queue. The ring holds the segments that the hypervisor has taken and its
//! wire has not yet sent, since their descriptors are in use until then (zero copy). The behaviour
//! of a full queue is set separately for the guest and the hypervisor:
//!
//! | | [`WhenFull::Drop`], as in Linux | [`WhenFull::Wait`], zD |
//! |---|---|---|
//! | guest | The super-packet is refused and the socket keeps it: a *virtual drop*. The socket reduces its window once per round trip (`tcp_enter_cwr`). It tries again at its next event: an acknowledgement, the end of another of its super-packets, its pacing time, or a timeout if nothing is in flight. | The flow is paused and resumed in its turn. |
//! | guest | Small queues: a third super-packet waits in the socket until one of two has left. | The gate applies the same limit. |
//! | hypervisor | The super-packet is lost, and TCP detects the loss by its acknowledgements: a *physical drop*. | The ring stops until there is room. |
//!
//! The guest's queue may also be Carousel's ([`GuestQueue::Carousel`]): super-packets wait in a
//! timing wheel for the times that TCP's pacing rate gives them, each in a slot of the queue. It
//! limits each socket to two, as small queues do, and refuses what does not fit, as Linux's queue
//! does.
//!
//! The model has no CPU: only the wire takes time. It therefore shows neither the CPU time that zD
//! saves nor the time that it costs.

mod carousel;

use std::collections::VecDeque;

use forebay_queue::backpressure::{Config, FlowId, FlowPacket, Gate};
use forebay_queue::{ConfigError, Ecn, Fifo, Limit, fifo};
use forebay_units::{Bytes, Nanos, Rate};

use crate::network::{LinkId, RouteId};
use carousel::Carousel;

/// Super-packets that a socket may have in the queue with small queues (`tcp_small_queue_check`).
const SMALL_QUEUE: u8 = 2;
/// The number of counters by super-packet size; more than the segments of the largest super-packet.
const SIZES: usize = 48;

/// The behaviour of a full queue inside the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Refuses or drops super-packets, as in Linux.
    Drop,
    /// Applies backpressure, as in zD.
    Wait,
}

/// The guest's queue, and its behaviour when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestQueue {
    /// A FIFO queue with small queues that refuses super-packets, as in Linux.
    Linux,
    /// A FIFO queue with backpressure, as in zD.
    Zd,
    /// A timing wheel with small queues that refuses super-packets: Carousel (Saeed et al., SIGCOMM
    /// 2017) as a queueing discipline of the guest (Zhao's thesis, section 4.5.2).
    Carousel,
}

/// The configuration of a machine's egress.
#[derive(Clone, Copy, Debug)]
pub struct EgressSetup {
    /// The route of the machine's packets. Its first hop must be `link`, and its traffic must be
    /// bulk TCP flows that were added before.
    pub route: RouteId,
    /// The hypervisor's queue and wire. The queue counts segments.
    pub link: LinkId,
    /// The size of the guest's queue in super-packets.
    pub slots: u32,
    /// The size of the ring in segments.
    pub ring: u32,
    /// The guest's queue.
    pub guest: GuestQueue,
    /// The behaviour when the hypervisor's queue is full.
    pub hypervisor: WhenFull,
}

/// The counters of a machine's egress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EgressCounters {
    /// Super-packets that entered the guest's queue.
    pub accepted: u64,
    /// Super-packets that the guest's queue refused.
    pub virtual_drops: u64,
    /// Super-packets that the hypervisor dropped because its queue was full.
    pub physical_drops: u64,
    /// How often flows were paused, by backpressure or by small queues.
    pub paused: u64,
    /// How often flows were resumed.
    pub resumed: u64,
    /// The largest number of super-packets in the guest's queue.
    pub longest: u64,
    /// Super-packets by their number of segments; the last counter includes larger ones.
    pub sizes: [u64; SIZES],
}

/// A super-packet, whose segments are packets of the simulation.
#[derive(Clone, Debug)]
pub(crate) struct SuperPacket {
    pub(crate) endpoint: u32,
    pub(crate) segments: Vec<u32>,
    len: u64,
}

impl forebay_queue::Packet for SuperPacket {
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

impl FlowPacket for SuperPacket {
    fn flow(&self) -> FlowId {
        FlowId(self.endpoint)
    }
}

/// The state of a socket for small queues.
#[derive(Clone, Copy, Debug, Default)]
struct Socket {
    queued: u8,
    throttled: bool,
}

/// The guest's queue with the state of its sockets.
enum Guest {
    /// A queue with small queues.
    Small {
        queue: Small,
        slots: usize,
        sockets: Vec<Socket>,
    },
    Gate(Box<Gate<SuperPacket, Fifo<SuperPacket>>>),
}

/// The order of a queue with small queues.
enum Small {
    Fifo(VecDeque<SuperPacket>),
    Carousel(Box<Carousel>),
}

impl Small {
    fn len(&self) -> usize {
        match self {
            Self::Fifo(queue) => queue.len(),
            Self::Carousel(carousel) => carousel.len(),
        }
    }
}

/// Whether a socket may enqueue a super-packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    Yes,
    /// The socket waits and will be woken.
    Waits,
    /// The super-packet is refused: a virtual drop.
    Refused,
}

/// The state of a machine's egress.
pub(crate) struct Egress {
    pub(crate) setup: EgressSetup,
    guest: Guest,
    /// The number of segments in the ring.
    in_ring: u32,
    /// The super-packet that the hypervisor has no room for.
    pub(crate) stopped: Option<SuperPacket>,
    pub(crate) counters: EgressCounters,
    /// Empty segment lists, kept to reuse their memory.
    spare: Vec<Vec<u32>>,
}

impl Egress {
    /// Creates an egress for the sockets of endpoints below `endpoints`.
    pub(crate) fn new(setup: EgressSetup, endpoints: u32) -> Result<Self, ConfigError> {
        let limit = Limit::packets(setup.slots);
        let fifo = Fifo::new(fifo::Config { limit })?;
        let small = |queue| Guest::Small {
            queue,
            slots: setup.slots as usize,
            sockets: vec![Socket::default(); endpoints as usize],
        };
        let guest = match setup.guest {
            GuestQueue::Linux => small(Small::Fifo(VecDeque::new())),
            GuestQueue::Carousel => {
                small(Small::Carousel(Box::new(Carousel::new(setup.slots, endpoints)?)))
            }
            GuestQueue::Zd => {
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

    /// Returns whether `endpoint`, which has data to send, may enqueue a super-packet now.
    pub(crate) fn admit(&mut self, now: Nanos, endpoint: u32) -> Admitted {
        let counters = &mut self.counters;
        match &mut self.guest {
            Guest::Small { queue, slots, sockets } => {
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

    /// Returns an empty super-packet of `endpoint`.
    pub(crate) fn begin(&mut self, endpoint: u32) -> SuperPacket {
        SuperPacket { endpoint, segments: self.spare.pop().unwrap_or_default(), len: 0 }
    }

    /// Enqueues a super-packet after [`Egress::admit`] allowed it. TCP paces its flow to `rate`,
    /// which only Carousel uses.
    pub(crate) fn enqueue(&mut self, now: Nanos, packet: SuperPacket, rate: Rate) {
        self.counters.accepted += 1;
        self.counters.sizes[packet.segments.len().min(SIZES) - 1] += 1;
        let waiting = match &mut self.guest {
            Guest::Small { queue, sockets, .. } => {
                sockets[packet.endpoint as usize].queued += 1;
                match queue {
                    Small::Fifo(queue) => queue.push_back(packet),
                    Small::Carousel(carousel) => carousel.enqueue(now, packet, rate),
                }
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

    /// Reports that a woken socket has nothing to send.
    pub(crate) fn idle(&mut self, endpoint: u32) {
        if let Guest::Gate(gate) = &mut self.guest {
            gate.idle(FlowId(endpoint));
        }
    }

    /// Returns the next super-packet for the hypervisor, if the ring has room. Calls `wake` with
    /// each endpoint that may send again.
    pub(crate) fn dequeue(&mut self, now: Nanos, mut wake: impl FnMut(u32)) -> Option<SuperPacket> {
        if self.stopped.is_some() || self.in_ring >= self.setup.ring {
            return None;
        }
        let counters = &mut self.counters;
        match &mut self.guest {
            Guest::Small { queue, sockets, .. } => {
                let packet = match queue {
                    Small::Fifo(queue) => queue.pop_front()?,
                    Small::Carousel(carousel) => carousel.dequeue(now)?,
                };
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

    /// Returns when the next super-packet may leave, if that is in the future and the ring has room
    /// for it. Each time is returned once.
    pub(crate) fn next_departure(&mut self, now: Nanos) -> Option<Nanos> {
        if self.stopped.is_some() || self.in_ring >= self.setup.ring {
            return None;
        }
        let Guest::Small { queue: Small::Carousel(carousel), .. } = &mut self.guest else {
            return None;
        };
        carousel.next_departure(now)
    }

    /// Resumes paused flows and calls `wake` with the endpoint of each.
    pub(crate) fn resume(&mut self, now: Nanos, mut wake: impl FnMut(u32)) {
        if let Guest::Gate(gate) = &mut self.guest {
            for FlowId(endpoint) in gate.resume(now) {
                self.counters.resumed += 1;
                wake(endpoint);
            }
        }
    }

    /// Records that a super-packet of `segments` segments entered the hypervisor's queue.
    pub(crate) fn entered(&mut self, segments: u32) {
        self.in_ring += segments;
    }

    /// Records that the hypervisor's wire has sent a segment.
    pub(crate) fn sent(&mut self) {
        self.in_ring = self.in_ring.saturating_sub(1);
    }

    /// Takes back the segment list of a super-packet, whose segments have moved on or were dropped.
    pub(crate) fn reuse(&mut self, mut segments: Vec<u32>) {
        segments.clear();
        self.spare.push(segments);
    }
}

impl SuperPacket {
    pub(crate) fn push(&mut self, id: u32, len: u16) {
        self.segments.push(id);
        self.len += u64::from(len);
    }
}
