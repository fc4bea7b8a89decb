//! The pacing of a host's TCP.

/// The pacing of a host's TCP, independent of the congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pacing {
    /// Paces even if the congestion control does not require it, at Linux's default rate: twice the
    /// window per round trip in slow start, otherwise 1.2 times. On Linux the `fq` qdisc or
    /// `SO_MAX_PACING_RATE` has this effect.
    pub always: bool,
    /// The largest burst in segments, if limited (`gso_max_segs` of Linux's interfaces). Without a
    /// limit bursts have at least two segments.
    pub largest_burst: Option<u32>,
}
