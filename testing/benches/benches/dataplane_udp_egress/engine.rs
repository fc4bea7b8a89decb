//! One thread and one socket, by the egress engine.

use std::net::{Ipv4Addr, UdpSocket};
use std::ops::Range;

use forebay_dataplane::udp::{Segments, Source, UdpSender};
use forebay_queue::egress::{Ask, Config, Hint, Next, Policy, Settings, Sizing};
use forebay_system::clock;
use forebay_system::wait::precise_timers;
use forebay_units::{Bytes, Nanos};

use crate::load::{Gate, Load, PAYLOAD, Sent, write};
use crate::sockets::{SEND_BUFFER, force_send_buffer};

/// The number of packets that each flow has sent.
struct Endless {
    sent: Vec<u32>,
    burst: u32,
}

impl Source for Endless {
    fn fill(&mut self, ask: &Ask<'_>, segments: &mut Segments<'_>) -> Next {
        let flow = ask.flow.index();
        let number = &mut self.sent[flow as usize];
        for _ in 0..self.burst {
            let Some(packet) = segments.push(PAYLOAD) else { break };
            write(packet, flow, *number, ask.due);
            *number += 1;
        }
        Next::Ready(Hint::default())
    }
}

/// Sends with pacing to `granularity`.
pub(crate) fn send(load: Load, flows: Range<u32>, granularity: Nanos, gate: &Gate) -> Sent {
    precise_timers();
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    force_send_buffer(&socket, SEND_BUFFER);
    // Messages have the same size in all arms, so they do not grow when the host is busy.
    let message = Bytes(load.message() as u64);
    let smallest = Bytes(PAYLOAD as u64);
    let sizing = Sizing { initial: message, smallest, largest: message, ..Sizing::default() };
    // A flow is not held until its message has gone, which happens within the same poll.
    let in_host = 2 * load.burst as u16;
    let config = Config { flows: load.flows, sizing, in_host, granularity, ..Config::default() };
    let mut sender = UdpSender::new(socket, config, Policy::Paced).unwrap();
    let settings = Settings { rate: Some(load.rate()), ..Settings::default() };
    let ids: Vec<_> =
        flows.clone().map(|flow| sender.open(load.to(flow), settings).unwrap().unwrap()).collect();
    let mut source = Endless { sent: vec![0; load.flows as usize], burst: load.burst };
    let mut woken = 0;
    let mut meter = gate.pass();
    let start = meter.window.start;
    loop {
        let now = clock::now();
        if !meter.goes_on(now, sender.stats().packets) {
            let stats = sender.stats();
            let share = stats.messages as f64 / stats.calls as f64;
            eprintln!("  {share:.2} messages in a system call");
            return meter.sent;
        }
        while woken < ids.len() && load.first(start, woken as u32) <= now {
            let due = load.first(start, woken as u32);
            sender.wake_all(due, &[(ids[woken], Hint::default())]);
            woken += 1;
        }
        let mut next = sender.poll(now, &mut source).unwrap().next.unwrap_or(meter.window.closed());
        if woken < ids.len() {
            next = next.min(load.first(start, woken as u32));
        }
        if next > now {
            sender.wait_until(next);
        }
    }
}
