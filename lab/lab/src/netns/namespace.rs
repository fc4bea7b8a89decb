//! Network namespaces: the kernel settings of their hosts and routers, and their removal.

use std::process::Command;

use super::exec;
use crate::engine::EngineError;

/// Settings of every namespace (paths below `/proc/sys/net`): no forwarding, and no answer to ARP
/// on an interface that does not have the address.
pub const FOR_ALL: [(&str, &str); 3] = [
    ("ipv4/ip_forward", "0"),
    ("ipv6/conf/all/forwarding", "0"),
    ("ipv4/conf/all/arp_ignore", "1"),
];

/// Settings of a router, which a sendbox over the kernel's queues is too.
pub const FOR_ROUTERS: [(&str, &str); 2] =
    [("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")];

/// Settings of hosts.
///
/// Windows may grow to 32 MiB: 13 times the 2.4 MB that a Cubic flow has in flight over 96 Mbit/s
/// and 100 ms into a buffer of the same size. A connection learns nothing from earlier ones, so
/// that runs do not depend on each other. A port may be reused one second after its connection
/// ended (RFC 6191); otherwise one connection per request would use up all ports.
pub const FOR_HOSTS: [(&str, &str); 4] = [
    ("ipv4/tcp_rmem", "4096 131072 33554432"),
    ("ipv4/tcp_wmem", "4096 65536 33554432"),
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/tcp_tw_reuse", "1"),
];

/// Arguments of `ethtool -K` that switch off segmentation, merging and checksum offloads, with
/// which a middlebox would see packets that are never on a wire.
pub const OFFLOADS: [&str; 10] =
    ["tso", "off", "gso", "off", "gro", "off", "tx", "off", "rx", "off"];

/// Removes the namespace `name` with its links, if it exists.
///
/// # Errors
/// If `ip netns delete` fails.
pub fn remove_namespace(name: &str) -> Result<(), EngineError> {
    if !exec::namespace_file(name).exists() {
        return Ok(());
    }
    exec::run(Command::new("ip").args(["netns", "delete", name]), "")
}

/// Joins `commands` to a batch with one command per line.
pub fn lines(commands: impl IntoIterator<Item = String>) -> String {
    commands.into_iter().map(|command| command + "\n").collect()
}
