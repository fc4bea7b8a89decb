//! One measurement: the load of a point, and what the kernel counts meanwhile.

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use forebay_lab::netns::exec;
use forebay_system::{allow_open_files, own_descriptors};
use serde::{Deserialize, Serialize};

use crate::check::PAGE;
use crate::distribution::Distribution;
use crate::load::receiver::Receiver;
use crate::load::sender::{Ask, Options, Sender};
use crate::load::{Shared, Step};
use crate::point::Point;
use crate::probe::counters::{Interface, TcpCounters, memory, tcp_pages};
use crate::probe::cpu::{CpuCounters, CpuUse, own_user_ticks};
use crate::probe::functions::{self, Function, Recording};
use crate::probe::qdisc::QdiscCounters;
use crate::probe::sockets::Sampled;
use crate::{Error, Interrupt};

/// Descriptors of a thread beside those of its flows.
const OTHER_FILES: u64 = 256;
/// The mean share of its descriptors that a receiving thread uses. With 20 000 connections of a
/// thread, the hash deviates by 0.7 % (one standard deviation), and by more with fewer.
const EVENNESS: f64 = 0.9;
/// How often interrupts and failures are looked for.
const TICK: Duration = Duration::from_millis(50);
/// The time in which all opened connections must be accepted.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(20);
/// The longest time in which what is under way may arrive after the end.
const DRAIN: Duration = Duration::from_secs(5);
/// The time before the end of the measured one at which perf stops.
const MARGIN: Duration = Duration::from_millis(500);

/// What a measurement says about its point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The measured time in seconds.
    pub seconds: f64,
    /// The connections that were opened.
    pub connected: u32,
    /// The connections that ended early.
    pub lost: u32,
    /// The error of the first of these; empty without one.
    pub lost_by: String,
    /// The time in seconds that opening all connections took.
    pub connect_s: f64,
    /// Received data in Mbit/s. With a distant receiver, data that was written.
    pub goodput_mbps: f64,
    /// Rates of sampled flows in bit/s.
    pub rates: Distribution,
    /// The cumulative distribution of these rates: the rate, and the share of flows up to it.
    pub rate_curve: Vec<(f64, f64)>,
    /// Smoothed round trips of sampled flows in milliseconds, read once a second.
    pub rtt_ms: Distribution,
    /// The median of the lowest round trips of sampled flows, in milliseconds.
    pub min_rtt_ms: f64,
    /// The mean congestion window of sampled flows, in segments of the wire.
    pub cwnd: f64,
    /// The share of sent packets that were sent again.
    pub retransmitted: f64,
    /// Packets that TCP sent in a second, as on a wire.
    pub packets_per_s: f64,
    /// Segments in a second that the interface got; with offloads, of up to 64 KiB.
    pub segments_per_s: f64,
    /// The mean bytes of such a segment, headers included.
    pub segment_bytes: f64,
    /// ACKs without data that the senders received in a second.
    pub acks_per_s: f64,
    /// The use of the processors.
    pub cpu: CpuUse,
    /// The share of processor time that other programs of this machine took.
    pub other_programs: f64,
    /// The memory in bytes that TCP counts for its data, of the whole machine.
    pub tcp_memory: u64,
    /// The memory in bytes that became unavailable per flow since before the connections.
    pub memory_per_flow: f64,
    /// Packets that the queueing discipline dropped in a second.
    pub drops_per_s: f64,
    /// Packets in a second that the driver could not take at once.
    pub requeues_per_s: f64,
    /// The mean length of the queue in packets or segments, over the readings of each second.
    pub queued: f64,
    /// Bytes that senders wrote, over the whole run.
    pub sent: u64,
    /// Bytes that receivers read, over the whole run; nothing with a distant receiver.
    pub received: Option<u64>,
    /// The largest kernel functions, if perf could sample them.
    pub functions: Vec<Function>,
    /// Why functions were not sampled; empty if they were.
    pub functions_missing: String,
}

impl Measured {
    fn sampled(&mut self, sampled: &Sampled) {
        self.rates = sampled.rates;
        self.rate_curve.clone_from(&sampled.rate_curve);
        self.rtt_ms = sampled.round_trips;
        self.min_rtt_ms = sampled.min_rtt_ms;
        self.cwnd = sampled.cwnd;
    }

    /// The share of processor time that the load took: that of other programs is left out.
    pub fn busy(&self) -> f64 {
        (self.cpu.all.busy() - self.other_programs).max(0.0)
    }

    /// The processor time in seconds that a gigabit of data costs.
    pub fn cpu_per_gbit(&self) -> Option<f64> {
        let busy = self.busy() * self.cpu.cores.len() as f64;
        (self.goodput_mbps > 0.0).then(|| busy / (self.goodput_mbps / 1000.0))
    }

    /// The processor time in nanoseconds of all cores that the functions which `wanted` accepts
    /// take per segment. `None` if functions were not sampled.
    pub fn ns_per_segment(&self, wanted: impl Fn(&str) -> bool) -> Option<f64> {
        if self.functions.is_empty() || self.segments_per_s <= 0.0 {
            return None;
        }
        let cores = self.cpu.cores.len() as f64;
        Some(functions::share(&self.functions, wanted) * cores * 1e9 / self.segments_per_s)
    }

    /// ACKs per sent packet.
    pub fn acks_per_packet(&self) -> f64 {
        self.acks_per_s / self.packets_per_s.max(1.0)
    }
}

/// A point with what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The settings of the measurement.
    pub point: Point,
    /// The figures of the measurement.
    pub measured: Measured,
}

/// Where the load of a point runs.
pub(crate) struct Ends<'a> {
    /// The senders' namespace with its name, if it is not this one.
    pub(crate) sender: Option<(Arc<File>, String)>,
    /// The receivers' namespace and what they listen at, if they are on this machine.
    pub(crate) receiver: Option<(Arc<File>, Vec<SocketAddr>)>,
    pub(crate) servers: Vec<SocketAddr>,
    pub(crate) sources: Vec<IpAddr>,
    /// The senders' interface, if its counters are to be read.
    pub(crate) device: Option<String>,
    /// The handle of the queue that is measured; without one, the root's.
    pub(crate) handle: Option<&'static str>,
    /// Called when all connections are open.
    pub(crate) connected: &'a (dyn Fn() -> Result<(), Error> + Sync),
}

/// How long and how finely a point is measured.
#[derive(Clone, Debug)]
pub(crate) struct Method {
    pub(crate) settle: Duration,
    pub(crate) measure: Duration,
    /// Sending threads, and as many receiving ones.
    pub(crate) threads: u32,
    /// The file for perf's samples, if functions are to be sampled.
    pub(crate) samples: Option<PathBuf>,
}

/// The step that a measurement is at, for a display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// So many connections are open.
    Connecting(u32),
    /// Flows send, and are not measured yet.
    Settling,
    /// Flows are measured.
    Measuring,
    /// What is under way arrives.
    Draining,
}

/// Ends the load when dropped, so that its threads end on a failure or a panic too.
struct Ending<'a>(&'a Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.go(Step::Close);
    }
}

/// Runs the load of `point` and measures it.
pub(crate) fn measure(
    point: &Point,
    ends: &Ends<'_>,
    method: &Method,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Stage),
) -> Result<Measured, Error> {
    let threads = threads(point.flows, method.threads)?;
    let shared = &Shared::default();
    let free_before = available_memory();
    thread::scope(|scope| {
        // The load ends before the scope waits for its threads.
        let ending = Ending(shared);
        let (ready, is_ready) = mpsc::channel();
        if let Some((namespace, listeners)) = &ends.receiver {
            for _ in 0..threads {
                let ready = ready.clone();
                scope.spawn(move || {
                    let run = || {
                        own_descriptors()?;
                        exec::enter(namespace)?;
                        let receiver = Receiver::listen(listeners, point.flows as usize, shared)?;
                        // Nobody waits any more if the run has failed.
                        let _ = ready.send(());
                        // The wait ends when no thread can become ready any more.
                        drop(ready);
                        receiver.run()
                    };
                    run().unwrap_or_else(|e| shared.fail(e.to_string()));
                });
            }
        }
        drop(ready);
        // It ends early if a thread fails, which the next wait reports.
        for _ in is_ready.iter().take(threads as usize) {}
        check(shared, interrupt)?;

        let begun = Instant::now();
        let (mut asking, mut sending) = (Vec::new(), Vec::new());
        for options in senders(point, ends, threads) {
            let (ask, asked) = mpsc::channel();
            asking.push(ask);
            sending.push(scope.spawn(move || {
                let run = || {
                    own_descriptors()?;
                    if let Some((namespace, _)) = &ends.sender {
                        exec::enter(namespace)?;
                    }
                    Sender::connect(options, shared, interrupt)?.run(&asked)
                };
                run().unwrap_or_else(|e| {
                    shared.fail(e.to_string());
                    None
                })
            }));
        }
        wait_for_connections(point, shared, ends, interrupt, progress)?;
        let connect_s = begun.elapsed().as_secs_f64();
        (ends.connected)()?;

        shared.go(Step::Send);
        progress(Stage::Settling);
        pause(method.settle, shared, interrupt)?;
        progress(Stage::Measuring);
        let ask = |what| {
            // A thread that has ended has reported why.
            asking.iter().for_each(|ask| {
                let _ = ask.send(what);
            });
        };
        ask(Ask::Begin { threads: threads as usize });
        let mut window = Window::begin(ends, shared, method)?;
        let free_during = available_memory();
        let until = Instant::now() + method.measure;
        while Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            pause(left.min(Duration::from_secs(1)), shared, interrupt)?;
            ask(Ask::Read);
            window.read(ends)?;
        }
        let mut measured = window.end(ends, shared)?;
        if measured.lost >= point.flows {
            let why = &measured.lost_by;
            return Err(Error::Unfit(format!("all connections ended early: {why}")));
        }
        // The sample is read within the time in which a sender looks for its step.
        pause(TICK, shared, interrupt)?;
        progress(Stage::Draining);
        shared.go(Step::Drain);
        if ends.receiver.is_some() {
            drain(shared, threads, interrupt)?;
            measured.received = Some(shared.received.load(Ordering::Relaxed));
        }
        measured.sent = shared.sent.load(Ordering::Relaxed);
        measured.connected = shared.connected.load(Ordering::Relaxed);
        measured.connect_s = connect_s;
        let used = free_before.saturating_sub(free_during) as f64;
        measured.memory_per_flow = used / f64::from(measured.connected.max(1));
        drop(ending);
        let samples = sending.into_iter().filter_map(|thread| thread.join().ok().flatten());
        measured.sampled(&Sampled::of(&samples.collect::<Vec<_>>()));
        Ok(measured)
    })
}

/// The options of each sending thread: the flows are spread evenly.
fn senders(point: &Point, ends: &Ends<'_>, threads: u32) -> Vec<Options> {
    let at = |thread: u32| {
        (u64::from(point.flows) * u64::from(thread) / u64::from(threads.max(1))) as u32
    };
    (0..threads)
        .map(|thread| Options {
            flows: at(thread + 1) - at(thread),
            first: at(thread),
            servers: ends.servers.clone(),
            sources: ends.sources.clone(),
            congestion: point.congestion.clone(),
            pacing: point.pacing_rate(),
            unsent: point.unsent(),
        })
        .collect()
}

/// The number of sending threads, and of receiving ones: as many as are wanted, and so many that
/// each has few enough descriptors.
pub(crate) fn threads(flows: u32, wanted: u32) -> Result<u32, Error> {
    let limit = allow_open_files(u64::from(flows) + OTHER_FILES)
        .map_err(Error::io("asking for the limit of open files"))?;
    // The kernel spreads connections over receivers by a hash, so that some have more than others.
    let each = (limit.saturating_sub(OTHER_FILES) as f64 * EVENNESS) as u64;
    if each == 0 {
        return Err(Error::Unfit(format!(
            "this process may open {limit} files only: raise `ulimit -Hn`"
        )));
    }
    Ok(wanted.max(u64::from(flows).div_ceil(each) as u32).max(1))
}

/// Waits until all connections are open and accepted.
fn wait_for_connections(
    point: &Point,
    shared: &Shared,
    ends: &Ends<'_>,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Stage),
) -> Result<(), Error> {
    let count = |of: &AtomicU32| of.load(Ordering::Relaxed);
    while count(&shared.connected) < point.flows {
        pause(TICK, shared, interrupt)?;
        progress(Stage::Connecting(count(&shared.connected)));
    }
    let deadline = Instant::now() + ACCEPTED_WITHIN;
    while ends.receiver.is_some() && count(&shared.accepted) < point.flows {
        pause(TICK, shared, interrupt)?;
        if Instant::now() > deadline {
            return Err(Error::Unfit(format!(
                "only {} of {} connections were accepted: is net.core.somaxconn too low?",
                count(&shared.accepted),
                point.flows
            )));
        }
    }
    Ok(())
}

/// Waits until everything that was sent has arrived, or for a few seconds.
fn drain(shared: &Shared, threads: u32, interrupt: &Interrupt) -> Result<(), Error> {
    let deadline = Instant::now() + DRAIN;
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
    let arrives = || {
        // Only then is the number of sent bytes final.
        shared.silent.load(Ordering::Acquire) < threads
            || count(&shared.received) < count(&shared.sent)
    };
    while arrives() && Instant::now() < deadline {
        pause(TICK, shared, interrupt)?;
    }
    Ok(())
}

fn pause(time: Duration, shared: &Shared, interrupt: &Interrupt) -> Result<(), Error> {
    let until = Instant::now() + time;
    loop {
        check(shared, interrupt)?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(TICK));
    }
}

fn check(shared: &Shared, interrupt: &Interrupt) -> Result<(), Error> {
    if interrupt.is_raised() {
        return Err(Error::Interrupted);
    }
    shared.failure().map_or(Ok(()), |what| Err(Error::Unfit(what)))
}

fn available_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    memory(&text, "MemAvailable").unwrap_or_default()
}

/// All counters at one time.
struct Counters {
    at: Instant,
    cpu: CpuCounters,
    own_user: u64,
    tcp: TcpCounters,
    interface: Option<Interface>,
    qdisc: Option<QdiscCounters>,
    tcp_memory: u64,
    sent: u64,
    received: u64,
}

impl Counters {
    fn read(ends: &Ends<'_>, shared: &Shared) -> Result<Self, Error> {
        let failed = || Error::io("reading the kernel's counters");
        let net = || {
            // The files of this thread's namespace; those of the process are of its first thread.
            let read = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
            Ok((read("snmp")? + &read("netstat")?, read("dev")?, read("sockstat")?))
        };
        let (tcp, dev, sockets) = match &ends.sender {
            Some((namespace, _)) => exec::in_namespace(namespace, net),
            None => net(),
        }
        .map_err(failed())?;
        let stat = fs::read_to_string("/proc/stat").map_err(failed())?;
        let own = fs::read_to_string("/proc/self/stat").map_err(failed())?;
        let cpu = CpuCounters::parse(&stat)
            .ok_or_else(|| Error::Unfit("/proc/stat has an unknown form".to_owned()))?;
        Ok(Self {
            at: Instant::now(),
            cpu,
            own_user: own_user_ticks(&own).unwrap_or_default(),
            tcp: TcpCounters::parse(&tcp),
            interface: ends.device.as_ref().and_then(|name| Interface::parse(&dev, name)),
            qdisc: queue(ends)?,
            tcp_memory: tcp_pages(&sockets).unwrap_or_default() * PAGE,
            sent: shared.sent.load(Ordering::Relaxed),
            received: shared.received.load(Ordering::Relaxed),
        })
    }
}

/// The counters of the measured queue; `None` if there is no known interface.
fn queue(ends: &Ends<'_>) -> Result<Option<QdiscCounters>, Error> {
    let Some(device) = &ends.device else { return Ok(None) };
    let mut command = Command::new("tc");
    if let Some((_, name)) = &ends.sender {
        command.args(["-n", name]);
    }
    let answer = exec::output(command.args(["-s", "-j", "qdisc", "show", "dev", device]), "")?;
    Ok(QdiscCounters::parse(&answer, ends.handle))
}

/// The measured time.
struct Window {
    before: Counters,
    recording: Result<Recording, String>,
    queued: Vec<u64>,
    tcp_memory: u64,
}

impl Window {
    fn begin(ends: &Ends<'_>, shared: &Shared, method: &Method) -> Result<Self, Error> {
        let recording = match &method.samples {
            Some(file) => Recording::begin(file, method.measure.saturating_sub(MARGIN)),
            None => Err("they were not asked for".to_owned()),
        };
        let before = Counters::read(ends, shared)?;
        let queued = before.qdisc.iter().map(|qdisc| qdisc.qlen).collect();
        let tcp_memory = before.tcp_memory;
        Ok(Self { before, recording, queued, tcp_memory })
    }

    fn read(&mut self, ends: &Ends<'_>) -> Result<(), Error> {
        self.queued.extend(queue(ends)?.map(|qdisc| qdisc.qlen));
        Ok(())
    }

    fn end(mut self, ends: &Ends<'_>, shared: &Shared) -> Result<Measured, Error> {
        let after = Counters::read(ends, shared)?;
        let before = self.before;
        let seconds = (after.at - before.at).as_secs_f64();
        self.queued.extend(after.qdisc.map(|qdisc| qdisc.qlen));
        let (functions, functions_missing) = match self.recording.and_then(Recording::end) {
            Ok(functions) => (functions, String::new()),
            Err(why) => (Vec::new(), why),
        };
        let rate = |count: u64| count as f64 / seconds;
        let tcp = |name: &str| after.tcp.since(&before.tcp, name);
        let sent = tcp("Tcp.OutSegs");
        let again = tcp("Tcp.RetransSegs");
        let interface = after.interface.zip(before.interface).map(|(a, b)| a.since(b));
        let interface = interface.unwrap_or_default();
        let qdisc = after.qdisc.zip(before.qdisc).map(|(a, b)| a.since(b)).unwrap_or_default();
        let bytes = match ends.receiver {
            Some(_) => after.received - before.received,
            None => after.sent - before.sent,
        };
        let ticks = after.cpu.ticks_since(&before.cpu).max(1) as f64;
        let others = after
            .cpu
            .user_ticks_since(&before.cpu)
            .saturating_sub(after.own_user.saturating_sub(before.own_user));
        Ok(Measured {
            seconds,
            lost: shared.lost.load(Ordering::Relaxed),
            lost_by: shared.lost_by(),
            goodput_mbps: rate(bytes) * 8.0 / 1e6,
            retransmitted: again as f64 / (sent + again).max(1) as f64,
            packets_per_s: rate(sent + again),
            segments_per_s: rate(interface.tx_packets),
            segment_bytes: interface.tx_bytes as f64 / interface.tx_packets.max(1) as f64,
            acks_per_s: rate(tcp("TcpExt.TCPPureAcks") + tcp("TcpExt.TCPHPAcks")),
            cpu: after.cpu.since(&before.cpu, seconds),
            other_programs: others as f64 / ticks,
            tcp_memory: after.tcp_memory.max(self.tcp_memory),
            drops_per_s: rate(qdisc.drops),
            requeues_per_s: rate(qdisc.requeues),
            queued: self.queued.iter().sum::<u64>() as f64 / self.queued.len().max(1) as f64,
            functions,
            functions_missing,
            ..Measured::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::tests::point;
    use crate::probe::cpu::CpuShare;

    #[test]
    fn flows_are_spread_over_threads() {
        let ends = Ends {
            sender: None,
            receiver: None,
            servers: vec!["10.0.0.1:9".parse().unwrap()],
            sources: Vec::new(),
            device: None,
            handle: None,
            connected: &|| Ok(()),
        };
        let all = senders(&point(10), &ends, 3);
        let parts: Vec<_> = all.iter().map(|options| (options.first, options.flows)).collect();
        assert_eq!(parts, [(0, 3), (3, 3), (6, 4)]);
    }

    #[test]
    fn costs_are_per_gigabit_and_per_segment() {
        let all = CpuShare { idle: 0.25, ..CpuShare::default() };
        let cpu = CpuUse { all, cores: vec![all; 2], ..CpuUse::default() };
        let lock = Function { name: "_raw_spin_lock".to_owned(), share: 0.1 };
        let measured = Measured {
            goodput_mbps: 3000.0,
            segments_per_s: 100_000.0,
            functions: vec![lock],
            cpu,
            ..Measured::default()
        };
        // 1.5 cores for 3 Gbit/s; a tenth of two cores for 100 000 segments a second.
        assert_eq!(measured.cpu_per_gbit(), Some(0.5));
        assert_eq!(measured.ns_per_segment(functions::is_lock), Some(2000.0));
        assert_eq!(Measured::default().ns_per_segment(functions::is_lock), None);
        assert_eq!(Measured::default().cpu_per_gbit(), None);
    }
}
