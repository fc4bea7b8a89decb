//! First in, first out.

use forebay_config::Limit as LimitValue;
use forebay_queue::{Limit, Packet, Qdisc, fifo};
use forebay_tc::{self as tc, FifoLimit};
use forebay_units::{Nanos, Rate};

use crate::Settings;
use crate::limit::{LimitOnPath, MAX_BUFFERED_PACKETS, of_one_queue};
use crate::specification::{BuildError, Specification, Terms};

/// The longest wait unless a limit is given. All flows share the queue, and on a slow path the
/// default in packets is many seconds. A second is enough to fill a path of 500 ms (decision 62).
const MAX_WAIT: Nanos = Nanos::from_secs(1);

/// One queue that drops at the tail, and what has waited too long at the head.
pub(crate) struct Fifo;

impl Specification for Fifo {
    const NAME: &'static str = "fifo";
    const KERNEL_NAME: &'static str = "bfifo";
    const IN_TC: bool = true;

    fn build<P: Packet + 'static>(
        settings: &Settings,
        terms: Terms,
    ) -> Result<Box<dyn Qdisc<P>>, BuildError> {
        let mut limit = of_one_queue(settings.limit, terms.most_packets);
        if settings.limit.is_none() {
            limit = limit.and(Limit::time(MAX_WAIT));
        }
        Ok(Box::new(forebay_queue::Fifo::new(fifo::Config { limit })?))
    }

    fn capacity(settings: &Settings) -> u32 {
        of_one_queue(settings.limit, MAX_BUFFERED_PACKETS).packets
    }

    fn limit_on_path(limit: LimitOnPath) -> LimitValue {
        LimitValue::Bytes(limit.bytes)
    }

    fn to_tc(settings: &Settings) -> Option<tc::Discipline> {
        let limit = match settings.limit {
            Some(LimitValue::Bytes(bytes)) => FifoLimit::Bytes(bytes),
            _ => FifoLimit::Packets(Self::capacity(settings)),
        };
        Some(tc::Discipline::Fifo { limit })
    }

    fn tc_arguments(settings: &Settings, _rate: Rate) -> Option<String> {
        match settings.limit {
            Some(LimitValue::Bytes(bytes)) => Some(format!("bfifo limit {}", bytes.0)),
            _ => Some(format!("pfifo limit {}", Self::capacity(settings))),
        }
    }
}
