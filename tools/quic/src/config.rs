use forebay_queue::backpressure::Hysteresis;
use forebay_queue::token_bucket::Burst;
use forebay_units::{Nanos, Rate};

/// What happens to a packet for which the scheduled buffer has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The packet is dropped without notice to the sender, as by a full qdisc of the host.
    Drop,
    /// The packet stays with its connection, which is paused until there is room (zD).
    #[default]
    Zd,
}

/// The order in which packets leave the scheduled buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// Packets leave in the order of arrival.
    #[default]
    Fifo,
    /// Connections take turns of one packet each, by [`Sfq`](forebay_queue::Sfq). In mode
    /// [`Mode::Drop`], the connection with most packets in the buffer loses one if there are too
    /// many.
    Fair,
}

/// The configuration of an egress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The rate at which packets leave, counted as Ethernet frames. With `None`, the default, they
    /// leave as fast as the socket takes them, and the buffer is full only while the socket is
    /// busy.
    pub rate: Option<Rate>,
    /// The amount that may leave at once after a pause. Default two milliseconds: the thread that
    /// sends shares its cores with encryption, and time by which it is later than this is lost.
    pub burst: Burst,
    /// Capacity of the scheduled buffer in packets. Default 1000, as for a Linux interface's queue.
    pub packets: u32,
    /// The order in which packets leave.
    pub schedule: Schedule,
    /// What happens to packets that do not fit.
    pub mode: Mode,
    /// The largest number of connections that can be paused, each with about 80 bytes of state.
    /// Default 16 384. Further connections share one place in the buffer, and their packets that do
    /// not fit are dropped in either mode.
    pub flows: u32,
    /// The largest number of packets of a connection in the scheduled buffer, in mode [`Mode::Zd`].
    /// Default two, as in zD's regulator (thesis, section 4.3.1).
    pub in_buffer: u16,
    /// The number of packets that a resumed connection may send in its turn. Default two (`sendTwo`
    /// in Algorithm 2).
    pub turn: u8,
    /// The free share of the buffer at which connections are resumed after it was full. Default an
    /// eighth.
    pub hysteresis: Hysteresis,
    /// The largest number of datagrams in one transmit of quinn (segmentation offload), 1 to 10.
    /// Default one. With more, quinn builds and encrypts that many packets ahead. With thousands of
    /// connections that take turns of two, the last of them leaves several rounds later, and QUIC
    /// counts this as round-trip time. For a few fast connections a larger number costs less
    /// processor time.
    pub segments: u8,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rate: None,
            burst: Burst::Time(Nanos::from_millis(2)),
            packets: 1000,
            schedule: Schedule::Fifo,
            mode: Mode::Zd,
            flows: 16_384,
            in_buffer: 2,
            turn: 2,
            hysteresis: Hysteresis::OneIn(8),
            segments: 1,
        }
    }
}
