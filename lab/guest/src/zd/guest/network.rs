//! The guest's network: two namespaces, a wire between them, the sender's queue, and the kernel's
//! counters.

use std::fs::{self, File};
use std::io;

use super::command::run;
use super::{Failure, tun};
use crate::zd::order::Queue;

/// The sender's end of the wire.
pub(super) const DEVICE: &str = "fb-zd0";
/// The receiver's end of the wire.
const FAR_DEVICE: &str = "fb-zd1";
/// The address of the receiver.
pub(super) const FAR: &str = "10.98.0.2";
/// The sysctl of `kernel/zd`.
const SWITCH: &str = "/proc/sys/net/core/zd";

/// The packets that the receiver's TUN device holds: all acknowledgements.
const ALL: u32 = 10_000;

/// Sets up the sender's side in the namespace of this thread; `far` is a thread in the receiver's.
/// Returns the device if it is a TUN device.
pub(super) fn set_up(queue: Queue, far: i32) -> Result<Option<File>, Failure> {
    let (queues, mut device) = (queue.queues, None);
    run("ip link set lo up")?;
    if queue.tun {
        device = Some(tun::device(DEVICE, queue.limit)?);
    } else {
        run(&format!(
            "ip link add {DEVICE} numtxqueues {queues} type veth peer name {FAR_DEVICE} \
             numrxqueues {queues}"
        ))?;
        run(&format!("ip link set {FAR_DEVICE} netns {far}"))?;
        add_queue(queue)?;
    }
    run(&format!("ip address add 10.98.0.1/24 dev {DEVICE}"))?;
    run(&format!("ip link set {DEVICE} up"))?;
    Ok(device)
}

/// Adds the queue to the sender's device.
pub(super) fn add_queue(queue: Queue) -> Result<(), Failure> {
    if queue.queues == 1 {
        return add_bucket(queue, "root", 1);
    }
    run(&format!("tc qdisc add dev {DEVICE} root handle 1: mq"))?;
    let each = Queue { rate: queue.rate / u64::from(queue.queues), ..queue };
    // Handles and classes are hexadecimal.
    (1..=queue.queues).try_for_each(|n| add_bucket(each, &format!("parent 1:{n:x}"), 2 * n))
}

/// Adds a token bucket with the handle `handle` at `place`, and the packet queue below it.
fn add_bucket(queue: Queue, place: &str, handle: u32) -> Result<(), Failure> {
    let Queue { rate, burst, limit, .. } = queue;
    let below = handle + 1;
    // The token bucket's own limit only applies without a child queue.
    run(&format!(
        "tc qdisc add dev {DEVICE} {place} handle {handle:x}: tbf rate {rate}bit burst {burst} \
         limit 1000000000"
    ))?;
    run(&format!(
        "tc qdisc add dev {DEVICE} parent {handle:x}:1 handle {below:x}: pfifo limit {limit}"
    ))?;
    Ok(())
}

/// Sets up the receiver's side when the sender's exists; `near` is the sender's TUN device.
pub(super) fn set_up_far(queue: Queue, near: Option<File>) -> Result<(), Failure> {
    let delay = queue.delay;
    if let Some(near) = near {
        let far = tun::device(FAR_DEVICE, ALL)?;
        tun::carry(near.try_clone()?, far.try_clone()?, Some(queue.rate));
        tun::carry(far, near, None);
    }
    for line in [
        "ip link set lo up".to_owned(),
        format!("ip address add {FAR}/24 dev {FAR_DEVICE}"),
        format!("tc qdisc add dev {FAR_DEVICE} root netem delay {delay}us limit 1000000"),
        format!("ip link set {FAR_DEVICE} up"),
    ] {
        run(&line)?;
    }
    Ok(())
}

/// Applies the settings of the whole guest.
pub(super) fn settings(backpressure: bool) -> Result<(), Failure> {
    for (name, value) in [
        // A token bucket releases a burst at once, and the backlog must not lose packets.
        ("net/core/netdev_max_backlog", "100000"),
        ("net/core/somaxconn", "65535"),
        ("net/ipv4/tcp_max_syn_backlog", "65535"),
        ("net/ipv4/ip_local_port_range", "10000 65000"),
        // A connection must not learn from earlier ones.
        ("net/ipv4/tcp_no_metrics_save", "1"),
    ] {
        fs::write(format!("/proc/sys/{name}"), value).map_err(|e| format!("{name}: {e}"))?;
    }
    match fs::write(SWITCH, if backpressure { "1" } else { "0" }) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && !backpressure => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err("this kernel has no net.core.zd: it was built without kernel/zd".into())
        }
        other => Ok(other?),
    }
}

/// The kernel's counters of the sender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) dropped: u64,
    pub(super) retransmissions: u64,
    pub(super) timeouts: u64,
    /// Segments to be sent again that had not left the device's queue.
    pub(super) held: u64,
    /// What the device sent.
    pub(super) bytes: u64,
    pub(super) frames: u64,
    pub(super) paused: Option<u64>,
    pub(super) resumed: Option<u64>,
}

impl Counters {
    /// Reads the counters of this thread's namespace.
    pub(super) fn now() -> Result<Self, Failure> {
        let snmp = fs::read_to_string("/proc/thread-self/net/snmp")?;
        let netstat = fs::read_to_string("/proc/thread-self/net/netstat")?;
        let Transmitted { bytes, frames, .. } = transmitted()?;
        let needed = |text: &str, group, name| {
            counter(text, group, name).ok_or_else(|| format!("the kernel does not count {name}"))
        };
        Ok(Self {
            dropped: dropped()?,
            bytes,
            frames,
            retransmissions: needed(&snmp, "Tcp:", "RetransSegs")?,
            timeouts: needed(&netstat, "TcpExt:", "TCPTimeouts")?,
            held: needed(&netstat, "TcpExt:", "TCPSpuriousRtxHostQueues")?,
            paused: counter(&netstat, "TcpExt:", "ZdPaused"),
            resumed: counter(&netstat, "TcpExt:", "ZdResumed"),
        })
    }

    /// The difference to `earlier`. A queue that was replaced counts from zero.
    pub(super) fn since(self, earlier: Self) -> Self {
        let of = |now: Option<u64>, then: Option<u64>| {
            now.map(|now| now.saturating_sub(then.unwrap_or_default()))
        };
        Self {
            dropped: self.dropped.saturating_sub(earlier.dropped),
            retransmissions: self.retransmissions.saturating_sub(earlier.retransmissions),
            timeouts: self.timeouts.saturating_sub(earlier.timeouts),
            held: self.held.saturating_sub(earlier.held),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            frames: self.frames.saturating_sub(earlier.frames),
            paused: of(self.paused, earlier.paused),
            resumed: of(self.resumed, earlier.resumed),
        }
    }
}

/// The packets that the sender's root queue and its children dropped, and its device.
fn dropped() -> Result<u64, Failure> {
    let text = run(&format!("tc -s -j qdisc show dev {DEVICE}"))?;
    let queues: serde_json::Value = serde_json::from_str(&text)?;
    let queues = queues.as_array().map(Vec::as_slice).unwrap_or_default();
    let root = queues.iter().find(|queue| queue["root"] == true);
    let root = root.and_then(|queue| queue["drops"].as_u64()).unwrap_or_default();
    Ok(root + transmitted()?.dropped)
}

/// What the sender's device transmitted.
struct Transmitted {
    bytes: u64,
    frames: u64,
    dropped: u64,
}

/// Reads the numbers of transmission in `/proc/net/dev`.
fn transmitted() -> Result<Transmitted, Failure> {
    let text = fs::read_to_string("/proc/thread-self/net/dev")?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix(DEVICE)?.strip_prefix(':'));
    let words: Vec<_> = line.unwrap_or_default().split_whitespace().collect();
    let number = |i: usize| -> Result<u64, Failure> {
        Ok(words.get(i).ok_or_else(|| format!("no counters of {DEVICE}"))?.parse()?)
    };
    Ok(Transmitted { bytes: number(8)?, frames: number(9)?, dropped: number(11)? })
}

/// A counter of `/proc/net/snmp` or `netstat`, which have pairs of lines with names and values.
fn counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(group));
    let names = lines.next()?.split_whitespace();
    let values = lines.next()?.split_whitespace();
    names.zip(values).find(|(n, _)| *n == name)?.1.parse().ok()
}

/// The TCP sockets for which the kernel has memory, in use and orphaned, in this thread's namespace
/// and in all. Sockets in TIME_WAIT are not included.
pub(super) fn sockets() -> Result<u64, Failure> {
    let text = fs::read_to_string("/proc/thread-self/net/sockstat")?;
    let line = text.lines().find(|line| line.starts_with("TCP:")).unwrap_or_default();
    let words: Vec<_> = line.split_whitespace().collect();
    let of = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1)?.parse::<u64>().ok()
    };
    Ok(of("inuse").unwrap_or_default() + of("orphan").unwrap_or_default())
}

/// The kernel's warnings.
pub(super) fn warnings() -> Vec<String> {
    let mut text = vec![0_u8; 1 << 18];
    // SYSLOG_ACTION_READ_ALL (syslog(2)).
    // SAFETY: the buffer is valid for writing its length.
    let read = unsafe { libc::klogctl(3, text.as_mut_ptr().cast(), text.len() as i32) };
    text.truncate(usize::try_from(read).unwrap_or_default());
    let text = String::from_utf8_lossy(&text);
    let bad = ["WARNING", "BUG", "refcount", "Call Trace", "unregister_netdevice", "Oops"];
    let lines = text.lines().filter(|line| bad.iter().any(|word| line.contains(word)));
    lines.take(20).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let text = "Ip: A B\nIp: 1 2\nTcp: X RetransSegs Y\nTcp: 7 8 9\n";
        assert_eq!(counter(text, "Tcp:", "RetransSegs"), Some(8));
        assert_eq!(counter(text, "Tcp:", "A"), None);
        assert_eq!(counter(text, "Udp:", "X"), None);
    }
}
