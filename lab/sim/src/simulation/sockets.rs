//! Hosts with UDP sockets.

use forebay_queue::Ecn;
use forebay_units::Nanos;

use super::{Event, Simulation};
use crate::network::RouteId;
use crate::observer::Observer;
use crate::packet::{Body, Packet, UDP_HEADERS, fingerprint};
use crate::traffic::{Socket, SocketKind};
use crate::udp::prague::{Report, Sender};
use crate::udp::{BULK_PAYLOAD, LOOP_PAYLOAD, LOST_AFTER, REPORT_PAYLOAD, Window};

impl Socket {
    fn deadline(&self) -> Nanos {
        match &self.kind {
            SocketKind::Bulk { window, sink } => {
                sink.deadline().min(window.as_ref().map_or(Nanos::MAX, Window::deadline))
            }
            SocketKind::Prague { sender, receiver } => {
                receiver.deadline().min(sender.as_ref().map_or(Nanos::MAX, |s| s.deadline()))
            }
            SocketKind::Pattern { start, next, .. } => {
                let next = start.saturating_add(next.at);
                if next < self.stop { next } else { Nanos::MAX }
            }
            SocketKind::Loop { asked: Some(start), .. } => start.saturating_add(LOST_AFTER),
            SocketKind::Loop { asked: None, .. } => Nanos::MAX,
        }
    }
}

impl<O: Observer> Simulation<O> {
    /// Handles the timer of a socket; the first event starts its flow.
    pub(super) fn on_socket(&mut self, index: u32) {
        let now = self.now;
        let socket = &mut self.sockets[index as usize];
        if socket.awaited != now {
            return;
        }
        socket.awaited = Nanos::MAX;
        let open = now < socket.stop;
        match &mut socket.kind {
            SocketKind::Bulk { window, sink } => {
                match window {
                    _ if !open => *window = None,
                    None => *window = Some(Window::new(now)),
                    Some(window) if window.deadline() <= now => window.silence(now),
                    Some(_) => {}
                }
                if sink.deadline() <= now {
                    self.report(index);
                }
                self.send_bulk(index);
            }
            SocketKind::Prague { sender, receiver } => {
                match sender {
                    _ if !open => *sender = None,
                    None => *sender = Some(Box::new(Sender::new(now))),
                    Some(sender) => sender.on_time(now),
                }
                if receiver.deadline() <= now {
                    self.report_marks(index);
                }
                self.send_prague(index);
            }
            SocketKind::Pattern { next, rest, .. } if open => {
                let size = next.size.0;
                // A pattern is infinite, so there is always a next datagram.
                *next = rest.next().unwrap_or(*next);
                let number = socket.made;
                self.datagram(index, true, size, Body::Datagram { socket: index, number });
            }
            SocketKind::Pattern { .. } => {}
            SocketKind::Loop { asked: Some(start), .. } if now < *start + LOST_AFTER => {}
            SocketKind::Loop { asked, .. } => {
                if let Some(start) = asked.take() {
                    let (traffic, flow) = (socket.traffic as usize, socket.flow);
                    self.observer.looped(traffic, flow, start, None);
                }
                self.next_round(index);
            }
        }
        self.await_socket(index);
    }

    /// Handles a datagram of `payload` bytes at the far end.
    pub(super) fn on_datagram(&mut self, index: u32, number: u64, payload: u64, marked: bool) {
        let now = self.now;
        let socket = &mut self.sockets[index as usize];
        let (traffic, flow) = (socket.traffic as usize, socket.flow);
        match &mut socket.kind {
            SocketKind::Bulk { sink, .. } => {
                let report = sink.on_datagram(now, number);
                self.observer.read(traffic, flow, payload);
                if report {
                    self.report(index);
                }
            }
            SocketKind::Prague { receiver, .. } => {
                let report = receiver.on_datagram(now, number, marked);
                self.observer.read(traffic, flow, payload);
                if report {
                    self.report_marks(index);
                }
            }
            SocketKind::Pattern { .. } => self.observer.read(traffic, flow, payload),
            SocketKind::Loop { round, asked } => {
                // Responses to rounds that were given up are ignored.
                if *round == number
                    && let Some(start) = asked.take()
                {
                    self.observer.looped(traffic, flow, start, Some(now));
                    self.next_round(index);
                }
            }
        }
        self.await_socket(index);
    }

    /// Answers the request of a closed loop.
    pub(super) fn on_loop_request(&mut self, index: u32, number: u64) {
        self.datagram(index, true, LOOP_PAYLOAD, Body::Datagram { socket: index, number });
    }

    pub(super) fn on_report(&mut self, index: u32, next: u64, received: u64) {
        let now = self.now;
        if let SocketKind::Bulk { window: Some(window), .. } =
            &mut self.sockets[index as usize].kind
        {
            window.report(now, next, received);
            self.send_bulk(index);
            self.await_socket(index);
        }
    }

    /// Handles a report of Prague's receiver.
    pub(super) fn on_marks(&mut self, index: u32, report: &Report) {
        let now = self.now;
        if let SocketKind::Prague { sender: Some(sender), .. } =
            &mut self.sockets[index as usize].kind
        {
            sender.report(now, report);
            self.send_prague(index);
            self.await_socket(index);
        }
    }

    fn report_marks(&mut self, index: u32) {
        let now = self.now;
        if let SocketKind::Prague { receiver, .. } = &mut self.sockets[index as usize].kind {
            let body = Body::Marks { socket: index, report: receiver.report(now) };
            self.datagram(index, false, Report::LEN as u64, body);
        }
    }

    fn send_prague(&mut self, index: u32) {
        loop {
            let socket = &mut self.sockets[index as usize];
            let open = self.now < socket.stop;
            let SocketKind::Prague { sender: Some(sender), .. } = &mut socket.kind else { return };
            let Some(number) = sender.send(self.now).filter(|_| open) else { return };
            self.datagram(index, true, BULK_PAYLOAD, Body::Datagram { socket: index, number });
        }
    }

    fn report(&mut self, index: u32) {
        if let SocketKind::Bulk { sink, .. } = &mut self.sockets[index as usize].kind {
            let (next, received) = sink.report();
            let body = Body::Report { socket: index, next, received };
            self.datagram(index, false, REPORT_PAYLOAD, body);
        }
    }

    fn send_bulk(&mut self, index: u32) {
        loop {
            let socket = &mut self.sockets[index as usize];
            let open = self.now < socket.stop;
            let SocketKind::Bulk { window: Some(window), .. } = &mut socket.kind else { return };
            let Some(number) = window.send().filter(|_| open) else { return };
            self.datagram(index, true, BULK_PAYLOAD, Body::Datagram { socket: index, number });
        }
    }

    fn next_round(&mut self, index: u32) {
        let socket = &mut self.sockets[index as usize];
        if self.now >= socket.stop {
            return;
        }
        if let SocketKind::Loop { round, asked } = &mut socket.kind {
            *round += 1;
            *asked = Some(self.now);
            let body = Body::Request { socket: index, number: *round };
            self.datagram(index, false, LOOP_PAYLOAD, body);
        }
    }

    fn datagram(&mut self, index: u32, forward: bool, payload: u64, body: Body) {
        let socket = &mut self.sockets[index as usize];
        socket.made += 1;
        let route: RouteId = if forward { socket.path.forward } else { socket.path.backward };
        let ecn = match socket.kind {
            SocketKind::Pattern { ecn, .. } => ecn,
            SocketKind::Prague { .. } => Ecn::Ect1,
            _ => Ecn::NotEct,
        };
        // The reverse direction is another flow.
        let flow_hash = if forward { socket.hash } else { !socket.hash };
        let packet = Packet {
            body,
            len: (payload + UDP_HEADERS) as u16,
            ecn,
            route,
            hop: 0,
            flow_hash,
            fingerprint: fingerprint(flow_hash, socket.made),
        };
        self.send(packet);
    }

    fn await_socket(&mut self, index: u32) {
        let socket = &mut self.sockets[index as usize];
        let deadline = socket.deadline();
        if deadline < socket.awaited {
            socket.awaited = deadline;
            self.events.push(deadline, Event::Socket(index));
        }
    }
}
