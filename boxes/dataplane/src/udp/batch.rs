//! Messages on their way to the kernel.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

use forebay_queue::egress::{Ask, Config, Departure, FlowId};
use forebay_units::Bytes;

use super::UdpStats;
use super::address::Address;
use super::segments::{MAX_MESSAGE, Segments, Written};
use crate::error::Error;

/// Messages of a system call.
const CALL: usize = 64;
/// Bytes of a control message with the length of segments: a header and a `u16`, aligned.
// SAFETY: computes a number.
const CONTROL: usize = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) } as usize;

/// A buffer for the control message of a message, aligned for `cmsghdr`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// A message: packets of one flow's turn.
#[derive(Clone, Copy, Debug)]
struct Message {
    flow: FlowId,
    to: Address,
    departure: Departure,
    /// The part of the buffer that is left to send.
    start: usize,
    end: usize,
    /// The length of each packet, of which the last one may be shorter.
    segment: usize,
    /// Whether nothing is left to send.
    gone: bool,
}

/// A part of a message that a system call sends.
#[derive(Clone, Copy, Default)]
struct Part {
    message: usize,
    bytes: usize,
    packets: u32,
}

/// What [`Batch::send`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// There was no message.
    Empty,
    /// The socket has no room for the first message.
    NoRoom,
    /// At least one packet was sent or refused.
    Some,
}

/// Messages that the kernel has not accepted yet, in order.
///
/// Their number and bytes are bounded by the engine's room, since they depart from the engine only
/// when the kernel has accepted them.
#[derive(Debug)]
pub(super) struct Batch {
    messages: Vec<Message>,
    /// The number of messages at the front that have departed.
    departed: usize,
    buffer: Vec<u8>,
    /// Whether the kernel cuts messages into packets.
    pub(super) segmentation: bool,
}

impl Batch {
    pub(super) fn new(config: &Config, segmentation: bool) -> Self {
        let turns = config.turns.min(config.packets) as usize;
        let bytes = (turns * MAX_MESSAGE).min(config.bytes.0.min(1 << 30) as usize);
        Self {
            messages: Vec::with_capacity(config.packets.min(1 << 20) as usize),
            departed: 0,
            buffer: Vec::with_capacity(bytes + MAX_MESSAGE),
            segmentation,
        }
    }

    /// Returns the place for the packets of a turn. [`Batch::add`] follows.
    pub(super) fn segments(&mut self, bytes: Bytes) -> Segments<'_> {
        self.compact();
        Segments::new(&mut self.buffer, bytes.0)
    }

    /// Adds the packets of a turn.
    pub(super) fn add(&mut self, ask: &Ask<'_>, to: Address, written: Written) {
        let Written { start, bytes, segment, packets } = written;
        if packets == 0 {
            return;
        }
        let departure = Departure { packets, bytes: Bytes(bytes as u64), asked: ask.now };
        let end = start + bytes;
        let flow = ask.flow;
        self.messages.push(Message { flow, to, departure, start, end, segment, gone: false });
    }

    /// Calls `depart` for each message that has been sent since the last call.
    pub(super) fn drain(&mut self, mut depart: impl FnMut(FlowId, Departure)) {
        let waiting = &self.messages[self.departed..];
        let gone = waiting.iter().take_while(|m| m.gone).inspect(|m| depart(m.flow, m.departure));
        self.departed += gone.count();
        if self.departed == self.messages.len() {
            self.messages.clear();
            self.buffer.clear();
            self.departed = 0;
        }
    }

    /// Gives back the memory of messages that have departed, once they are half of all: the rest is
    /// then moved seldom, and the buffer holds at most twice what waits.
    fn compact(&mut self) {
        if self.departed == 0 {
            return;
        }
        let from = self.messages[self.departed].start;
        if from * 2 < self.buffer.len() && self.departed * 2 < self.messages.len() {
            return;
        }
        self.messages.drain(..self.departed);
        self.buffer.drain(..from);
        self.departed = 0;
        for message in &mut self.messages {
            message.start -= from;
            message.end -= from;
        }
    }

    /// Sends messages with one system call.
    pub(super) fn send(&mut self, socket: RawFd, stats: &mut UdpStats) -> Result<Flushed, Error> {
        if self.departed == self.messages.len() {
            return Ok(Flushed::Empty);
        }
        loop {
            let (parts, result) = self.call(socket);
            match result {
                Ok(sent) => {
                    stats.calls += 1;
                    for &part in &parts[..sent] {
                        stats.packets += u64::from(part.packets);
                        stats.bytes += Bytes(part.bytes as u64);
                        stats.messages += 1;
                        self.advance(part);
                    }
                    return Ok(Flushed::Some);
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN) => return Ok(Flushed::NoRoom),
                    // The interface or a tunnel cannot compute checksums of segments.
                    Some(libc::EIO) if self.segmentation && parts[0].packets > 1 => {
                        tracing::warn!("the kernel does not segment UDP here: packets go singly");
                        self.segmentation = false;
                    }
                    Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT) => {
                        return Err(Error::system("sending datagrams", error));
                    }
                    // The error concerns the first part alone.
                    _ => {
                        tracing::debug!("a message was refused: {error}");
                        stats.refused += u64::from(parts[0].packets);
                        self.advance(parts[0]);
                        return Ok(Flushed::Some);
                    }
                },
            }
        }
    }

    fn advance(&mut self, part: Part) {
        let message = &mut self.messages[part.message];
        message.start += part.bytes;
        message.gone = message.start == message.end;
    }

    /// Passes the first messages to the kernel. Returns what was passed, and how many parts of it
    /// the kernel took.
    fn call(&self, socket: RawFd) -> ([Part; CALL], io::Result<usize>) {
        let mut parts = [Part::default(); CALL];
        let mut vectors = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; CALL];
        let mut controls = [Control([0; CONTROL]); CALL];
        // SAFETY: the structures consist of integers and pointers, for which zero is valid.
        let mut headers: [libc::mmsghdr; CALL] = unsafe { zeroed() };
        let mut count = 0;
        'messages: for (n, message) in self.messages.iter().enumerate().skip(self.departed) {
            let mut start = message.start;
            loop {
                if count == CALL {
                    break 'messages;
                }
                let left = message.end - start;
                let bytes = if self.segmentation { left } else { left.min(message.segment) };
                let packets = if bytes == 0 { 1 } else { bytes.div_ceil(message.segment) as u32 };
                parts[count] = Part { message: n, bytes, packets };
                let data = &self.buffer[start..start + bytes];
                vectors[count] =
                    libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: bytes };
                let (name, length) = message.to.raw();
                let header = &mut headers[count].msg_hdr;
                header.msg_name = name.cast_mut();
                header.msg_namelen = length;
                header.msg_iov = &raw mut vectors[count];
                header.msg_iovlen = 1;
                if packets > 1 {
                    header.msg_control = controls[count].0.as_mut_ptr().cast();
                    header.msg_controllen = CONTROL;
                    // SAFETY: the control buffer has room for one message with a `u16`, is aligned
                    // for its header, and outlives this call.
                    unsafe {
                        let control = libc::CMSG_FIRSTHDR(header);
                        (*control).cmsg_level = libc::SOL_UDP;
                        (*control).cmsg_type = libc::UDP_SEGMENT;
                        (*control).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as usize;
                        libc::CMSG_DATA(control).cast::<u16>().write(message.segment as u16);
                    }
                }
                count += 1;
                start += bytes;
                if start == message.end {
                    break;
                }
            }
        }
        // SAFETY: `count` headers point to addresses and data of `self`, which is borrowed, and to
        // vectors and control messages of this function. The kernel writes to the headers only.
        let sent = unsafe {
            libc::sendmmsg(socket, headers.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT)
        };
        let result = if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) };
        (parts, result)
    }
}

/// Returns whether the kernel cuts messages of `socket` into packets.
pub(super) fn can_segment(socket: &UdpSocket) -> bool {
    let off: libc::c_int = 0;
    // SAFETY: the kernel reads an integer of the given size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const off).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    result == 0
}
