//! What the back end counts, and says once a second and at the end.

use std::io::Write;

use forebay_queue::Backlog;
use forebay_units::Nanos;
use serde::Serialize;

/// Packets of a virtual machine that were lost on their way out, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// The scheduled buffer was full: in mode `drop` only.
    pub queue: u64,
    /// The chain of descriptors held no frame.
    pub chain: u64,
    /// The frame's header asked for what cannot be done to it.
    pub header: u64,
    /// The frame was too long for the port, or for the whole buffer.
    pub too_long: u64,
    /// The kernel would not have it.
    pub refused: u64,
}

/// Of one virtual machine, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Packets that were taken out of its ring, those that hold no frame included.
    pub taken: u64,
    /// Packets that left the scheduled buffer, and their bytes on the wire. A frame that is cut into segments
    /// here counts as those; else as one.
    pub sent: u64,
    /// See there.
    pub sent_bytes: u64,
    /// Packets that were lost.
    pub dropped: Dropped,
    /// How often it was paused.
    pub paused: u64,
    /// For how long in all, in nanoseconds.
    pub paused_ns: u64,
    /// Frames that it was given, and their bytes.
    pub received: u64,
    /// See there.
    pub received_bytes: u64,
    /// Frames for it that were lost: no buffers of its own for too long, or unusable ones.
    pub receive_dropped: u64,
    /// Rings that could not be followed any further.
    pub broken: u64,
}

/// A virtual machine's line in a [`Status`].
#[derive(Debug, Serialize)]
pub(crate) struct VmStatus<'a> {
    pub(crate) name: &'a str,
    pub(crate) connected: bool,
    /// Packets that wait in its ring, of how many; nothing if the ring does not run.
    pub(crate) ring: Option<Occupancy>,
    /// Whether it is paused now.
    pub(crate) is_paused: bool,
    #[serde(flatten)]
    pub(crate) counts: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Occupancy {
    pub(crate) waiting: u16,
    pub(crate) size: u16,
}

/// All of it. Counts are since the start, times in nanoseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Status<'a> {
    /// `status`, or `total` at the end.
    pub(crate) event: &'static str,
    pub(crate) time: u64,
    /// What the data thread took of a processor.
    pub(crate) cpu_user_ns: u64,
    pub(crate) cpu_system_ns: u64,
    /// What waits in the scheduled buffer.
    pub(crate) queued_packets: u64,
    pub(crate) queued_bytes: u64,
    /// Frames that came in for nobody here.
    pub(crate) unknown: u64,
    /// Frames that the kernel lost, coming in and going out.
    pub(crate) receive_lost: u64,
    pub(crate) send_lost: u64,
    pub(crate) vms: Vec<VmStatus<'a>>,
}

impl Status<'_> {
    /// What the calling thread took of a processor: in user space, and in the kernel for it.
    pub(crate) fn cpu() -> (Nanos, Nanos) {
        // SAFETY: all-zero is a valid `rusage`, which the call fills.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
            usage
        };
        let nanos =
            |t: libc::timeval| Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000);
        (nanos(usage.ru_utime), nanos(usage.ru_stime))
    }

    pub(crate) fn queued(mut self, backlog: Backlog) -> Self {
        (self.queued_packets, self.queued_bytes) = (backlog.packets, backlog.bytes.0);
        self
    }
}

/// Says something on standard output, as a line of JSON. Nobody may be listening any more; that is no
/// reason not to go on.
pub(crate) fn say(event: &impl Serialize) {
    let mut out = std::io::stdout().lock();
    let line = serde_json::to_string(event).unwrap_or_default();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
