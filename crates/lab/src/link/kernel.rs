//! A queueing discipline of the kernel's as the bottleneck.
//!
//! It is on one end of a pair of interfaces, and both ends are this process's: frames go in through
//! the kernel's own way of sending, which the discipline holds up and shapes, and come out of the
//! other end. So the time that a packet waited is known, and what it met, whatever the discipline:
//! on its way a frame has a number in place of its sender's address, which no discipline looks at.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use forebay_dataplane::wait::Waiter;
use forebay_dataplane::{Frame, Injector, Method, Netdev, Pool, Port, clock, open_ports};
use forebay_units::{Bytes, Nanos, Rate};
use forebay_wire::Frame as Parsed;

use super::journal::{Arrival, Journal};
use super::neck::Neck;
use super::waiting::{Inside, Waiting};
use super::{BATCH, LinkError};

/// Where the sender's address is in an Ethernet frame.
const SENDER: std::ops::Range<usize> = 6..12;
/// A sender that is a number: locally administered, which is the second bit.
const NUMBERED: [u8; 2] = [0x06, 0xfb];
/// A full-sized frame.
const FRAME: Bytes = Bytes(1_514);
/// How long nothing comes out of a queue that is empty: some full frames' time, and on a machine in
/// real time at least so much that a process which waits may be late.
const QUIET_FRAMES: u64 = 4;
const QUIET: Nanos = Nanos::from_millis(50);

/// The queue and its two ends.
pub(super) struct KernelNeck {
    entry: Injector,
    exit: Box<dyn Port>,
    rate: Rate,
    waiting: Waiting,
    batch: Vec<Frame>,
    /// Frames that have come out and were not looked at yet.
    out: VecDeque<Frame>,
    /// Frames that came out when nothing was passed on any more.
    late: u64,
    lost: u64,
}

/// What must be known of a frame beside its length.
struct Look {
    flow: u32,
    marked: bool,
    /// Whether it is L4S traffic, when it goes in.
    l4s: bool,
}

impl KernelNeck {
    /// Between the interfaces `entry`, which has the discipline, and `exit`.
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

    /// The next frame that has come out, with its sender's address again, and when its last bit goes.
    /// The discipline lets a packet out when the wire is free for it.
    fn next(
        &mut self,
        now: Nanos,
        pool: &mut Pool,
        journal: &mut Journal,
    ) -> Result<Option<(Frame, Nanos)>, LinkError> {
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
                // The kernel's own, as when an interface comes up.
                pool.release(frame);
                continue;
            };
            bytes[SENDER].copy_from_slice(&packet.sender);
            for packet in dropped {
                journal.dropped(now, packet.arrival)?;
            }
            journal.sent(now, packet.arrival, look.marked && !packet.marked)?;
            return Ok(Some((frame, now + self.rate.time_for(packet.arrival.len))));
        }
    }
}

impl Neck for KernelNeck {
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
        let arrival = Arrival { time: now, len, source, l4s: look.l4s };
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
    ) -> Result<Option<(Frame, Nanos)>, LinkError> {
        self.next(now, pool, journal)
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.exit.descriptors()
    }

    /// Waits until the queue is empty: what has not come out by then was dropped, and the kernel's
    /// own count can be held against this one's.
    fn settle(&mut self, pool: &mut Pool, journal: &mut Journal) -> Result<(), LinkError> {
        let quiet = QUIET.max(self.rate.time_for(FRAME) * QUIET_FRAMES);
        let mut waiter = Waiter::new(self.descriptors());
        let mut until = clock::now() + quiet;
        while self.waiting.len() > 0 && clock::now() < until {
            waiter.wait_until(until);
            while let Some((frame, _)) = self.next(clock::now(), pool, journal)? {
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

/// The same in a frame that goes in and when it comes out, marked or not.
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

/// Congestion experienced (RFC 3168 section 5).
const CE: u8 = 3;
/// What L4S traffic says (RFC 9331).
const ECT1: u8 = 1;

/// Puts `number` where the sender's address is, and gives that; `None` if there is no room.
fn set_number(frame: &mut [u8], number: u32) -> Option<[u8; 6]> {
    let place = frame.get_mut(SENDER)?;
    let sender = <[u8; 6]>::try_from(&*place).ok()?;
    let (mark, digits) = place.split_at_mut(NUMBERED.len());
    mark.copy_from_slice(&NUMBERED);
    digits.copy_from_slice(&number.to_be_bytes());
    Some(sender)
}

/// The number in `frame`, if there is one.
fn number(frame: &[u8]) -> Option<u32> {
    let digits = frame.get(SENDER)?.strip_prefix(&NUMBERED)?;
    Some(u32::from_be_bytes(digits.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_in_for_the_sender_and_for_nothing_else() {
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
