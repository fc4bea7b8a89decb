//! Carousel as a guest's queue: super-packets in a timing wheel.
//!
//! Each super-packet gets the time at which its flow's rate allows it, after the flow's earlier
//! ones (Saeed et al., "Carousel: Scalable Traffic Shaping at End Hosts", SIGCOMM 2017), and leaves
//! at that time or later. The wheel is that of [`forebay_queue::ffs`], whose buckets are found by
//! find-first-set instructions: the thesis used an integer priority queue too (section 4.5.2).

use forebay_queue::ConfigError;
use forebay_queue::ffs::TimingWheel;
use forebay_units::{Bytes, Nanos, Rate};

use super::SuperPacket;

/// The length of a bucket of the wheel.
const GRANULARITY: Nanos = Nanos::from_micros(8);
/// The number of buckets of a window, so that the wheel reaches a second ahead.
const BUCKETS: u32 = 1 << 17;

/// A super-packet with the time from which it may leave.
struct Timed {
    at: Nanos,
    packet: SuperPacket,
}

/// The wheel and the super-packets in it.
pub(super) struct Carousel {
    wheel: TimingWheel,
    /// The super-packets by the number that the wheel knows them by.
    waiting: Vec<Option<Timed>>,
    free: Vec<u32>,
    /// The time of each flow's next super-packet.
    next: Vec<Nanos>,
    /// The earliest departure that was announced and has not come.
    announced: Nanos,
}

impl Carousel {
    /// Creates an empty wheel for `slots` super-packets of endpoints below `endpoints`.
    pub(super) fn new(slots: u32, endpoints: u32) -> Result<Self, ConfigError> {
        Ok(Self {
            wheel: TimingWheel::new(GRANULARITY, BUCKETS, slots)?,
            waiting: (0..slots).map(|_| None).collect(),
            free: (0..slots).rev().collect(),
            next: vec![Nanos::ZERO; endpoints as usize],
            announced: Nanos::MAX,
        })
    }

    /// Returns the number of super-packets.
    pub(super) fn len(&self) -> usize {
        self.wheel.len() as usize
    }

    /// Enqueues a super-packet of a flow with this rate. There must be a free slot.
    pub(super) fn enqueue(&mut self, now: Nanos, packet: SuperPacket, rate: Rate) {
        let next = &mut self.next[packet.endpoint as usize];
        let at = (*next).max(now);
        *next = at.saturating_add(rate.time_for(Bytes(packet.len)));
        let Some(slot) = self.free.pop() else {
            debug_assert!(false, "a full queue admits nothing");
            return;
        };
        self.waiting[slot as usize] = Some(Timed { at, packet });
        self.wheel.insert(now, slot, at);
    }

    /// Returns a super-packet whose time has come.
    pub(super) fn dequeue(&mut self, now: Nanos) -> Option<SuperPacket> {
        if self.announced <= now {
            self.announced = Nanos::MAX;
        }
        loop {
            let slot = self.wheel.pop_due(now)?;
            let waiting = &mut self.waiting[slot as usize];
            // Those beyond the wheel's reach come early and are inserted again.
            if let Some(Timed { at, .. }) = waiting.as_ref().filter(|own| own.at > now) {
                self.wheel.insert(now, slot, *at);
                continue;
            }
            self.free.push(slot);
            return waiting.take().map(|own| own.packet);
        }
    }

    /// Returns the time of the earliest super-packet, if it is in the future and no earlier one was
    /// returned that has not come.
    pub(super) fn next_departure(&mut self, now: Nanos) -> Option<Nanos> {
        let at = self.wheel.next_due()?.max(now);
        if at >= self.announced {
            return None;
        }
        self.announced = at;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    fn packet(endpoint: u32) -> SuperPacket {
        SuperPacket { endpoint, segments: vec![0], len: 1000 }
    }

    #[test]
    fn a_flow_s_packets_leave_at_its_rate_and_others_meanwhile() {
        let mut carousel = Carousel::new(4, 2).unwrap();
        // 1000 B take a millisecond at 8 Mbit/s, and two at 4.
        for _ in 0..2 {
            carousel.enqueue(MS, packet(0), Rate::from_mbps(8));
            carousel.enqueue(MS, packet(1), Rate::from_mbps(4));
        }
        assert_eq!(carousel.len(), 4);
        let mut left = Vec::new();
        for micros in (1000..=5000).step_by(8) {
            let now = Nanos::from_micros(micros);
            while let Some(packet) = carousel.dequeue(now) {
                left.push((packet.endpoint, micros / 1000));
            }
        }
        assert_eq!(left, [(0, 1), (1, 1), (0, 2), (1, 3)]);
        // The flow has its time even if it comes late.
        carousel.enqueue(MS * 10, packet(0), Rate::from_mbps(8));
        assert!(carousel.dequeue(MS * 10).is_some());
    }

    #[test]
    fn a_time_beyond_the_wheel_s_reach_is_kept() {
        let mut carousel = Carousel::new(2, 1).unwrap();
        // 1000 B take eight seconds at 1 kbit/s.
        let rate = Rate::from_bps(1000);
        carousel.enqueue(Nanos::ZERO, packet(0), rate);
        carousel.enqueue(Nanos::ZERO, packet(0), rate);
        assert!(carousel.dequeue(Nanos::ZERO).is_some());
        let mut now = Nanos::ZERO;
        while let Some(at) = carousel.next_departure(now) {
            now = at;
            if carousel.dequeue(now).is_some() {
                break;
            }
        }
        assert!((MS * 8000..MS * 8001).contains(&now), "{now:?}");
        assert_eq!(carousel.len(), 0);
    }

    #[test]
    fn a_departure_is_announced_once() {
        let mut carousel = Carousel::new(4, 2).unwrap();
        carousel.enqueue(Nanos::ZERO, packet(0), Rate::from_mbps(8));
        carousel.enqueue(Nanos::ZERO, packet(0), Rate::from_mbps(8));
        assert!(carousel.dequeue(Nanos::ZERO).is_some());
        assert_eq!(carousel.next_departure(Nanos::ZERO), Some(MS));
        assert_eq!(carousel.next_departure(Nanos::ZERO), None);
        // An earlier one is announced, and the later one again when that has come.
        carousel.enqueue(Nanos(1), packet(1), Rate::from_mbps(8));
        assert!(carousel.next_departure(Nanos(1)).is_some_and(|at| at < MS));
        assert!(carousel.dequeue(Nanos::from_micros(8)).is_some());
        assert_eq!(carousel.next_departure(Nanos::from_micros(8)), Some(MS));
    }
}
