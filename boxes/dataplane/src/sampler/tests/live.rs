//! The programs in the kernel compared with the library, by test runs on given frames.

use forebay_test_support::frames;
use forebay_units::Bytes;
use forebay_wire::{Frame, Headers, fingerprint};
use libbpf_rs::{ErrorKind, ProgramInput};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::super::*;
use super::load;

/// The hooks, each with the framings that it knows.
const PLACES: [(Hook, Framing); 3] =
    [(Hook::Xdp, Framing::Ethernet), (Hook::Tc, Framing::Ethernet), (Hook::Tc, Framing::BareIp)];

fn ethernet(hook: Hook) -> Option<Sampler> {
    load(hook, Framing::Ethernet)
}

impl Sampler {
    /// What the program reports of a frame, which is a super-packet if its segments have a size;
    /// `None` if the kernel does not run programs on such a frame.
    fn run(&mut self, frame: &[u8], segment_size: u32) -> Option<Vec<Sample>> {
        // `struct __sk_buff` of linux/bpf.h, whose `gso_size` is here.
        let mut context = [0; 192];
        context[176..180].copy_from_slice(&segment_size.to_ne_bytes());
        let input = ProgramInput {
            data_in: Some(frame),
            context_in: (self.hook == Hook::Tc).then_some(&mut context[..]),
            ..ProgramInput::default()
        };
        let program = bpf::program(&self.bundles.object, self.hook.source().name).unwrap();
        match program.test_run(input) {
            // XDP_PASS, TC_ACT_UNSPEC.
            Ok(output) => match self.hook {
                Hook::Xdp => assert_eq!(output.return_value, 2),
                Hook::Tc => assert_eq!(output.return_value as i32, -1),
            },
            Err(e) if e.kind() == ErrorKind::InvalidInput => return None,
            Err(e) => panic!("{e}"),
        }
        let mut seen = Vec::new();
        self.poll(|sample| seen.push(sample)).unwrap();
        Some(seen)
    }

    /// Runs a frame that is one packet, or none, and holds the answer against the library's.
    /// Returns whether it was one. The program for packets without an Ethernet header gets the
    /// packet in the frame, behind a header of another layer, which it has to pass over.
    fn check(&mut self, frame: &[u8], framing: Framing, what: &str) -> bool {
        let (before, unknown) = (self.counts(0).unwrap(), self.not_understood().unwrap());
        let parsed = Frame::parse(frame);
        let bare = match (framing, parsed) {
            (Framing::Ethernet, _) => None,
            (Framing::BareIp, Ok(Frame::Ip(h))) => Some(&frame[h.network_offset.into()..]),
            (Framing::BareIp, _) => Some(frame),
        };
        // The kernel has no packets of no bytes.
        if bare.is_some_and(<[u8]>::is_empty) {
            return false;
        }
        let seen = match bare {
            None => self.run(frame, 0),
            Some(packet) => self.run(&[&[0x5a; 14], packet].concat(), 0),
        };
        let Some(seen) = seen else { return false };
        let (frame, parsed) = match bare {
            None => (frame, parsed),
            Some(packet) => (packet, Headers::parse_ip(packet).map(Frame::Ip)),
        };
        let packet = match parsed {
            Ok(Frame::Ip(headers)) => Some(headers),
            _ => None,
        };
        let is_unknown = matches!(parsed, Err(_) | Ok(Frame::Unknown));
        assert_eq!(
            self.not_understood().unwrap(),
            unknown + u64::from(is_unknown),
            "{what}, {}: {frame:02x?}",
            self.hook
        );
        let after = match packet {
            Some(h) => Counts {
                bytes: Bytes(before.bytes.0 + h.ip_len(frame.len()) as u64),
                packets: before.packets + 1,
            },
            None => before,
        };
        assert_eq!(self.counts(0).unwrap(), after, "{what}, {}: {frame:02x?}", self.hook);
        let expected =
            packet.and_then(|h| fingerprint(frame, &h, &frames::KEY)).map(|f| (f, after));
        let got: Vec<_> = seen.iter().map(|s| (s.fingerprint, s.counts)).collect();
        assert_eq!(got, Vec::from_iter(expected), "{what}, {}: {frame:02x?}", self.hook);
        packet.is_some()
    }
}

#[test]
fn the_kernel_computes_the_same_fingerprints() {
    for (hook, framing) in PLACES {
        let Some(mut sampler) = load(hook, framing) else { return };
        let vectors = frames::vectors();
        let packets = vectors.iter().filter(|v| sampler.check(&v.frame, framing, v.name)).count();
        assert!(packets > 60, "{hook}: most vectors are packets: {packets}");
        assert_eq!(sampler.samples_lost().unwrap(), 0);
    }
}

#[test]
fn rules_change_while_the_program_runs() {
    for hook in [Hook::Xdp, Hook::Tc] {
        let Some(mut sampler) = ethernet(hook) else { return };
        let frames = frames::vectors();
        let of = |is_v4: bool| {
            let is = |frame: &[u8]| match Frame::parse(frame) {
                Ok(Frame::Ip(headers)) => headers.source.is_ipv4() == is_v4,
                _ => false,
            };
            frames.iter().find(|v| is(&v.frame)).unwrap().frame.clone()
        };
        let (four, six) = (of(true), of(false));
        let bundle_of = |sampler: &mut Sampler, frame: &[u8]| {
            sampler.run(frame, 0).unwrap().first().map(|sample| sample.bundle)
        };
        assert_eq!([&four, &six].map(|frame| bundle_of(&mut sampler, frame)), [Some(0); 2]);
        let rule = |prefix: &str| BundleRule {
            sources: vec![],
            destinations: vec![prefix.parse().unwrap()],
            key: frames::KEY,
            epoch: 1,
        };
        let (old, new) = (rule("0.0.0.0/0"), rule("::/0"));
        sampler.begin(5, &new).unwrap();
        sampler.set_rules(&[(0, &old), (5, &new)]).unwrap();
        assert_eq!(bundle_of(&mut sampler, &four), Some(0));
        assert_eq!(bundle_of(&mut sampler, &six), Some(5));
        assert_eq!([0, 5].map(|b| sampler.counts(b).unwrap().packets), [3, 1]);
        sampler.set_rules(&[(5, &new)]).unwrap();
        assert_eq!(bundle_of(&mut sampler, &four), None);
        sampler.begin(0, &old).unwrap();
        assert_eq!(sampler.counts(0).unwrap(), Counts::default());
        assert!(sampler.begin(sampler.room(), &old).is_err());
    }
}

#[test]
fn the_kernel_agrees_on_random_frames() {
    for (hook, framing) in PLACES {
        let Some(mut sampler) = load(hook, framing) else { return };
        let mut runner = TestRunner::deterministic();
        let mut random = || frames::any_frame().new_tree(&mut runner).unwrap().current();
        let packets = (0..2000).filter(|_| sampler.check(&random(), framing, "random")).count();
        assert!(packets > 1000, "{hook}: most random frames are packets: {packets}");
    }
}

/// A super-packet, and how much payload goes into a segment.
#[derive(Clone, Debug)]
struct Super {
    frame: Vec<u8>,
    network_offset: usize,
    is_ipv6: bool,
    is_tcp: bool,
    payload_offset: usize,
    segment_size: usize,
}

fn any_super() -> impl Strategy<Value = Super> {
    let id = prop_oneof![Just(0_u16), Just(0xfffe), any::<u16>()];
    let shape = (0..3_usize, any::<bool>(), any::<bool>(), 0..11_u8, id);
    let payload = (1..1400_usize, 1..2800_usize);
    (shape, payload, any::<[u8; 64]>()).prop_map(|(shape, (segment_size, len), random)| {
        let (tags, is_ipv6, is_tcp, option_words, id) = shape;
        let mut frame = vec![2; 12];
        (0..tags).for_each(|_| frame.extend([0x81, 0, 0, 7]));
        let network_offset = frame.len() + 2;
        let mut transport = random[..20].to_vec();
        if is_tcp {
            transport[12] = (5 + option_words) << 4;
            transport.extend((0..option_words * 4).map(|i| i ^ random[20]));
        } else {
            transport.truncate(8);
        }
        let (header_len, total) = (transport.len(), transport.len() + len);
        if is_ipv6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((total as u16).to_be_bytes());
            frame.extend([if is_tcp { 6 } else { 17 }, 64]);
            frame.extend(&random[32..64]);
        } else {
            frame.extend([0x08, 0x00, 0x45, 0]);
            frame.extend((20 + total as u16).to_be_bytes());
            frame.extend(id.to_be_bytes());
            frame.extend([0x40, 0, 64, if is_tcp { 6 } else { 17 }, 0, 0]);
            frame.extend(&random[32..40]);
        }
        let payload_offset = frame.len() + header_len;
        frame.extend(transport);
        frame.extend((0..len).map(|i| (i * 7) as u8 ^ random[i % 64]));
        Super { frame, network_offset, is_ipv6, is_tcp, payload_offset, segment_size }
    })
}

impl Super {
    /// Cuts it up as the kernel would (`inet_gso_segment`, `tcp_gso_segment`).
    fn cut(&self) -> Vec<Vec<u8>> {
        let (headers, payload) = self.frame.split_at(self.payload_offset);
        let segment = |(i, part): (usize, &[u8])| {
            let mut frame = [headers, part].concat();
            let len = frame.len() - self.network_offset;
            let mut set = |at: usize, value: u16| {
                frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
            };
            if self.is_ipv6 {
                set(self.network_offset + 4, len as u16 - 40);
            } else {
                let at = self.network_offset + 4;
                set(at - 2, len as u16);
                let id = u16::from_be_bytes([headers[at], headers[at + 1]]);
                set(at, id.wrapping_add(i as u16));
            }
            if self.is_tcp {
                let at = self.network_offset + if self.is_ipv6 { 44 } else { 24 };
                let first = u32::from_be_bytes(headers[at..at + 4].try_into().unwrap());
                let sequence = first.wrapping_add((i * self.segment_size) as u32);
                frame[at..at + 4].copy_from_slice(&sequence.to_be_bytes());
            }
            frame
        };
        payload.chunks(self.segment_size).enumerate().map(segment).collect()
    }
}

/// The program at tc reports the same for a super-packet as the XDP program for its segments.
#[test]
fn a_super_packet_is_seen_as_its_segments() {
    let (Some(mut xdp), Some(mut tc)) = (ethernet(Hook::Xdp), ethernet(Hook::Tc)) else { return };
    let mut runner = TestRunner::deterministic();
    let mut with_many = 0;
    for _ in 0..800 {
        let packet = any_super().new_tree(&mut runner).unwrap().current();
        let segments = packet.cut();
        with_many += usize::from(segments.len() > 2);
        let one_by_one = segments.iter().enumerate().flat_map(|(i, segment)| {
            let seen = xdp.run(segment, 0).unwrap();
            // Later datagrams without an ID are told apart by payload that is out of sight.
            let id = &segment[packet.network_offset + 4..][..2];
            let known = i == 0 || packet.is_tcp || (!packet.is_ipv6 && id != [0, 0]);
            seen.into_iter().filter(move |_| known)
        });
        let one_by_one: Vec<_> = one_by_one.map(|s| (s.fingerprint, s.counts)).collect();
        let whole = tc.run(&packet.frame, packet.segment_size as u32).unwrap();
        // Of that many, the last are counted and not looked at.
        let looked_at = one_by_one.len().min(512);
        let whole: Vec<_> = whole.iter().map(|s| (s.fingerprint, s.counts)).collect();
        assert_eq!(whole, one_by_one[..looked_at], "{packet:02x?}");
        assert_eq!(tc.counts(0).unwrap(), xdp.counts(0).unwrap(), "{packet:02x?}");
    }
    assert!(with_many > 150, "super-packets are more than two packets: {with_many}");
    assert_eq!((xdp.samples_lost().unwrap(), tc.samples_lost().unwrap()), (0, 0));
}

/// The fingerprints' own vectors have super-packets, too.
#[test]
fn the_segments_of_the_vectors_are_found_in_their_super_packets() {
    let Some(mut tc) = ethernet(Hook::Tc) else { return };
    let vectors = frames::vectors();
    let mut found = 0;
    for vector in &vectors {
        let Some((of, segment)) = &vector.segment else { continue };
        // What keeps one ID is marked in a place that a test run does not reach, and the last
        // segment does not tell the size of the others.
        if segment.index == 0 && segment.offset > 0 {
            continue;
        }
        // A test run takes no jumbogram. Of that vector only the beginning is there.
        if segment.offset as usize > frames::frame(of).len() {
            continue;
        }
        let size = match segment.index {
            0 => u32::from(segment.payload_len),
            i => segment.offset / u32::from(i),
        };
        let seen = tc.run(&frames::frame(of), size).unwrap();
        if let Some(fingerprint) = vector.fingerprint {
            assert_eq!(
                seen[usize::from(segment.index)].fingerprint,
                fingerprint,
                "{}",
                vector.name
            );
            found += 1;
        }
    }
    assert!(found >= 2, "the vectors have segments");
}

/// Kernels before Linux 6.6 have no links at tc, and use a filter.
#[test]
fn a_filter_replaces_a_link_and_goes_with_the_receivebox() {
    let show = || {
        let words = ["filter", "show", "dev", "lo", "ingress"];
        let out = std::process::Command::new("tc").args(words).output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let alone = move || {
        let Some(mut sampler) = ethernet(Hook::Tc) else { return };
        // SAFETY: moves this thread alone, which ends with the test, into a namespace of its own.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
        let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
        assert!(up.unwrap().success());
        let netdev = Netdev::find("lo").unwrap();
        let program = bpf::program(&sampler.bundles.object, Hook::Tc.source().name).unwrap();
        // A second one replaces what a dead process left.
        std::mem::forget(Attached::filter(&program, &netdev).unwrap());
        let attached = Attached::filter(&program, &netdev).unwrap();
        assert_eq!(show().matches("handle 0xfb ").count(), 1, "{}", show());
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"anything", socket.local_addr().unwrap()).unwrap();
        let mut seen = 0;
        sampler.poll(|_| seen += 1).unwrap();
        assert_eq!(seen, 1);
        assert_eq!(sampler.counts(0).unwrap(), Counts { bytes: Bytes(36), packets: 1 });
        drop(attached);
        assert!(!show().contains("fb_ingress"), "{}", show());
    };
    std::thread::spawn(alone).join().unwrap();
}
