//! Sessions with front ends that follow the protocol as User-mode Linux does, and with others.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::thread::JoinHandle;

use vmm_sys_util::sock_ctrl_msg::ScmSocket;

use super::*;
use crate::features;
use crate::ring::MAX_SIZE;

const NEED_REPLY: u32 = 1 << 3;
const REPLY_ACK: u64 = 1 << 3;
/// Address of the guest's memory in the front end.
const AT: u64 = 0x7f00_0000_0000;
/// Length of the guest's memory in bytes.
const LENGTH: u64 = 0x2_0000;

/// A front end's end of the socket, with the data thread's end of the commands.
struct FrontEnd {
    stream: UnixStream,
    commands: CommandReceiver,
    session: JoinHandle<String>,
    pairs: u8,
}

impl FrontEnd {
    fn new() -> Self {
        Self::with_pairs(1)
    }

    fn with_pairs(pairs: u8) -> Self {
        let (stream, own) = UnixStream::pair().unwrap();
        let (sender, commands) = channel().unwrap();
        let device = Device { mac: [2, 0, 0, 0, 0, 7], mtu: 1500, pairs };
        let session = thread::spawn(move || serve_connection(3, own, &device, &Arc::new(sender)));
        Self { stream, commands, session, pairs }
    }

    fn send(&self, request: u32, flags: u32, body: &[u8], fds: &[RawFd]) {
        let mut message = Vec::new();
        for word in [request, 1 | flags, body.len() as u32] {
            message.extend(word.to_ne_bytes());
        }
        message.extend(body);
        self.stream.send_with_fds(&[&message[..]], fds).unwrap();
    }

    fn words(&self, request: u32, words: &[u64], fds: &[RawFd]) {
        let body: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        self.send(request, 0, &body, fds);
    }

    /// Sends a request about ring `index` with a value.
    fn ring(&self, request: u32, index: u32, value: u32) {
        self.words(request, &[u64::from(index) | u64::from(value) << 32], &[]);
    }

    /// Receives a reply and returns its body.
    fn receive_reply(&mut self, request: u32) -> Vec<u8> {
        let mut header = [0; 12];
        self.stream.read_exact(&mut header).unwrap();
        assert_eq!(header[..4], request.to_ne_bytes());
        assert_eq!(header[4..8], 5u32.to_ne_bytes(), "a reply, of version 1");
        let len = u32::from_ne_bytes(header[8..].try_into().unwrap());
        let mut body = vec![0; len as usize];
        self.stream.read_exact(&mut body).unwrap();
        body
    }

    fn receive_word(&mut self, request: u32) -> u64 {
        u64::from_ne_bytes(self.receive_reply(request).try_into().unwrap())
    }

    fn command(&self) -> Command {
        loop {
            match self.commands.next() {
                Some(command) => return command,
                None => thread::yield_now(),
            }
        }
    }

    /// Sends a memory table with room for two regions, of which one is filled in.
    fn memory_table(&self, flags: u32) {
        let file = memory_file();
        let mut body = 1u64.to_ne_bytes().to_vec();
        for word in [0, LENGTH, AT, 0, 0, 0, 0, 0u64] {
            body.extend(word.to_ne_bytes());
        }
        self.send(5, flags, &body, &[file.as_raw_fd()]);
    }

    /// Describes ring `index` completely, without enabling it.
    fn describe(&self, index: u32, event: &File) {
        self.ring(8, index, 256);
        self.words(9, &[index.into(), AT, AT + 0x4000, AT + 0x2000, 0], &[]);
        self.ring(10, index, 5);
        self.words(12, &[index.into()], &[event.as_raw_fd()]);
        self.words(13, &[index.into()], &[event.as_raw_fd()]);
    }

    fn begin(&mut self) {
        let offered = features::offered(self.pairs);
        self.begin_with(offered);
    }

    /// Accepts these features.
    fn begin_with(&mut self, accepted: u64) {
        self.words(3, &[], &[]);
        self.words(1, &[], &[]);
        let offered = self.receive_word(1);
        assert_eq!(offered, features::offered(self.pairs));
        self.words(15, &[], &[]);
        let protocol = self.receive_word(15);
        assert_ne!(protocol & REPLY_ACK, 0);
        self.words(16, &[protocol], &[]);
        self.words(2, &[accepted], &[]);
    }

    fn end(self) -> String {
        drop(self.stream);
        self.session.join().unwrap()
    }
}

fn memory_file() -> File {
    // SAFETY: the name is terminated, and nothing else owns the descriptor.
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"guest".as_ptr(), 0)) };
    file.set_len(LENGTH).unwrap();
    file
}

fn event() -> File {
    // SAFETY: the call creates a descriptor that nothing else owns.
    unsafe { File::from_raw_fd(libc::eventfd(0, 0)) }
}

#[test]
fn a_ring_starts_when_described_and_continues_where_it_stopped() {
    let mut front_end = FrontEnd::new();
    front_end.begin();
    front_end.memory_table(NEED_REPLY);
    assert_eq!(front_end.receive_word(5), 0, "a table longer than its regions is accepted");
    front_end.describe(1, &event());
    front_end.ring(18, 1, 1);
    let Command::Start { vm, ring, setup, features, .. } = front_end.command() else { panic!() };
    assert_eq!((vm, ring, features), (3, RingId::Transmit(0), features::OFFERED));
    assert_eq!((setup.size, setup.next, setup.header), (256, 5, 12));
    assert_eq!([setup.descriptors, setup.available, setup.used], [0, 0x2000, 0x4000]);
    assert!(setup.event_index && setup.merge && setup.kick.is_some() && setup.call.is_some());
    // A change stops the ring, and it continues where the data thread left it.
    let front_end = change_call(front_end, 9);
    let Command::Start { setup, .. } = front_end.command() else { panic!() };
    assert_eq!(setup.next, 9);
    // Reading the base stops the ring too.
    front_end.ring(11, 1, 0);
    let Command::Stop { answer, .. } = front_end.command() else { panic!() };
    answer.send(Some(12)).unwrap();
    let mut front_end = front_end;
    assert_eq!(front_end.receive_word(11), 1 | 12 << 32);
    assert!(!front_end.end().is_empty());
}

fn change_call(front_end: FrontEnd, next: u16) -> FrontEnd {
    front_end.words(13, &[1], &[event().as_raw_fd()]);
    let Command::Stop { ring: RingId::Transmit(0), answer, .. } = front_end.command() else {
        panic!()
    };
    answer.send(Some(next)).unwrap();
    front_end
}

#[test]
fn a_driver_reads_its_address_and_its_mtu() {
    let mut front_end = FrontEnd::new();
    front_end.begin();
    let mut body = Vec::new();
    for word in [0u32, 16, 0] {
        body.extend(word.to_ne_bytes());
    }
    body.extend([0; 16]);
    front_end.send(24, 0, &body, &[]);
    let reply = front_end.receive_reply(24);
    assert_eq!(reply[12..], [2, 0, 0, 0, 0, 7, 1, 0, 1, 0, 0xdc, 5, 0, 0, 0, 0]);
    front_end.end();
}

#[test]
fn a_disconnected_front_end_leaves_no_ring_running() {
    let mut front_end = FrontEnd::new();
    front_end.begin();
    front_end.memory_table(0);
    front_end.describe(0, &event());
    front_end.ring(18, 0, 1);
    assert!(matches!(front_end.command(), Command::Start { ring: RingId::Receive(0), .. }));
    let FrontEnd { stream, commands, session, .. } = front_end;
    drop(stream);
    let stop = loop {
        if let Some(command) = commands.next() {
            break command;
        }
        thread::yield_now();
    };
    let Command::Stop { answer, .. } = stop else { panic!("{stop:?}") };
    answer.send(None).unwrap();
    assert!(session.join().unwrap().contains("closed"));
}

#[test]
fn invalid_messages_end_the_session_only() {
    let after = |send: &dyn Fn(&mut FrontEnd)| {
        let mut front_end = FrontEnd::new();
        front_end.begin();
        send(&mut front_end);
        let why = front_end.end();
        assert!(!why.is_empty());
        why
    };
    after(&|f| f.stream.write_all(&[0xff; 64]).unwrap());
    after(&|f| f.stream.write_all(&[5, 0, 0, 0]).unwrap());
    after(&|f| f.words(2, &[u64::MAX], &[]));
    after(&|f| f.ring(8, 7, 256));
    after(&|f| f.ring(8, 1, 100));
    after(&|f| f.ring(8, 1, u32::from(MAX_SIZE) * 2));
    after(&|f| f.ring(18, 1, 2));
    let too_long = after(&|f| f.send(5, 0, &[0; 4000], &[]));
    assert!(too_long.contains("too long"), "{too_long}");
    let without = after(&|f| f.send(5, 0, &[1, 0, 0, 0, 0, 0, 0, 0].repeat(5), &[]));
    assert!(without.contains("one file for each"), "{without}");
    let longer = after(&|f| {
        let file = memory_file();
        let mut body = 1u64.to_ne_bytes().to_vec();
        [0, 2 * LENGTH, AT, 0].iter().for_each(|w: &u64| body.extend(w.to_ne_bytes()));
        f.send(5, 0, &body, &[file.as_raw_fd()]);
    });
    assert!(longer.contains("longer than its file"), "{longer}");
}

#[test]
fn rings_outside_the_memory_do_not_start() {
    let mut front_end = FrontEnd::new();
    front_end.begin();
    front_end.memory_table(0);
    front_end.words(9, &[1, AT + LENGTH, AT, AT, 0], &[]);
    front_end.ring(8, 1, 256);
    front_end.words(12, &[1], &[event().as_raw_fd()]);
    front_end.ring(18, 1, 1);
    // The reply comes after all previous requests.
    front_end.words(1, &[], &[]);
    front_end.receive_word(1);
    assert!(front_end.commands.next().is_none());
    front_end.end();
}

/// Describes and enables all rings of four pairs and the control queue; returns what started.
fn start_four_pairs(front_end: &FrontEnd) -> Vec<RingId> {
    front_end.memory_table(0);
    let event = event();
    for index in 0..9 {
        front_end.describe(index, &event);
        front_end.ring(18, index, 1);
    }
    // The reply comes after all previous requests.
    front_end.words(1, &[], &[]);
    let mut stream = &front_end.stream;
    stream.read_exact(&mut [0; 20]).unwrap();
    std::iter::from_fn(|| front_end.commands.next())
        .map(|command| match command {
            Command::Start { ring, .. } => ring,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn several_pairs_and_a_control_queue_start() {
    let mut front_end = FrontEnd::with_pairs(4);
    front_end.begin();
    front_end.words(17, &[], &[]);
    assert_eq!(front_end.receive_word(17), 4, "pairs");
    let started = start_four_pairs(&front_end);
    let pairs = (0..4).flat_map(|pair| [RingId::Receive(pair), RingId::Transmit(pair)]);
    assert_eq!(started, pairs.chain([RingId::Control]).collect::<Vec<_>>());
    // The same features again, as QEMU sends them for each pair, stop no ring.
    front_end.words(2, &[features::offered(4)], &[]);
    // A pair is switched off.
    front_end.ring(18, 5, 0);
    let Command::Stop { ring, answer, .. } = front_end.command() else { panic!() };
    assert_eq!(ring, RingId::Transmit(2));
    answer.send(Some(7)).unwrap();
    // On again, it continues.
    front_end.ring(18, 5, 1);
    let Command::Start { ring, setup, .. } = front_end.command() else { panic!() };
    assert_eq!((ring, setup.next), (RingId::Transmit(2), 7));
    stop_and_end(front_end);
}

/// Disconnects a front end, and answers for the data thread that its rings have stopped.
fn stop_and_end(front_end: FrontEnd) {
    let FrontEnd { stream, commands, session, .. } = front_end;
    drop(stream);
    while !session.is_finished() {
        if let Some(Command::Stop { answer, .. }) = commands.next() {
            answer.send(None).unwrap();
        }
        thread::yield_now();
    }
}

#[test]
fn a_driver_of_one_pair_gets_one_pair() {
    let one = features::OFFERED;
    let with_control = one | 1 << features::CONTROL;
    let pair = [RingId::Receive(0), RingId::Transmit(0)];
    for (accepted, control) in [(one, false), (with_control, true)] {
        let mut front_end = FrontEnd::with_pairs(4);
        front_end.begin_with(accepted);
        let control = control.then_some(RingId::Control);
        let expected: Vec<_> = pair.into_iter().chain(control).collect();
        assert_eq!(start_four_pairs(&front_end), expected);
        stop_and_end(front_end);
    }
}

#[test]
fn a_ring_beyond_the_last_one_ends_the_session() {
    for (pairs, index) in [(1, 2), (4, 9), (16, 33), (16, u32::MAX)] {
        let mut front_end = FrontEnd::with_pairs(pairs);
        front_end.begin();
        front_end.ring(8, index, 256);
        let why = front_end.session.join().unwrap();
        assert!(why.contains("invalid parameters"), "{why}");
    }
}

#[test]
fn one_pair_is_offered_without_further_features() {
    assert_eq!(features::offered(1), features::OFFERED);
    let more = features::offered(2) & !features::OFFERED;
    assert_eq!(more, 1 << 17 | 1 << 22, "the control queue and several pairs");
    let mut front_end = FrontEnd::new();
    front_end.begin();
    // The number of pairs is not known without the protocol's feature.
    front_end.words(17, &[], &[]);
    assert!(!front_end.end().is_empty());
}
