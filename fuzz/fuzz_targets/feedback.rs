//! Runs both ends of a feedback channel over a network that the input controls: it loses, repeats,
//! reorders, changes and forges datagrams, and restarts the ends.
#![no_main]

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU64;

use forebay_units::{Bytes, Nanos, Rate};
use forebay_wire::EpochSize;
use forebay_wire::feedback::{
    Arrival, BundleId, Feedback, Key, Others, ReceiveboxChannel, Received, SendboxChannel,
    SendboxCounts, Session, bundle_of,
};
use libfuzzer_sys::fuzz_target;

const BUNDLE: BundleId = BundleId(1);

fuzz_target!(|script: &[u8]| {
    // A stranger's datagram, and a stranger's key file.
    let _ = bundle_of(script);
    let mut network = Network::new();
    assert!(network.sendbox.receive(script).is_err());
    assert!(network.receivebox.receive(script, || 0).is_err());
    if let Ok(text) = std::str::from_utf8(script)
        && let Ok(key) = text.parse::<Key>()
    {
        assert!(text.trim_ascii().eq_ignore_ascii_case(&key.text().to_string()));
    }
    for step in script.chunks_exact(3) {
        network.step(step[0], step[1], step[2]);
    }
    network.settle();
});

struct Network {
    key: Key,
    sendbox: SendboxChannel,
    receivebox: ReceiveboxChannel,
    to_receivebox: Vec<Vec<u8>>,
    to_sendbox: Vec<Vec<u8>>,
    lives: u64,
    arrivals: u32,
    accepted: HashSet<u32>,
    sent: HashMap<u32, Arrival>,
}

impl Network {
    fn new() -> Self {
        let key = Key::new([0x5a; 32]);
        Self {
            sendbox: SendboxChannel::new(BUNDLE, &key, session(1)),
            receivebox: ReceiveboxChannel::new(BUNDLE, &key, session(1 << 32)),
            key,
            to_receivebox: Vec::new(),
            to_sendbox: Vec::new(),
            lives: 1,
            arrivals: 0,
            accepted: HashSet::new(),
            sent: HashMap::new(),
        }
    }

    fn step(&mut self, what: u8, which: u8, how: u8) {
        match what % 8 {
            0 => {
                let epoch = EpochSize::from_log2(how % 25).expect("at most 24");
                self.to_receivebox
                    .push(self.sendbox.update(epoch, SendboxCounts::default()).to_vec());
            }
            1 => self.arrival(how),
            2 => {
                if let Some(datagram) = pick(&self.to_receivebox, which) {
                    self.to_sendbox
                        .extend(self.receivebox.receive(datagram, || 0).map(|d| d.to_vec()));
                }
            }
            3 => {
                if let Some(datagram) = pick(&self.to_sendbox, which).cloned() {
                    self.deliver(&datagram);
                }
            }
            4 => {
                let datagrams = self.to_receivebox.iter().chain(&self.to_sendbox);
                let all: Vec<_> = datagrams.cloned().collect();
                if let Some(datagram) = pick(&all, which) {
                    self.forge(datagram.clone(), how);
                }
            }
            5 => {
                self.lives += 1;
                self.sendbox = SendboxChannel::new(BUNDLE, &self.key, session(self.lives));
            }
            6 => {
                self.lives += 1;
                let session = session(self.lives << 32);
                self.receivebox = ReceiveboxChannel::new(BUNDLE, &self.key, session);
            }
            // The wrong way round.
            _ => {
                if let Some(datagram) = pick(&self.to_receivebox, which) {
                    assert!(self.sendbox.receive(datagram).is_err());
                }
                if let Some(datagram) = pick(&self.to_sendbox, which) {
                    assert!(self.receivebox.receive(datagram, || 0).is_err());
                }
            }
        }
    }

    fn arrival(&mut self, how: u8) {
        self.arrivals += 1;
        let arrival = Arrival {
            fingerprint: u32::from(how) * 0x0101_0101,
            time: Nanos(u64::from(how) << 56 | u64::from(self.arrivals)),
            bytes: Bytes(u64::from(self.arrivals) * 1514),
            packets: self.arrivals,
        };
        let others = (how % 2 == 1).then_some(Others {
            bytes: Bytes(u64::from(how) << 50),
            fair: Rate::from_bps(u64::from(how) << 40),
        });
        let held = Nanos(u64::from(how) << 20);
        if let Some(datagram) = self.receivebox.feedback(arrival, held, others) {
            self.sent.insert(self.arrivals, arrival);
            self.to_sendbox.push(datagram.to_vec());
        }
    }

    fn deliver(&mut self, datagram: &[u8]) {
        if let Ok(Received::Feedback(Feedback { arrival, .. })) = self.sendbox.receive(datagram) {
            assert_eq!(self.sent.get(&arrival.packets), Some(&arrival), "not what was sent");
            assert!(self.accepted.insert(arrival.packets), "accepted twice");
        }
    }

    fn forge(&mut self, mut datagram: Vec<u8>, how: u8) {
        let place = usize::from(how) % datagram.len();
        datagram[place] ^= 1 << (how >> 5);
        assert!(self.sendbox.receive(&datagram).is_err());
        assert!(self.receivebox.receive(&datagram, || 0).is_err());
    }

    /// When the network behaves at last, the ends agree and feedback gets through.
    fn settle(&mut self) {
        let epoch = EpochSize::from_log2(7).expect("at most 24");
        for _ in 0..2 {
            let update = self.sendbox.update(epoch, SendboxCounts::default());
            let ack = self.receivebox.receive(&update, || 0).expect("a genuine update");
            self.sendbox.receive(&ack).expect("a genuine acknowledgement");
        }
        assert_eq!(self.sendbox.epoch_in_use(), Some(epoch));
        assert_eq!(self.receivebox.epoch(), Some(epoch));
        let before = self.accepted.len();
        self.arrival(0);
        let datagram = self.to_sendbox.last().cloned().expect("the receivebox is bound");
        self.deliver(&datagram);
        assert_eq!(self.accepted.len(), before + 1);
    }
}

fn session(n: u64) -> Session {
    Session(NonZeroU64::new(n).expect("lives are counted from 1"))
}

fn pick(datagrams: &[Vec<u8>], which: u8) -> Option<&Vec<u8>> {
    // The latest first: most scripts are short and mean what was just sent.
    datagrams.iter().rev().nth(usize::from(which) % datagrams.len().max(1))
}
