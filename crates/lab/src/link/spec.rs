use std::path::PathBuf;

use forebay_dataplane::Pool;
use forebay_discipline::QueueSpec;
use forebay_units::{Nanos, Rate};
use serde::{Deserialize, Serialize};

/// What a link process is told, as one line of JSON on its standard input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The interface towards the senders.
    pub left: String,
    /// The interface towards the receivers, behind the bottleneck.
    pub right: String,
    /// The interfaces of further senders, which enter at the bottleneck too: the cross traffic's, and
    /// other sites'. At most 200.
    pub others: Vec<String>,
    /// The bottleneck's rate, in bits per second of frames.
    pub rate_bps: u64,
    /// Propagation delay each way, in nanoseconds.
    pub delay_ns: u64,
    /// What stands at the bottleneck.
    pub neck: NeckSpec,
    /// Where to record every packet through that queue.
    pub packet_log: PathBuf,
    /// How many packets to record at most.
    pub packet_limit: u64,
    /// Where to write the account of all packets at the end.
    pub counters: PathBuf,
}

/// The bottleneck's queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub enum NeckSpec {
    /// One of this project's, in front of a wire of the link's rate.
    Forebay {
        /// Which.
        queue: QueueSpec,
    },
    /// A queueing discipline of the kernel's, which shapes to the link's rate.
    Kernel {
        /// The interface that has it.
        entry: String,
        /// The other end of that interface, where what it sends comes out.
        exit: String,
    },
}

impl NeckSpec {
    /// Packets that may wait in this process's memory; those in the kernel are in the kernel's.
    fn packets(&self) -> u64 {
        match self {
            Self::Forebay { queue } => queue.packets(),
            Self::Kernel { .. } => 0,
        }
    }
}

impl LinkSpec {
    /// The bottleneck's rate.
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bps(self.rate_bps)
    }

    /// Propagation delay each way.
    pub(super) fn delay(&self) -> Nanos {
        Nanos(self.delay_ns)
    }

    /// A pool that holds what can be inside: the queue, what is on its way in both directions, and
    /// what the ports' rings take.
    pub(super) fn pool(&self, mtu: u32) -> Result<Pool, forebay_dataplane::Error> {
        const RINGS: u64 = 16_384;
        let on_the_way = 4 * self.rate().bytes_in(self.delay()).0 / 512;
        let chunks = self.neck.packets() + on_the_way + RINGS;
        Pool::new(chunks.min(1 << 20) as u32, mtu)
    }
}
