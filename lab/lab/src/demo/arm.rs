/// An arm of the demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arm {
    /// The sendbox only forwards, and the bottleneck is a FIFO.
    StatusQuo,
    /// The bottleneck schedules by SFQ: the best case, if one could reconfigure it.
    InNetworkSfq,
    /// The sendbox holds the queue and schedules it by SFQ.
    ForebaySfq,
    /// The sendbox holds the queue and sends it first in, first out: the effect of moving the queue
    /// without scheduling it.
    ForebayFifo,
}

impl Arm {
    /// All arms in the order in which they are shown.
    pub const ALL: [Self; 4] =
        [Self::StatusQuo, Self::InNetworkSfq, Self::ForebaySfq, Self::ForebayFifo];

    /// The name in [`Run::arm`](crate::results::Run::arm), in files and in JSON.
    pub const fn key(self) -> &'static str {
        match self {
            Self::StatusQuo => "status_quo",
            Self::InNetworkSfq => "in_network_sfq",
            Self::ForebaySfq => "forebay_sfq",
            Self::ForebayFifo => "forebay_fifo",
        }
    }

    /// The name on pages and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StatusQuo => "Status quo",
            Self::InNetworkSfq => "In-network SFQ",
            Self::ForebaySfq => "Forebay SFQ",
            Self::ForebayFifo => "Forebay FIFO",
        }
    }

    /// A description in one sentence.
    pub const fn explained(self) -> &'static str {
        match self {
            Self::StatusQuo => "The sendbox only forwards; the bottleneck is a FIFO queue.",
            Self::InNetworkSfq => {
                "The bottleneck itself gives every flow its fair turn (SFQ). Nobody but the owner of \
                 the bottleneck can do this; it is the mark to compare with."
            }
            Self::ForebaySfq => {
                "The sendbox holds the queue and gives every flow its fair turn (SFQ); the bottleneck \
                 is the same FIFO queue as in the status quo."
            }
            Self::ForebayFifo => {
                "The sendbox holds the queue but lets packets out in order of arrival: what moving the \
                 queue does without scheduling it."
            }
        }
    }
}
