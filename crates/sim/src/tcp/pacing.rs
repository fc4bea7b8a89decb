/// How a host's TCP spreads out what it sends, whatever the congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pacing {
    /// It paces where congestion control does not ask for it too, at Linux's usual rate: twice the
    /// window per round trip in slow start, else 1.2 times. On Linux the fair queue makes TCP do so,
    /// or `SO_MAX_PACING_RATE`.
    pub always: bool,
    /// Segments that it sends in one go at most, if that is limited (`gso_max_segs` of Linux's
    /// interfaces). It sends two at least where it is not.
    pub largest_burst: Option<u32>,
}
