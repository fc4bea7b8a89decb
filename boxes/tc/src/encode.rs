//! Encoding the objects of a plan as requests to the kernel (`linux/pkt_sched.h`,
//! `linux/pkt_cls.h`).

use std::os::fd::RawFd;

use forebay_units::{Nanos, Rate};

use crate::discipline::TCA_OPTIONS;
use crate::netlink::{Attributes, Batch, Tc, u32_at, u64_at};
use crate::{Class, Device, Handle, QdiscKind, Shape};

/// The flags for creating an object that must not exist yet.
pub(crate) const CREATE: i32 = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
/// The flags for creating an object or changing an existing one.
pub(crate) const CHANGE: i32 = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;

pub(crate) const TCA_KIND: u16 = 1;

/// The rate of a class without a limit, in bytes per second: far above any link, and low enough
/// that a frame still takes HTB about a nanosecond (8.8 Tbit/s).
const UNLIMITED: u64 = 1 << 40;

/// The unit in which HTB counts time (`/proc/net/psched`).
const TICK: Nanos = Nanos(64);

/// Begins a request for a qdisc; the settings follow.
pub(crate) fn new_qdisc(
    batch: &mut Batch,
    device: &Device,
    handle: Handle,
    parent: Handle,
    flags: i32,
    kind: &str,
) {
    let tc = Tc::of(device.index, handle, parent);
    batch.about(libc::RTM_NEWQDISC, flags, tc).text(TCA_KIND, kind);
}

/// Encodes the deletion of a qdisc.
pub(crate) fn delete_qdisc(batch: &mut Batch, device: &Device, handle: Handle, parent: Handle) {
    batch.about(libc::RTM_DELQDISC, 0, Tc::of(device.index, handle, parent));
}

impl QdiscKind {
    /// Returns the kernel's name of the qdisc.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Htb => "htb",
            Self::Queue(discipline) => discipline.kind(),
        }
    }

    /// Encodes the settings of the qdisc.
    pub(crate) fn encode(&self, batch: &mut Batch) {
        match self {
            Self::Queue(discipline) => discipline.encode(batch),
            Self::Htb => {
                // `struct tc_htb_glob`: version, the divisor from rates to quanta (not used, since
                // every class has a quantum), the default class (none), debug, and a counter.
                let words = [HTB_VERSION, 10, 0, 0, 0];
                let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
                batch.nest(TCA_OPTIONS, |b| {
                    b.attribute(HTB_INIT, &bytes);
                });
            }
        }
    }
}

const HTB_INIT: u16 = 2;
const HTB_VERSION: u32 = 3;

/// Returns a rate in the kernel's unit, bytes per second. The kernel refuses a rate of zero.
fn bytes_per_second(rate: Rate) -> u64 {
    (rate.as_bps() / 8).clamp(1, UNLIMITED)
}

/// Encodes a new or changed class of an HTB; `rate` is that of a bundle, `None` being no limit.
pub(crate) fn class(
    batch: &mut Batch,
    device: &Device,
    class: &Class,
    rate: Option<Rate>,
    flags: i32,
) {
    const PARMS: u16 = 1;
    const RATE64: u16 = 6;
    const CEIL64: u16 = 7;
    let ceil = match class.shape {
        Shape::Limit(limit) => bytes_per_second(limit),
        Shape::Bundle | Shape::Unlimited => rate.map_or(UNLIMITED, bytes_per_second),
    };
    let rate = class.assured.map_or(ceil, |assured| bytes_per_second(assured).min(ceil));
    // `struct tc_htb_opt`: rate and ceiling as `struct tc_ratespec`, in which the link layer
    // Ethernet says that no table of lengths comes with it; the bursts; quantum, level, priority.
    let mut parms = [0u8; 44];
    for (spec, rate) in [(0, rate), (12, ceil)] {
        parms[spec + 1] = 1;
        let rate = u32::try_from(rate).unwrap_or(u32::MAX);
        parms[spec + 8..spec + 12].copy_from_slice(&rate.to_ne_bytes());
    }
    let ticks = (class.burst.max(lateness(ceil)).0 / TICK.0) as u32;
    for (at, word) in [(24, ticks), (28, ticks), (32, class.quantum.0 as u32), (40, class.urgency)]
    {
        parms[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    let tc = Tc::of(device.index, class.id, class.parent);
    batch.about(libc::RTM_NEWTCLASS, flags, tc).nest(TCA_OPTIONS, |b| {
        b.attribute(PARMS, &parms);
        for (kind, rate) in [(RATE64, rate), (CEIL64, ceil)] {
            if rate > u64::from(u32::MAX) {
                b.attribute(kind, &rate.to_ne_bytes());
            }
        }
    });
}

/// The lateness of the kernel's timers that a class makes up for: 2 ms, as on virtual machines
/// whose processor runs others too. HTB has one limit of credit, whether packets wait or not, so
/// all of it may leave at once after a pause. Therefore it is at most 32 kB, which pass in a
/// quarter of a millisecond at 1 Gbit/s: fast paths may have buffers of a few packets.
fn lateness(bytes_per_second: u64) -> Nanos {
    const LATE: Nanos = Nanos::from_millis(2);
    const MAX_LATE: u64 = 32_000;
    LATE.min(Nanos(MAX_LATE * 1_000_000_000 / bytes_per_second.max(1)))
}

/// Encodes the deletion of a class.
pub(crate) fn delete_class(batch: &mut Batch, device: &Device, id: Handle) {
    batch.about(libc::RTM_DELTCLASS, 0, Tc::of(device.index, id, id.qdisc()));
}

/// The settings of a class of HTB as the kernel reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HtbClass {
    /// The highest rate; `None` if the class has no limit.
    pub(crate) rate: Option<Rate>,
    /// The rate that it has without borrowing, in bytes per second.
    assured: u64,
    pub(crate) urgency: u32,
    pub(crate) quantum: u32,
}

impl HtbClass {
    /// Decodes the settings.
    pub(crate) fn decode(options: &[u8]) -> Option<Self> {
        let options = Attributes(options);
        let parms = options.get(1)?;
        let rate = |at, kind| {
            let small = u64::from(u32_at(parms, at)?);
            Some(options.get(kind).and_then(|r| u64_at(r, 0)).unwrap_or(small))
        };
        let (assured, rate) = (rate(8, 6)?, rate(20, 7)?);
        Some(Self {
            rate: (rate < UNLIMITED).then(|| Rate::from_bps(rate.saturating_mul(8))),
            assured,
            urgency: u32_at(parms, 40)?,
            quantum: u32_at(parms, 32)?,
        })
    }

    /// Whether the settings are those of `class`. The rate of a bundle's class does not count, nor
    /// does the part that a weighted class has of it.
    pub(crate) fn is(&self, class: &Class) -> bool {
        let ceil = self.rate.map_or(UNLIMITED, bytes_per_second);
        let shaped = match class.shape {
            Shape::Bundle => true,
            Shape::Unlimited => self.rate.is_none(),
            Shape::Limit(limit) => ceil == bytes_per_second(limit),
        };
        let assured = class.assured.map_or(ceil, |rate| bytes_per_second(rate).min(ceil));
        shaped
            && (self.assured == assured || class.parent.is_lender())
            && u64::from(self.quantum) == class.quantum.0
            && self.urgency == class.urgency
    }
}

/// The filter's priority on its qdisc, and the protocol: any.
const FILTER: u32 = 1 << 16 | (libc::ETH_P_ALL as u16).to_be() as u32;

/// Encodes a BPF classifier whose program itself selects the class. It replaces an existing filter
/// without a moment in which packets pass unclassified.
pub(crate) fn filter(batch: &mut Batch, device: &Device, parent: Handle, fd: RawFd, name: &str) {
    const CLASSID: u16 = 3;
    const FD: u16 = 6;
    const NAME: u16 = 7;
    const FLAGS: u16 = 8;
    const DIRECT_ACTION: u32 = 1;
    let tc = Tc { index: device.index, handle: 1, parent: parent.0, info: FILTER };
    batch.about(libc::RTM_NEWTFILTER, CHANGE, tc).text(TCA_KIND, "bpf").nest(TCA_OPTIONS, |b| {
        b.number(FD, fd as u32).text(NAME, name).number(FLAGS, DIRECT_ACTION);
        // The program sets the minor number only.
        b.number(CLASSID, parent.0);
    });
}

/// Whether a filter of the kernel is at the place of the sendbox's filter.
pub(crate) fn is_our_filter(tc: &Tc) -> bool {
    tc.info >> 16 == FILTER >> 16
}

/// Converts the settings of a qdisc from the form in which the kernel reports them to the form that
/// it takes. Only HTB differs: it reports its full version and takes the major number alone.
pub(crate) fn takeable(kind: &str, said: &[u8]) -> Vec<u8> {
    if kind != "htb" {
        return said.to_vec();
    }
    let mut batch = Batch::default();
    for (kind, value) in Attributes(said) {
        let mut value = value.to_vec();
        if kind == HTB_INIT && value.len() >= 4 {
            value[..4].copy_from_slice(&HTB_VERSION.to_ne_bytes());
        }
        batch.attribute(kind, &value);
    }
    batch.take()
}

/// Whether `found`, the settings of a qdisc as the kernel reports them, are those of `kind`: each
/// attribute that would be written has that value.
pub(crate) fn same_settings(kind: &QdiscKind, found: &[u8]) -> bool {
    let mut batch = Batch::default();
    batch.message(0, 0);
    kind.encode(&mut batch);
    let bytes = batch.take();
    let Some(wanted) = Attributes(&bytes[crate::netlink::HEADER..]).get(TCA_OPTIONS) else {
        return true;
    };
    match kind {
        // The settings of an HTB cannot be changed.
        QdiscKind::Htb => true,
        QdiscKind::Queue(crate::Discipline::Fifo { .. }) => found.starts_with(wanted),
        // Limit and depth. A zero is a default that the kernel fills in, and the period is in the
        // kernel's own ticks.
        QdiscKind::Queue(crate::Discipline::Sfq { .. }) => {
            [2, 5].iter().all(|i| u32_at(wanted, 4 * i) == u32_at(found, 4 * i))
        }
        QdiscKind::Queue(discipline) => Attributes(wanted).all(|(kind, value)| {
            let found = Attributes(found).get(kind);
            let microsecond = || {
                let (wanted, found) = (u32_at(value, 0), found.and_then(|f| u32_at(f, 0)));
                wanted.zip(found).is_some_and(|(w, f)| w.abs_diff(f) <= 1)
            };
            found == Some(value) || discipline.rounds(kind) && microsecond()
        }),
    }
}

#[cfg(test)]
mod tests {
    use forebay_units::Bytes;

    use super::*;
    use crate::{Discipline, FifoLimit, Shape};

    fn device() -> Device {
        Device { name: "wan0".to_owned(), index: 7 }
    }

    fn shaped() -> Class {
        let (id, quantum) = (Handle::of_bundle(0), Bytes(3_028));
        let parent = id.qdisc();
        let burst = Nanos::from_micros(250);
        Class { id, parent, shape: Shape::Bundle, assured: None, urgency: 0, quantum, burst }
    }

    /// By hand after `linux/pkt_sched.h`: 96 Mbit/s are 12 000 000 B/s (0x00b71b00), 2 ms are
    /// 31 250 ticks of 64 ns (0x7a12), the quantum is 0x0bd4.
    #[test]
    fn a_class_is_encoded_as_the_kernel_reads_it() {
        let mut batch = Batch::default();
        class(&mut batch, &device(), &shaped(), Some(Rate::from_mbps(96)), CHANGE);
        let spec = [0, 1, 0, 0, 0, 0, 0, 0, 0x00, 0x1b, 0xb7, 0x00];
        let expected = [
            &[88, 0, 0, 0, 40, 0, 1, 5, 0, 0, 0, 0, 0, 0, 0, 0][..],
            &[0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0xb0, 0x0f, 0, 0, 0xb0, 0x0f, 0, 0, 0, 0],
            &[52, 0, 2, 0x80, 48, 0, 1, 0],
            &spec,
            &spec,
            &[0x12, 0x7a, 0, 0, 0x12, 0x7a, 0, 0, 0xd4, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(batch.bytes(), expected.concat());
    }

    #[test]
    fn a_late_timer_costs_no_rate_up_to_32_kilobytes() {
        let at = |mbps| lateness(bytes_per_second(Rate::from_mbps(mbps)));
        assert_eq!([at(1), at(128), at(1000)].map(|t| t.0), [2_000_000, 2_000_000, 256_000]);
        assert_eq!(lateness(0), Nanos::from_millis(2));
        assert!(lateness(UNLIMITED) < Nanos::from_micros(250));
    }

    #[test]
    fn rates_are_decoded_as_they_were_encoded() {
        for rate in [
            Some(Rate::from_bps(8)),
            Some(Rate::from_mbps(96)),
            Some(Rate::from_mbps(34_359)),
            Some(Rate::from_mbps(100_000)),
            None,
        ] {
            let mut batch = Batch::default();
            class(&mut batch, &device(), &shaped(), rate, 0);
            let bytes = batch.take();
            let options = Attributes(&bytes[36..]).get(TCA_OPTIONS).unwrap();
            let read = HtbClass::decode(options).unwrap();
            let assured = rate.map_or(UNLIMITED, bytes_per_second);
            assert_eq!(read, HtbClass { rate, assured, urgency: 0, quantum: 3_028 });
            assert!(read.is(&shaped()));
            // With an assured rate, which is at most the ceiling.
            let own = Some(Rate::from_mbps(20));
            let limited = Class { parent: Handle::UPLINK, assured: own, ..shaped() };
            let mut batch = Batch::default();
            class(&mut batch, &device(), &limited, rate, 0);
            let bytes = batch.take();
            let options = Attributes(&bytes[36..]).get(TCA_OPTIONS).unwrap();
            let read = HtbClass::decode(options).unwrap();
            assert_eq!((read.rate, read.assured), (rate, 2_500_000.min(assured)));
            assert!(read.is(&limited));
        }
        assert_eq!(HtbClass::decode(&[]), None);
    }

    #[test]
    fn a_filter_names_its_program_and_its_qdisc() {
        let mut batch = Batch::default();
        filter(&mut batch, &device(), Handle::TREE, 5, "x");
        let bytes = batch.take();
        // Priority 1, all protocols (3, in network order).
        assert_eq!(bytes[16 + 16..16 + 20], [0, 3, 1, 0]);
        let options = Attributes(&bytes[36..]).get(TCA_OPTIONS).unwrap();
        let read: Vec<_> = Attributes(options).collect();
        let five = 5u32.to_ne_bytes();
        let major = 0x0fb0_0000u32.to_ne_bytes();
        let one = 1u32.to_ne_bytes();
        assert_eq!(read, [(6, &five[..]), (7, b"x\0"), (8, &one), (3, &major)]);
    }

    #[test]
    fn the_settings_of_a_foreign_htb_are_converted() {
        let mut batch = Batch::default();
        batch.number(2, 0x0003_0011).number(5, 1_000);
        let said = batch.take();
        let taken = takeable("htb", &said);
        let read: Vec<_> = Attributes(&taken).collect();
        assert_eq!(read, [(2, &3u32.to_ne_bytes()[..]), (5, &1_000u32.to_ne_bytes())]);
        assert_eq!(takeable("sfq", &said), said);
    }

    #[test]
    fn settings_are_the_same_if_each_given_setting_is() {
        let fifo = |n| QdiscKind::Queue(Discipline::Fifo { limit: FifoLimit::Packets(n) });
        assert!(same_settings(&fifo(7), &[7, 0, 0, 0]));
        assert!(!same_settings(&fifo(7), &[8, 0, 0, 0]) && !same_settings(&fifo(7), &[]));
        let codel = Discipline::FqCodel { limit: 7, target: None, interval: None, ecn: true };
        let target = Some(Nanos::from_millis(5));
        let timed = Discipline::FqCodel { limit: 7, target, interval: None, ecn: true };
        let same = |wanted, target: u32, limit: u32, ecn: u32| {
            let mut b = Batch::default();
            b.number(1, target).number(2, limit).number(4, ecn);
            same_settings(&QdiscKind::Queue(wanted), &b.take())
        };
        assert!(same(codel, 9, 7, 1) && !same(codel, 9, 8, 1) && !same(codel, 9, 7, 0));
        assert!(same(timed, 4_999, 7, 1), "as the kernel rounds");
        assert!(!same(timed, 4_998, 7, 1) && !same(timed, 5_000, 6, 1));
    }
}
