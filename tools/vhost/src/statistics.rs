//! Counters of the back end, and the lines of JSON that report them.

use forebay_queue::Backlog;
use forebay_system::output;
use forebay_units::Nanos;
use serde::Serialize;

/// Packets of a virtual machine that were lost on their way out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// The scheduled buffer was full; in mode `drop` only.
    pub queue: u64,
    /// The AQM dropped the packet as a congestion signal; with the policy `dualpi2` only.
    pub aqm: u64,
    /// The chain of descriptors held no frame.
    pub chain: u64,
    /// The frame's header asked for an impossible offload.
    pub header: u64,
    /// The frame was too long for the port, or for the whole buffer.
    pub too_long: u64,
    /// The kernel refused the frame.
    pub refused: u64,
}

/// Counters of one virtual machine since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Packets taken out of its ring, including chains without a frame.
    pub taken: u64,
    /// Packets that left the scheduled buffer. A frame that the back end splits counts as its
    /// segments.
    pub sent: u64,
    /// Bytes of these packets on the wire.
    pub sent_bytes: u64,
    /// Those of these packets whose congestion mark (CE) the AQM has set.
    pub marked: u64,
    /// Packets that were lost, by reason.
    pub dropped: Dropped,
    /// Number of times that it was paused.
    pub paused: u64,
    /// Total time that it was paused, in nanoseconds.
    pub paused_ns: u64,
    /// Frames that it received.
    pub received: u64,
    /// Bytes of these frames.
    pub received_bytes: u64,
    /// Frames for it that were lost, because it had no buffers for too long or unusable ones.
    pub receive_dropped: u64,
    /// Rings that became invalid.
    pub broken: u64,
}

/// The part of one virtual machine in a [`Status`].
#[derive(Debug, Serialize)]
pub(crate) struct VmStatus<'a> {
    pub(crate) name: &'a str,
    pub(crate) connected: bool,
    /// Occupancy of its transmit rings together; `None` if none runs.
    pub(crate) ring: Option<Occupancy>,
    /// Whether it is paused at this moment.
    pub(crate) is_paused: bool,
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// Its transmit rings, if it has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) rings: Vec<RingStatus>,
}

/// The part of one of several transmit rings in a [`VmStatus`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RingStatus {
    /// Occupancy of the ring; `None` if it does not run.
    pub(crate) ring: Option<Occupancy>,
    /// Packets taken out of it, including chains without a frame.
    pub(crate) taken: u64,
    /// Number of times that the machine was paused because of its next packet.
    pub(crate) paused: u64,
}

/// Number of chains that wait in a ring, and the size of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Occupancy {
    pub(crate) waiting: u16,
    pub(crate) size: u16,
}

/// A report of all counters. Counts are since the start, times in nanoseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Status<'a> {
    /// Name of the event: `status`, or `total` at the end.
    pub(crate) event: &'static str,
    pub(crate) time: u64,
    /// Processor time of the data thread in user space.
    pub(crate) cpu_user_ns: u64,
    /// Processor time of the data thread in the kernel.
    pub(crate) cpu_system_ns: u64,
    /// Packets that wait in the scheduled buffer.
    pub(crate) queued_packets: u64,
    /// Bytes that wait in the scheduled buffer.
    pub(crate) queued_bytes: u64,
    /// Arriving frames whose destination address is unknown.
    pub(crate) unknown: u64,
    /// Arriving frames that the kernel lost.
    pub(crate) receive_lost: u64,
    /// Departing frames that the kernel lost.
    pub(crate) send_lost: u64,
    pub(crate) vms: Vec<VmStatus<'a>>,
}

impl Status<'_> {
    /// Processor time of the calling thread: in user space, and in the kernel.
    pub(crate) fn cpu() -> (Nanos, Nanos) {
        // SAFETY: all-zero is a valid `rusage`, and the call fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
            usage
        };
        let nanos =
            |t: libc::timeval| Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000);
        (nanos(usage.ru_utime), nanos(usage.ru_stime))
    }

    /// Adds the backlog of the scheduled buffer.
    pub(crate) fn queued(mut self, backlog: Backlog) -> Self {
        (self.queued_packets, self.queued_bytes) = (backlog.packets, backlog.bytes.0);
        self
    }
}

/// Writes `event` to standard output as a line of JSON. A line that cannot be written at once is
/// lost, since neither a closed output nor a slow reader may stop the back end.
pub(crate) fn emit(event: &impl Serialize) {
    output::stdout().line(&serde_json::to_string(event).unwrap_or_default());
}
