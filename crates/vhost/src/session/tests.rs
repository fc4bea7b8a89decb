//! Front ends that say what they should, as User-mode Linux does, and front ends that do not.

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
/// Where the front end has the guest's memory, and how much there is.
const AT: u64 = 0x7f00_0000_0000;
const LENGTH: u64 = 0x2_0000;

/// A front end's end of the socket, and the data thread's end of the commands.
struct FrontEnd {
    stream: UnixStream,
    commands: Commands,
    talk: JoinHandle<String>,
}

impl FrontEnd {
    fn new() -> Self {
        let (stream, own) = UnixStream::pair().unwrap();
        let (remote, commands) = channel().unwrap();
        let device = Device { mac: [2, 0, 0, 0, 0, 7], mtu: 1500 };
        let talk = thread::spawn(move || talk(3, own, &device, &Arc::new(remote)));
        Self { stream, commands, talk }
    }

    fn say(&self, request: u32, flags: u32, body: &[u8], fds: &[RawFd]) {
        let mut message = Vec::new();
        for word in [request, 1 | flags, body.len() as u32] {
            message.extend(word.to_ne_bytes());
        }
        message.extend(body);
        self.stream.send_with_fds(&[&message[..]], fds).unwrap();
    }

    fn words(&self, request: u32, words: &[u64], fds: &[RawFd]) {
        let body: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        self.say(request, 0, &body, fds);
    }

    /// A ring's number, and something about it.
    fn ring(&self, request: u32, index: u32, value: u32) {
        self.words(request, &[u64::from(index) | u64::from(value) << 32], &[]);
    }

    /// The reply's body.
    fn hear(&mut self, request: u32) -> Vec<u8> {
        let mut header = [0; 12];
        self.stream.read_exact(&mut header).unwrap();
        assert_eq!(header[..4], request.to_ne_bytes());
        assert_eq!(header[4..8], 5u32.to_ne_bytes(), "a reply, of version 1");
        let len = u32::from_ne_bytes(header[8..].try_into().unwrap());
        let mut body = vec![0; len as usize];
        self.stream.read_exact(&mut body).unwrap();
        body
    }

    fn hear_word(&mut self, request: u32) -> u64 {
        u64::from_ne_bytes(self.hear(request).try_into().unwrap())
    }

    fn command(&self) -> Command {
        loop {
            match self.commands.next() {
                Some(command) => return command,
                None => thread::yield_now(),
            }
        }
    }

    /// What a memory table is with room for two regions, one being there.
    fn memory_table(&self, flags: u32) {
        let file = memory_file();
        let mut body = 1u64.to_ne_bytes().to_vec();
        for word in [0, LENGTH, AT, 0, 0, 0, 0, 0u64] {
            body.extend(word.to_ne_bytes());
        }
        self.say(5, flags, &body, &[file.as_raw_fd()]);
    }

    /// All that a ring needs but to be enabled.
    fn describe(&self, index: u32, event: &File) {
        self.ring(8, index, 256);
        self.words(9, &[index.into(), AT, AT + 0x4000, AT + 0x2000, 0], &[]);
        self.ring(10, index, 5);
        self.words(12, &[index.into()], &[event.as_raw_fd()]);
        self.words(13, &[index.into()], &[event.as_raw_fd()]);
    }

    fn begin(&mut self) {
        self.words(3, &[], &[]);
        self.words(1, &[], &[]);
        let offered = self.hear_word(1);
        assert_eq!(offered, features::OFFERED);
        self.words(15, &[], &[]);
        let protocol = self.hear_word(15);
        assert_ne!(protocol & REPLY_ACK, 0);
        self.words(16, &[protocol], &[]);
        self.words(2, &[offered], &[]);
    }

    fn end(self) -> String {
        drop(self.stream);
        self.talk.join().unwrap()
    }
}

fn memory_file() -> File {
    // SAFETY: a terminated name; the descriptor is nobody else's.
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"guest".as_ptr(), 0)) };
    file.set_len(LENGTH).unwrap();
    file
}

fn event() -> File {
    // SAFETY: makes a descriptor, which nothing else owns.
    unsafe { File::from_raw_fd(libc::eventfd(0, 0)) }
}

#[test]
fn a_ring_starts_when_all_is_known_and_stops_where_it_was() {
    let mut front_end = FrontEnd::new();
    front_end.begin();
    front_end.memory_table(NEED_REPLY);
    assert_eq!(front_end.hear_word(5), 0, "longer than its regions, and well");
    front_end.describe(1, &event());
    front_end.ring(18, 1, 1);
    let Command::Start { vm, which, setup, features, .. } = front_end.command() else { panic!() };
    assert_eq!((vm, which, features), (3, Which::Transmit, features::OFFERED));
    assert_eq!((setup.size, setup.next, setup.header), (256, 5, 12));
    assert_eq!([setup.descriptors, setup.available, setup.used], [0, 0x2000, 0x4000]);
    assert!(setup.event_index && setup.merge && setup.kick.is_some() && setup.call.is_some());
    // A change stops it, and it goes on where the data thread left it.
    let front_end = change_call(front_end, 9);
    let Command::Start { setup, .. } = front_end.command() else { panic!() };
    assert_eq!(setup.next, 9);
    // At the end it is stopped, too.
    front_end.ring(11, 1, 0);
    let Command::Stop { answer, .. } = front_end.command() else { panic!() };
    answer.send(Some(12)).unwrap();
    let mut front_end = front_end;
    assert_eq!(front_end.hear_word(11), 1 | 12 << 32);
    assert!(!front_end.end().is_empty());
}

fn change_call(front_end: FrontEnd, next: u16) -> FrontEnd {
    front_end.words(13, &[1], &[event().as_raw_fd()]);
    let Command::Stop { which: Which::Transmit, answer, .. } = front_end.command() else {
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
    front_end.say(24, 0, &body, &[]);
    let reply = front_end.hear(24);
    assert_eq!(reply[12..], [2, 0, 0, 0, 0, 7, 1, 0, 1, 0, 0xdc, 5, 0, 0, 0, 0]);
    front_end.end();
}

#[test]
fn a_front_end_that_goes_leaves_no_ring_behind() {
    let mut front_end = FrontEnd::new();
    front_end.begin();
    front_end.memory_table(0);
    front_end.describe(0, &event());
    front_end.ring(18, 0, 1);
    assert!(matches!(front_end.command(), Command::Start { which: Which::Receive, .. }));
    let FrontEnd { stream, commands, talk } = front_end;
    drop(stream);
    let stop = loop {
        if let Some(command) = commands.next() {
            break command;
        }
        thread::yield_now();
    };
    let Command::Stop { answer, .. } = stop else { panic!("{stop:?}") };
    answer.send(None).unwrap();
    assert!(talk.join().unwrap().contains("closed"));
}

#[test]
fn what_makes_no_sense_ends_the_talk_and_nothing_else() {
    let after = |speak: &dyn Fn(&mut FrontEnd)| {
        let mut front_end = FrontEnd::new();
        front_end.begin();
        speak(&mut front_end);
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
    let too_long = after(&|f| f.say(5, 0, &[0; 4000], &[]));
    assert!(too_long.contains("too long"), "{too_long}");
    let without = after(&|f| f.say(5, 0, &[1, 0, 0, 0, 0, 0, 0, 0].repeat(5), &[]));
    assert!(without.contains("without a file"), "{without}");
    let longer = after(&|f| {
        let file = memory_file();
        let mut body = 1u64.to_ne_bytes().to_vec();
        [0, 2 * LENGTH, AT, 0].iter().for_each(|w: &u64| body.extend(w.to_ne_bytes()));
        f.say(5, 0, &body, &[file.as_raw_fd()]);
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
    // Heard after all of that.
    front_end.words(1, &[], &[]);
    front_end.hear_word(1);
    assert!(front_end.commands.next().is_none());
    front_end.end();
}
