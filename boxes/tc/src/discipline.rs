use std::fmt;

use forebay_units::{Bytes, Nanos};
use serde::Deserialize;

use crate::netlink::Batch;

/// A queueing discipline of the kernel and its settings; `None` stands for the kernel's own
/// default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// First in, first out: `pfifo`, `bfifo`.
    Fifo {
        /// The largest backlog.
        limit: FifoLimit,
    },
    /// Stochastic fairness queueing.
    Sfq {
        /// Packets that may wait, all flows together.
        limit: u32,
        /// The period after which the hash changes, in whole seconds; never if `None`.
        perturb: Option<Nanos>,
    },
    /// Flow queueing with CoDel (RFC 8290).
    FqCodel {
        /// Packets that may wait, all flows together.
        limit: u32,
        /// The target of CoDel.
        target: Option<Nanos>,
        /// The interval of CoDel.
        interval: Option<Nanos>,
        /// Whether packets of ECN-capable flows are marked instead of dropped.
        ecn: bool,
    },
    /// One queue held at a delay (RFC 8033).
    Pie {
        /// Packets that may wait.
        limit: u32,
        /// The target delay of the queue.
        target: Option<Nanos>,
        /// Whether packets of ECN-capable flows are marked instead of dropped.
        ecn: bool,
    },
    /// Flow queueing with PIE.
    FqPie {
        /// Packets that may wait, all flows together.
        limit: Option<u32>,
        /// The target delay of the queue.
        target: Option<Nanos>,
        /// Whether packets of ECN-capable flows are marked instead of dropped.
        ecn: bool,
    },
    /// CAKE without a rate of its own, since the bundle's class shapes.
    Cake {
        /// The memory that waiting packets may take.
        memory: Option<Bytes>,
        /// The round-trip time that its AQM is tuned for.
        rtt: Option<Nanos>,
        /// The hosts and flows between which it is fair.
        flows: Option<CakeFlows>,
        /// The classes that it sorts packets into by their DSCP.
        diffserv: Option<CakeDiffserv>,
    },
    /// The coupled dual-queue AQM (RFC 9332).
    DualPi2 {
        /// Packets that may wait, in both queues together.
        limit: Option<u32>,
        /// The target delay of the classic queue.
        target: Option<Nanos>,
    },
}

/// The hosts and flows between which CAKE is fair, with the kernel's numbers (`CAKE_FLOW_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u32)]
pub enum CakeFlows {
    /// One queue for all packets.
    Flowblind = 0,
    /// Fair between source addresses.
    Srchost = 1,
    /// Fair between destination addresses.
    Dsthost = 2,
    /// Fair between pairs of addresses.
    Hosts = 3,
    /// Fair between flows.
    Flows = 4,
    /// Fair between source addresses, then between their flows.
    DualSrchost = 5,
    /// Fair between destination addresses, then between their flows.
    DualDsthost = 6,
    /// Fair between addresses of both kinds, then between their flows.
    TripleIsolate = 7,
}

/// The classes that CAKE sorts packets into by DSCP, with the kernel's numbers (`CAKE_DIFFSERV_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u32)]
pub enum CakeDiffserv {
    /// Three classes: bulk, best effort, voice.
    Diffserv3 = 0,
    /// Four classes: bulk, best effort, video, voice.
    Diffserv4 = 1,
    /// Eight classes by DSCP.
    Diffserv8 = 2,
    /// One class for all packets.
    Besteffort = 3,
    /// Eight classes by the IP precedence bits.
    Precedence = 4,
}

impl CakeFlows {
    /// Returns the name that `tc` uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flowblind => "flowblind",
            Self::Srchost => "srchost",
            Self::Dsthost => "dsthost",
            Self::Hosts => "hosts",
            Self::Flows => "flows",
            Self::DualSrchost => "dual-srchost",
            Self::DualDsthost => "dual-dsthost",
            Self::TripleIsolate => "triple-isolate",
        }
    }
}

impl CakeDiffserv {
    /// Returns the name that `tc` uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Diffserv3 => "diffserv3",
            Self::Diffserv4 => "diffserv4",
            Self::Diffserv8 => "diffserv8",
            Self::Besteffort => "besteffort",
            Self::Precedence => "precedence",
        }
    }
}

/// The largest backlog of a FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FifoLimit {
    /// A number of packets; a super-packet counts as one.
    Packets(u32),
    /// A number of bytes.
    Bytes(Bytes),
}

/// The attribute that holds the settings of a qdisc, a class or a filter.
pub(crate) const TCA_OPTIONS: u16 = 2;

impl Discipline {
    /// Returns the kernel's name of the discipline.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Fifo { limit: FifoLimit::Packets(_) } => "pfifo",
            Self::Fifo { limit: FifoLimit::Bytes(_) } => "bfifo",
            Self::Sfq { .. } => "sfq",
            Self::FqCodel { .. } => "fq_codel",
            Self::Pie { .. } => "pie",
            Self::FqPie { .. } => "fq_pie",
            Self::Cake { .. } => "cake",
            Self::DualPi2 { .. } => "dualpi2",
        }
    }

    /// Whether attribute `kind` is a time that the kernel rounds, and may report a microsecond
    /// shorter: CoDel's times have units of 1024 ns, PIE's of 64 ns.
    pub(crate) const fn rounds(&self, kind: u16) -> bool {
        match self {
            Self::FqCodel { .. } => matches!(kind, 1 | 3),
            Self::Pie { .. } => kind == 1,
            Self::FqPie { .. } => kind == 3,
            _ => false,
        }
    }

    /// Encodes the settings as in `linux/pkt_sched.h`: a structure for the old disciplines,
    /// attributes for the others, numbered in the order of that file.
    pub(crate) fn encode(&self, batch: &mut Batch) {
        let settings: &[(u16, Option<u32>)] = match *self {
            Self::Fifo { limit } => {
                let limit = match limit {
                    FifoLimit::Packets(n) => n,
                    FifoLimit::Bytes(b) => u32::try_from(b.0).unwrap_or(u32::MAX),
                };
                batch.number(TCA_OPTIONS, limit);
                return;
            }
            Self::Sfq { limit, perturb } => {
                // `struct tc_sfq_qopt`: quantum, period, limit, divisor, flows; zero is a default.
                // Its extension, all zero but the depth: how much of the limit one flow may take.
                let seconds = perturb.map_or(0, |t| (t.0 / 1_000_000_000) as u32);
                let mut words = [0u32; 18];
                words[1] = seconds;
                words[2] = limit;
                // As many flows as the sendbox's own SFQ has; the kernel's default is 128.
                words[3] = SFQ_FLOWS;
                words[4] = SFQ_FLOWS;
                words[5] = limit.min(SFQ_DEPTH);
                let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
                batch.attribute(TCA_OPTIONS, &bytes);
                return;
            }
            Self::FqCodel { limit, target, interval, ecn } => &[
                (1, micros(target)),
                (2, Some(limit)),
                (3, micros(interval)),
                (4, Some(ecn.into())),
            ],
            Self::Pie { limit, target, ecn } => {
                &[(1, micros(target)), (2, Some(limit)), (6, Some(ecn.into()))]
            }
            Self::FqPie { limit, target, ecn } => {
                &[(1, limit), (3, micros(target)), (10, Some(ecn.into()))]
            }
            Self::Cake { memory, rtt, flows, diffserv } => &[
                (3, diffserv.map(|d| d as u32)),
                (5, flows.map(|f| f as u32)),
                (7, micros(rtt)),
                // The target is a twentieth of the round-trip time, as `tc` sets it: the kernel
                // does not derive it.
                (8, micros(rtt).map(|t| (t / 20).max(1))),
                (10, memory.map(|b| u32::try_from(b.0).unwrap_or(u32::MAX))),
            ],
            Self::DualPi2 { limit, target } => &[(1, limit), (3, micros(target))],
        };
        batch.nest(TCA_OPTIONS, |batch| {
            if let Self::Cake { .. } = self {
                // A rate of zero means no shaping.
                batch.attribute(2, &0u64.to_ne_bytes());
            }
            for &(kind, value) in settings {
                if let Some(value) = value {
                    batch.number(kind, value);
                }
            }
        });
    }
}

/// The largest number of packets of a flow in the kernel's SFQ (`SFQ_MAX_DEPTH`).
const SFQ_DEPTH: u32 = 127;

/// The number of flows, as in `forebay_queue::sfq` by default.
const SFQ_FLOWS: u32 = 1_024;

fn micros(time: Option<Nanos>) -> Option<u32> {
    time.map(|t| u32::try_from(t.0 / 1_000).unwrap_or(u32::MAX))
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match *self {
            Self::Fifo { limit: FifoLimit::Packets(n) } => write!(f, " limit {n} packets"),
            Self::Fifo { limit: FifoLimit::Bytes(b) } => write!(f, " limit {} bytes", b.0),
            Self::Sfq { limit, perturb } => {
                write!(f, " limit {limit} packets")?;
                setting(f, "perturb", perturb)
            }
            Self::FqCodel { limit, target, interval, ecn } => {
                write!(f, " limit {limit} packets")?;
                setting(f, "target", target)?;
                setting(f, "interval", interval)?;
                marks(f, ecn)
            }
            Self::Pie { limit, target, ecn } => {
                write!(f, " limit {limit} packets")?;
                setting(f, "target", target)?;
                marks(f, ecn)
            }
            Self::FqPie { limit, target, ecn } => {
                packets(f, limit)?;
                setting(f, "target", target)?;
                marks(f, ecn)
            }
            Self::Cake { memory, rtt, flows, diffserv } => {
                memory.map_or(Ok(()), |b| write!(f, " memory {} bytes", b.0))?;
                setting(f, "rtt", rtt)?;
                flows.map_or(Ok(()), |flows| write!(f, " {}", flows.name()))?;
                diffserv.map_or(Ok(()), |diffserv| write!(f, " {}", diffserv.name()))
            }
            Self::DualPi2 { limit, target } => {
                packets(f, limit)?;
                setting(f, "target", target)
            }
        }
    }
}

fn packets(f: &mut fmt::Formatter<'_>, limit: Option<u32>) -> fmt::Result {
    limit.map_or(Ok(()), |n| write!(f, " limit {n} packets"))
}

fn setting(f: &mut fmt::Formatter<'_>, name: &str, time: Option<Nanos>) -> fmt::Result {
    time.map_or(Ok(()), |t| write!(f, " {name} {t}"))
}

fn marks(f: &mut fmt::Formatter<'_>, ecn: bool) -> fmt::Result {
    f.write_str(if ecn { " ecn" } else { " noecn" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Attributes, u32_at};

    /// The attribute alone, after the header of the message that it stands in.
    fn encoded(discipline: Discipline) -> Vec<u8> {
        let mut batch = Batch::default();
        batch.message(36, 0);
        discipline.encode(&mut batch);
        batch.bytes()[16..].to_vec()
    }

    #[test]
    fn settings_are_encoded_as_the_kernel_reads_them() {
        let bytes = encoded(Discipline::Fifo { limit: FifoLimit::Packets(200) });
        assert_eq!(bytes, [8, 0, 2, 0, 200, 0, 0, 0]);
        let bytes = encoded(Discipline::Fifo { limit: FifoLimit::Bytes(Bytes(1 << 40)) });
        assert_eq!(bytes, [8, 0, 2, 0, 255, 255, 255, 255]);
        let ms = |n| Some(Nanos::from_millis(n));
        let bytes =
            encoded(Discipline::FqCodel { limit: 1000, target: ms(5), interval: None, ecn: true });
        // Nested (0x8000): target 5000 us, limit 1000, ECN.
        assert_eq!(
            bytes,
            [
                28, 0, 2, 0x80, 8, 0, 1, 0, 0x88, 0x13, 0, 0, 8, 0, 2, 0, 0xe8, 3, 0, 0, 8, 0, 4,
                0, 1, 0, 0, 0
            ]
        );
        let bytes = encoded(Discipline::Sfq { limit: 1250, perturb: ms(10_500) });
        // `struct tc_sfq_qopt_v1`: 48 bytes and six counters of 4.
        assert_eq!(bytes.len(), 4 + 72);
        let word = |i: usize| u32::from_ne_bytes(bytes[4 + 4 * i..8 + 4 * i].try_into().unwrap());
        assert_eq!((0..8).map(word).collect::<Vec<_>>(), [0, 10, 1250, 1024, 1024, 127, 0, 0]);
    }

    /// The nested attributes, each with its number and its value in 32 bits.
    fn attributes(discipline: Discipline) -> Vec<(u16, u32)> {
        let bytes = encoded(discipline);
        assert_eq!(bytes[2..4], [2, 0x80]);
        let read = Attributes(&bytes[4..]);
        read.map(|(kind, value)| (kind, u32_at(value, 0).unwrap())).collect()
    }

    /// The numbers are those of `enum`s in `linux/pkt_sched.h`: CAKE's and FQ-PIE's of Linux 6.12,
    /// DualPI2's of 6.17.
    #[test]
    fn disciplines_of_the_kernel_alone_are_encoded_as_it_reads_them() {
        let (ms, limit) = (|n| Some(Nanos::from_millis(n)), Some(1_000));
        let cake = Discipline::Cake {
            memory: Some(Bytes(0x0060_0000)),
            rtt: ms(50),
            flows: Some(CakeFlows::DualSrchost),
            diffserv: Some(CakeDiffserv::Besteffort),
        };
        assert_eq!(
            encoded(cake),
            [
                &[56, 0, 2, 0x80][..],
                &[12, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0], // the rate, in 64 bits
                &[8, 0, 3, 0, 3, 0, 0, 0],
                &[8, 0, 5, 0, 5, 0, 0, 0],
                &[8, 0, 7, 0, 0x50, 0xc3, 0, 0], // 50 000 us
                &[8, 0, 8, 0, 0xc4, 9, 0, 0],    // 2500 us
                &[8, 0, 10, 0, 0, 0, 0x60, 0],
            ]
            .concat()
        );
        let cake = Discipline::Cake { memory: None, rtt: None, flows: None, diffserv: None };
        assert_eq!(attributes(cake), [(2, 0)]);
        let fq_pie = Discipline::FqPie { limit, target: ms(15), ecn: true };
        assert_eq!(attributes(fq_pie), [(1, 1_000), (3, 15_000), (10, 1)]);
        let fq_pie = Discipline::FqPie { limit: None, target: None, ecn: false };
        assert_eq!(attributes(fq_pie), [(10, 0)]);
        let dualpi2 = Discipline::DualPi2 { limit, target: ms(20) };
        assert_eq!(attributes(dualpi2), [(1, 1_000), (3, 20_000)]);
    }

    #[test]
    fn settings_are_printed_with_units() {
        let ms = |n| Some(Nanos::from_millis(n));
        let said = [
            (Discipline::Fifo { limit: FifoLimit::Bytes(Bytes(9)) }, "bfifo limit 9 bytes"),
            (
                Discipline::FqPie { limit: Some(7), target: ms(15), ecn: false },
                "fq_pie limit 7 packets target 15.000 ms noecn",
            ),
            (
                Discipline::Cake {
                    memory: Some(Bytes(9)),
                    rtt: ms(50),
                    flows: Some(CakeFlows::Hosts),
                    diffserv: Some(CakeDiffserv::Diffserv4),
                },
                "cake memory 9 bytes rtt 50.000 ms hosts diffserv4",
            ),
            (Discipline::DualPi2 { limit: None, target: ms(1) }, "dualpi2 target 1.000 ms"),
        ];
        for (discipline, text) in said {
            assert_eq!(discipline.to_string(), text);
        }
    }
}
