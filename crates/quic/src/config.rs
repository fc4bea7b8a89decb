use forebay_queue::backpressure::Hysteresis;
use forebay_queue::token_bucket::Burst;
use forebay_units::{Nanos, Rate};

/// What happens to a packet for which the scheduled buffer has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It is lost, and the sender is not told: as at a full qdisc of the host's.
    Drop,
    /// It stays with its connection, which is paused until there is room (zD).
    #[default]
    Zd,
}

/// Which packet of the scheduled buffer leaves next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// The first that came.
    #[default]
    Fifo,
    /// One of each connection in turn, by [`Sfq`](forebay_queue::Sfq). In mode [`Mode::Drop`] the connection
    /// with most packets in the buffer loses the one that is too many.
    Fair,
}

/// How an egress is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// At which rate packets leave, counted as Ethernet frames; `None` for as fast as the socket takes
    /// them, which is the default. Without a rate the buffer is full only while the socket is busy.
    pub rate: Option<Rate>,
    /// How much may leave at once after a pause. Two milliseconds by default: the thread that sends
    /// shares its cores with those that encrypt, and what it is later than this is lost to the link.
    pub burst: Burst,
    /// Packets that the scheduled buffer holds; 1000 by default, as a Linux interface's queue.
    pub packets: u32,
    /// Which packet leaves next.
    pub schedule: Schedule,
    /// What happens where there is no room.
    pub mode: Mode,
    /// Connections that can be told apart, each of some 80 bytes; 16 384 by default. Those past it
    /// share one place in the buffer and lose what does not fit, in either mode.
    pub flows: u32,
    /// Packets that a connection may have in the scheduled buffer, in mode [`Mode::Zd`]; two by
    /// default, as zD's regulator says (thesis, section 4.3.1).
    pub in_buffer: u16,
    /// Packets that a resumed connection may send in its turn; two by default (`sendTwo` in Algorithm 2).
    pub turn: u8,
    /// How much of the buffer must be free before connections are resumed, once it was full; an eighth by default.
    pub hysteresis: Hysteresis,
    /// Datagrams that quinn may hand over in one piece (segmentation offload), from 1 to 10. One by
    /// default: with more, quinn builds and encrypts that many packets ahead, and with thousands of
    /// connections that take turns of two the last of them leaves several rounds after it was built,
    /// which QUIC takes for round-trip time. For a few fast connections more cost less.
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
