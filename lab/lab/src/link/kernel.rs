//! A queueing discipline of the kernel as the bottleneck.
//!
//! The discipline is on one end of a veth pair, and this process owns both ends: it sends frames
//! through the kernel's normal transmit path, where the discipline queues and shapes them, and
//! receives them at the other end. So the waiting time and the fate of each packet are known for
//! any discipline. Inside, a sequence number replaces the source address of a frame; no discipline
//! reads that address.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use forebay_dataplane::{Frame, Injector, Method, Netdev, Pool, Port, open_ports};
use forebay_system::clock;
use forebay_system::wait::Waiter;
use forebay_units::{Bytes, Nanos, Rate};
use forebay_wire::Frame as Parsed;

use super::bottleneck_queue::{BottleneckQueue, Sent};
use super::journal::{Arrival, Journal};
use super::waiting::{Inside, Waiting};
use super::{BATCH, LinkError};

/// The position of the source address in an Ethernet frame.
const SENDER: std::ops::Range<usize> = 6..12;
/// The first bytes of a source address that is a number; the second bit of the first byte means
/// "locally administered".
const NUMBERED: [u8; 2] = [0x06, 0xfb];
/// The size of a full frame.
const FRAME: Bytes = Bytes(1_514);
/// The time without output after which the queue counts as empty, in full frames. In real time it
/// is at least [`QUIET`], since a process that waits may be late.
const QUIET_FRAMES: u64 = 4;
const QUIET: Nanos = Nanos::from_millis(50);

/// A veth pair with the kernel's discipline on one end.
pub(super) struct KernelQueue {
    entry: Injector,
    exit: Box<dyn Port>,
    rate: Rate,
    waiting: Waiting,
    batch: Vec<Frame>,
    /// Frames that came out and were not examined yet.
    out: VecDeque<Frame>,
    /// The number of frames that came out after forwarding had ended.
    late: u64,
    lost: u64,
}

/// What must be known of a frame in addition to its length.
struct Look {
    flow: u32,
    marked: bool,
    /// Whether it belongs to L4S traffic when it enters.
    l4s: bool,
}

impl KernelQueue {
    /// Opens the queue between the interface `entry`, which has the discipline, and the interface
    /// `exit`.
    pub(super) fn new(
        entry: &Netdev,
        exit: &Netdev,
        rate: Rate,
        pool: &mut Pool,
    ) -> Result<Self, LinkError> {
        let mut ports = open_ports(std::slice::from_ref(exit), Method::Auto, pool)?;
        Ok(Self {
            entry: Injector::open(entry)?,
            exit: ports.swap_remove(0),
            rate,
            waiting: Waiting::default(),
            batch: Vec::with_capacity(BATCH),
            out: VecDeque::new(),
            late: 0,
            lost: 0,
        })
    }

    /// Returns the next frame that came out, with its own source address again. The discipline
    /// releases a packet when the wire is free for it.
    fn next(
        &mut self,
        now: Nanos,
        pool: &mut Pool,
        journal: &mut Journal,
    ) -> Result<Option<Sent>, LinkError> {
        loop {
            if self.out.is_empty() {
                self.exit.receive(pool, &mut self.batch, BATCH);
                self.out.extend(self.batch.drain(..));
            }
            let Some(mut frame) = self.out.pop_front() else { return Ok(None) };
            let bytes = pool.bytes_mut(&mut frame);
            let look = look(bytes);
            let known = number(bytes).and_then(|number| self.waiting.leave(look.flow, number));
            let Some((dropped, packet)) = known else {
                // A frame of the kernel itself, such as it sends when an interface comes up.
                pool.release(frame);
                continue;
            };
            bytes[SENDER].copy_from_slice(&packet.sender);
            for packet in dropped {
                journal.dropped(now, packet.arrival)?;
            }
            journal.sent(now, packet.arrival, look.marked && !packet.marked)?;
            let end = now + self.rate.time_for(packet.arrival.len);
            return Ok(Some(Sent { frame, end, source: packet.arrival.source }));
        }
    }
}

impl BottleneckQueue for KernelQueue {
    fn enter(
        &mut self,
        now: Nanos,
        mut frame: Frame,
        source: u8,
        pool: &mut Pool,
        journal: &mut Journal,
    ) -> Result<(), LinkError> {
        let len = Bytes(frame.len() as u64);
        let bytes = pool.bytes_mut(&mut frame);
        let look = look(bytes);
        let arrival = Arrival { time: now, len, source, flow_hash: look.flow, l4s: look.l4s };
        match self.waiting.number().and_then(|number| set_number(bytes, number)) {
            None => self.lost += 1,
            Some(sender) => match self.entry.send(bytes) {
                Ok(true) => {
                    self.waiting.enter(look.flow, Inside { arrival, sender, marked: look.marked });
                }
                Ok(false) => journal.dropped(now, arrival)?,
                Err(e) => {
                    tracing::debug!("a frame did not get to the queue: {e}");
                    self.lost += 1;
                }
            },
        }
        pool.release(frame);
        Ok(())
    }

    fn leave(
        &mut self,
        now: Nanos,
        pool: &mut Pool,
        journal: &mut Journal,
    ) -> Result<Option<Sent>, LinkError> {
        self.next(now, pool, journal)
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.exit.descriptors()
    }

    /// Waits until the queue is empty. Packets that did not come out by then count as dropped,
    /// which makes this count comparable with the kernel's own.
    fn settle(&mut self, pool: &mut Pool, journal: &mut Journal) -> Result<(), LinkError> {
        let quiet = QUIET.max(self.rate.time_for(FRAME) * QUIET_FRAMES);
        let mut waiter = Waiter::new(self.descriptors());
        let mut until = clock::now() + quiet;
        while self.waiting.len() > 0 && clock::now() < until {
            waiter.wait_until(until);
            while let Some(Sent { frame, .. }) = self.next(clock::now(), pool, journal)? {
                pool.release(frame);
                self.late += 1;
                until = clock::now() + quiet;
            }
        }
        let now = clock::now();
        self.waiting.take_all().into_iter().try_for_each(|p| journal.dropped(now, p.arrival))
    }

    fn queued(&self) -> u64 {
        self.late
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}

/// Extracts what is the same in a frame when it enters and when it comes out, and its mark.
fn look(frame: &[u8]) -> Look {
    match Parsed::parse(frame) {
        Ok(Parsed::Ip(headers)) => Look {
            flow: headers.flow_hash(),
            marked: headers.ecn == CE,
            l4s: matches!(headers.ecn, ECT1 | CE),
        },
        _ => Look { flow: 0, marked: false, l4s: false },
    }
}

/// The code point "congestion experienced" (RFC 3168 section 5).
const CE: u8 = 3;
/// The code point of L4S traffic (RFC 9331).
const ECT1: u8 = 1;

/// Replaces the source address by `number` and returns the address; `None` if the frame is too
/// short.
fn set_number(frame: &mut [u8], number: u32) -> Option<[u8; 6]> {
    let place = frame.get_mut(SENDER)?;
    let sender = <[u8; 6]>::try_from(&*place).ok()?;
    let (mark, digits) = place.split_at_mut(NUMBERED.len());
    mark.copy_from_slice(&NUMBERED);
    digits.copy_from_slice(&number.to_be_bytes());
    Some(sender)
}

/// Returns the number in place of the source address, if there is one.
fn number(frame: &[u8]) -> Option<u32> {
    let digits = frame.get(SENDER)?.strip_prefix(&NUMBERED)?;
    Some(u32::from_be_bytes(digits.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_replaces_only_the_source_address() {
        let mut frame: Vec<u8> = (0..20).collect();
        let plain = frame.clone();
        assert_eq!(number(&frame), None);
        let sender = set_number(&mut frame, 0xdead_beef).unwrap();
        assert_eq!(number(&frame), Some(0xdead_beef));
        assert_eq!((&frame[..6], &frame[12..]), (&plain[..6], &plain[12..]));
        frame[SENDER].copy_from_slice(&sender);
        assert_eq!(frame, plain);
        assert_eq!(set_number(&mut frame[..11], 1), None, "no room");
    }
}
