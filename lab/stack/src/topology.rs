//! Two namespaces with a link between them, for one measurement.
//!
//! ```text
//!   fb-ID-s  senders ── fb-send ──────── fb-recv ── receivers  fb-ID-r
//!                       HTB, qdisc        loss, delay of ACKs
//! ```

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;

use forebay_lab::netns::exec;
use forebay_lab::netns::namespace::lines;

use crate::Error;
use crate::check;
use crate::journal::{Journal, Undo};
use crate::load::sender::unspecified;
use crate::point::Point;
use crate::sysctl::Tree;

/// The interface of the senders.
const SEND: &str = "fb-send";
/// The interface of the receivers.
const RECV: &str = "fb-recv";
/// The port of the receivers.
const PORT: u16 = 28_400;
/// The handle of the queueing discipline that is measured.
pub(crate) const HANDLE: &str = "2:";
/// The burst of HTB in microseconds of its rate. It is at least one segment of 64 KiB, which HTB
/// would otherwise never let out on time.
const BURST_US: f64 = 500.0;
/// Parameters of each namespace: all ports for connections, and no memory of earlier ones.
const OWN: [(&str, &str); 2] =
    [("net.ipv4.ip_local_port_range", "1024 65535"), ("net.ipv4.tcp_no_metrics_save", "1")];

/// Which versions of IP flows use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// Connections over IPv4 only.
    V4,
    /// Connections over IPv6 only.
    V6,
    /// Connections over IPv4 and IPv6 in turn.
    Both,
}

impl Families {
    fn has_v4(self) -> bool {
        self != Self::V6
    }

    fn has_v6(self) -> bool {
        self != Self::V4
    }
}

/// A network for one measurement. The journal removes it.
pub(crate) struct Topology {
    pub(crate) sender: Arc<File>,
    pub(crate) receiver: Arc<File>,
    names: [String; 2],
    families: Families,
    sources: u32,
}

impl Topology {
    /// Sets up the network for `point`, with `sources` addresses of each family.
    pub(crate) fn set_up(
        journal: &mut Journal,
        point: &Point,
        families: Families,
        sources: u32,
        tune: bool,
    ) -> Result<Self, Error> {
        let names = ["s", "r"].map(|end| format!("fb-{}-{end}", journal.id()));
        for name in &names {
            journal.note(Undo::Namespace { name: name.clone() })?;
        }
        let [s, r] = &names;
        let mut setup: Vec<String> = names.iter().map(|name| format!("netns add {name}")).collect();
        setup.push(format!("link add {SEND} netns {s} type veth peer name {RECV} netns {r}"));
        exec::batch("ip", None, &lines(setup))?;
        let (sender, receiver) = (exec::open_namespace(s)?, exec::open_namespace(r)?);
        let own = || OWN.into_iter().chain(check::of_namespaces().filter(|_| tune));
        for namespace in [&sender, &receiver] {
            exec::in_namespace(namespace, || own().try_for_each(|(name, value)| set(name, value)))
                .map_err(Error::io("setting parameters of a namespace"))?;
        }
        if let Some(log) = point.tso_rtt_log {
            let name = "net.ipv4.tcp_tso_rtt_log";
            exec::in_namespace(&sender, || set(name, &log.to_string()))
                .map_err(Error::io(format!("setting {name} (Linux 5.18 or later)")))?;
        }
        let topology = Self { sender, receiver, names, families, sources };
        topology.configure(point)?;
        Ok(topology)
    }

    fn configure(&self, point: &Point) -> Result<(), Error> {
        let [s, r] = &self.names;
        let address = |device: &str, ip: IpAddr| match ip {
            IpAddr::V4(ip) => format!("address add {ip}/16 dev {device}"),
            IpAddr::V6(ip) => format!("address add {ip}/64 dev {device} nodad"),
        };
        let up = |device: &str| ["lo", device].map(|device| format!("link set {device} up"));
        let mut senders = up(SEND).to_vec();
        senders.push(format!("link set {SEND} txqueuelen {}", point.limit));
        senders.extend(self.sources().iter().map(|ip| address(SEND, *ip)));
        let mut receivers = up(RECV).to_vec();
        receivers.extend(self.servers().iter().map(|at| address(RECV, at.ip())));
        exec::batch("ip", Some(s), &lines(senders))?;
        exec::batch("ip", Some(r), &lines(receivers))?;
        if !point.offload {
            for (name, device) in [(s, SEND), (r, RECV)] {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name, "ethtool", "-K", device]);
                exec::run(command.args(["tso", "off", "gso", "off"]), "")?;
            }
        }
        exec::batch("tc", Some(s), &lines(queue(point, SEND)))?;
        if point.delay_ms > 0.0 {
            // The way back has the delay, so that it does not add a queue before the measured one.
            let netem = format!("netem limit 1000000 delay {}ms", point.delay_ms);
            exec::batch("tc", Some(r), &format!("qdisc add dev {RECV} root {netem}\n"))?;
        }
        Ok(())
    }

    /// Makes the receivers' interface lose arriving packets as the point says. nftables does it,
    /// since not every kernel has netem; a segment with offloads is lost as a whole.
    pub(crate) fn lose(&self, point: &Point) -> Result<(), Error> {
        if point.loss <= 0.0 {
            return Ok(());
        }
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[1], "nft", "-f", "-"]);
        exec::run(&mut command, &losing(RECV, point.loss)).map_err(no_loss)
    }

    /// The addresses that connections come from.
    pub(crate) fn sources(&self) -> Vec<IpAddr> {
        let v4 = (0..self.sources).map(|n| v4(1 + n / 250, 1 + n % 250));
        let v6 = (0..self.sources).map(|n| v6(1, 1 + n));
        let v4 = v4.filter(|_| self.families.has_v4());
        v4.chain(v6.filter(|_| self.families.has_v6())).collect()
    }

    /// The listeners' addresses.
    pub(crate) fn servers(&self) -> Vec<SocketAddr> {
        let v4 = self.families.has_v4().then(|| v4(0, 1));
        let v6 = self.families.has_v6().then(|| v6(0, 1));
        v4.into_iter().chain(v6).map(|ip| SocketAddr::new(ip, PORT)).collect()
    }

    /// What the receivers listen at.
    pub(crate) fn listeners(&self) -> Vec<SocketAddr> {
        self.servers().iter().map(|at| unspecified(at.is_ipv4(), at.port())).collect()
    }

    /// The senders' namespace and interface by name.
    pub(crate) fn sending_end(&self) -> (&str, &'static str) {
        (&self.names[0], SEND)
    }
}

/// The commands of tc that put the point's queue on `device`.
fn queue(point: &Point, device: &str) -> Vec<String> {
    let discipline = discipline(point);
    if point.rate_mbps <= 0.0 {
        return vec![format!("qdisc add dev {device} root handle {HANDLE} {discipline}")];
    }
    let rate = point.rate_mbps * 1e6;
    let burst = (rate / 8.0 * BURST_US / 1e6).max(66_000.0) as u64;
    vec![
        format!("qdisc add dev {device} root handle 1: htb default 1"),
        format!(
            "class add dev {device} parent 1: classid 1:1 htb rate {rate:.0}bit ceil {rate:.0}bit \
             burst {burst} cburst {burst} quantum 60000"
        ),
        format!("qdisc add dev {device} parent 1:1 handle {HANDLE} {discipline}"),
    ]
}

/// The arguments of tc for the point's queueing discipline.
pub(crate) fn discipline(point: &Point) -> String {
    match point.qdisc.as_str() {
        // The target is that of the thesis, section 5.2.
        "fq_codel" => format!("fq_codel limit {} target 100us", point.limit),
        // Its length is that of the interface.
        "pfifo_fast" => "pfifo_fast".to_owned(),
        // With its default, fq would drop from the 100th packet of a flow on.
        "fq" => format!("fq limit {0} flow_limit {0}", point.limit),
        other => format!("{other} limit {}", point.limit),
    }
}

/// The rules of nftables that lose this share of the packets which arrive at `device`.
fn losing(device: &str, share: f64) -> String {
    let lost = (share * 100_000.0).round() as u32;
    format!(
        "table netdev fb {{\n\
         chain lose {{\n\
         type filter hook ingress device \"{device}\" priority 0; policy accept;\n\
         numgen random mod 100000 < {lost} drop\n\
         }}\n\
         }}\n"
    )
}

/// The reason for which packets cannot be lost.
fn no_loss(error: Error) -> Error {
    let message = match error {
        Error::Command { message, .. } => message,
        other => other.to_string(),
    };
    let line = message.lines().next().unwrap_or_default();
    Error::Unfit(format!("loss needs nft (package nftables) and a kernel with nf_tables: {line}"))
}

/// Checks whether packets can be lost here.
///
/// # Errors
/// If nft is not installed, or the kernel lacks what it needs.
pub fn can_lose() -> Result<(), Error> {
    let trial = || {
        let mut command = Command::new("nft");
        exec::run(command.args(["-f", "-"]), &losing("lo", 0.5)).map_err(no_loss)
    };
    exec::in_new_namespace(trial).map_err(Error::io("making a namespace"))?
}

/// Whether the kernel has the queueing discipline `name`.
///
/// # Errors
/// If no namespace can be made.
pub fn has_discipline(name: &str) -> io::Result<bool> {
    exec::in_new_namespace(|| {
        let mut command = Command::new("tc");
        exec::run(command.args(["qdisc", "add", "dev", "lo", "root", name]), "").is_ok()
    })
}

fn set(name: &str, value: &str) -> io::Result<()> {
    Tree::of_kernel()
        .write(name, value)
        .map_err(|e| io::Error::new(e.kind(), format!("{name} = {value}: {e}")))
}

fn v4(c: u32, d: u32) -> IpAddr {
    Ipv4Addr::new(10, 78, c as u8, d as u8).into()
}

fn v6(g: u32, h: u32) -> IpAddr {
    Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, g as u16, h as u16).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::tests::point;

    #[test]
    fn a_rate_is_above_the_measured_queue() {
        let commands = queue(&point(1), "d");
        assert_eq!(commands[2], "qdisc add dev d parent 1:1 handle 2: pfifo limit 1000");
        // 500 us of 800 Mbit/s are 50 kB, less than a segment.
        assert!(commands[1].contains("rate 800000000bit") && commands[1].contains("burst 66000"));
        let free = Point { rate_mbps: 0.0, qdisc: "fq".to_owned(), ..point(1) };
        let root = "qdisc add dev d root handle 2: fq limit 1000 flow_limit 1000";
        assert_eq!(queue(&free, "d"), [root]);
    }
}
