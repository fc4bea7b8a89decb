//! A network interface and its properties.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use forebay_system::NameLock;

use crate::bpf::{self, XdpSupport};
use crate::error::{Error, last};
use crate::ethtool::{self, Feature};
use crate::framing::Framing;
use crate::ioctl::ioctl;
use crate::pool::Pool;

/// A network interface of this namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Netdev {
    /// The interface's name.
    pub name: String,
    /// The kernel's index of the interface.
    pub index: u32,
    /// The MTU in bytes.
    pub mtu: u32,
    /// The MAC address.
    pub mac: [u8; 6],
    /// The IP addresses of the interface itself.
    pub addresses: Vec<IpAddr>,
    /// The number of receive queues.
    pub queues: u32,
    up: bool,
    /// The hardware type (`ARPHRD_…` of `linux/if_arp.h`), and the framing if it is known.
    hardware: u16,
    framing: Option<Framing>,
}

impl Netdev {
    /// Looks up the interface called `name`.
    ///
    /// # Errors
    /// If there is none, or the kernel does not answer.
    pub fn find(name: &str) -> Result<Self, Error> {
        let missing = || Error::NoInterface(name.to_owned());
        let c_name = CString::new(name).map_err(|_| missing())?;
        // SAFETY: `c_name` is a valid C string.
        let index = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
        if index == 0 {
            return Err(missing());
        }
        let flags = ioctl(name, libc::SIOCGIFFLAGS, None)?;
        let mtu = ioctl(name, libc::SIOCGIFMTU, None)?;
        let hardware = ioctl(name, libc::SIOCGIFHWADDR, None)?;
        // SAFETY: each request filled the union's member that is read here.
        let (flags, mtu, sa) = unsafe {
            (flags.ifr_ifru.ifru_flags, mtu.ifr_ifru.ifru_mtu, hardware.ifr_ifru.ifru_hwaddr)
        };
        let kind = sa.sa_family;
        let mut mac = [0; 6];
        for (to, from) in mac.iter_mut().zip(sa.sa_data) {
            *to = from as u8;
        }
        Ok(Self {
            name: name.to_owned(),
            index,
            mtu: mtu as u32,
            mac,
            addresses: addresses(name)?,
            queues: ethtool::receive_queues(name),
            up: i32::from(flags) & libc::IFF_UP != 0,
            hardware: kind,
            framing: Framing::of(kind, is_multipoint(name)?),
        })
    }

    /// Checks that a port can be opened here.
    ///
    /// # Errors
    /// If the interface is down or its frames do not fit into a chunk.
    pub fn check(&self) -> Result<(), Error> {
        self.check_up()?;
        if self.mtu > Pool::MAX_MTU {
            let interface = self.name.clone();
            return Err(Error::Mtu { interface, mtu: self.mtu, max: Pool::MAX_MTU });
        }
        Ok(())
    }

    /// Checks that the interface is up.
    ///
    /// # Errors
    /// If the interface is down.
    pub fn check_up(&self) -> Result<(), Error> {
        if self.up { Ok(()) } else { Err(Error::Down(self.name.clone())) }
    }

    /// Checks that frames of the interface begin with an Ethernet header.
    ///
    /// # Errors
    /// [`Error::NotEthernet`] if they do not.
    pub fn check_ethernet(&self) -> Result<(), Error> {
        if self.is_ethernet() { Ok(()) } else { Err(Error::NotEthernet(self.name.clone())) }
    }

    /// Returns what the device's packets begin with.
    ///
    /// # Errors
    /// [`Error::Framing`] if it is neither an Ethernet header nor an IP header.
    pub fn framing(&self) -> Result<Framing, Error> {
        let unknown = || Error::Framing { interface: self.name.clone(), hardware: self.hardware };
        self.framing.ok_or_else(unknown)
    }

    /// Reserves the interface for this process, against a second process of Forebay.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process has it.
    pub(crate) fn reserve(&self) -> Result<NameLock, Error> {
        NameLock::hold(&format!("forebay-port-{}", self.name)).map_err(|e| match e.kind() {
            io::ErrorKind::AddrInUse => Error::InUse(self.name.clone()),
            _ => Error::system("reserving an interface", e),
        })
    }

    /// Whether frames of the interface begin with an Ethernet header.
    pub fn is_ethernet(&self) -> bool {
        self.framing == Some(Framing::Ethernet)
    }

    /// Whether a frame is for this machine's own network stack: it has the interface's MAC address,
    /// or asks for one of its IP addresses (ARP, neighbour solicitation).
    pub fn is_local(&self, frame: &[u8]) -> bool {
        let Some((destination, rest)) = frame.split_first_chunk::<6>() else { return false };
        if *destination == self.mac {
            return true;
        }
        if destination[0] & 1 == 0 {
            return false;
        }
        match rest.get(6..8) {
            // The target address of an ARP request (RFC 826) for IPv4 over Ethernet.
            Some([0x08, 0x06]) => rest
                .get(32..36)
                .and_then(|a| <[u8; 4]>::try_from(a).ok())
                .is_some_and(|a| self.addresses.contains(&IpAddr::V4(Ipv4Addr::from(a)))),
            // The target of a neighbour solicitation (RFC 4861 section 4.3): ICMPv6 type 135.
            Some([0x86, 0xdd]) if rest.get(14) == Some(&58) && rest.get(48) == Some(&135) => rest
                .get(56..72)
                .and_then(|a| <[u8; 16]>::try_from(a).ok())
                .is_some_and(|a| self.addresses.contains(&IpAddr::V6(Ipv6Addr::from(a)))),
            _ => false,
        }
    }

    /// Whether the kernel or the driver merges received packets into larger ones (GRO, LRO).
    pub(crate) fn merges_packets(&self) -> bool {
        let features = self.features();
        [Feature::Gro, Feature::Lro].iter().any(|f| features.contains(f))
    }

    /// Returns the features that the driver and the kernel have turned on here, of those that
    /// matter to a box; none where the driver does not answer.
    pub fn features(&self) -> BTreeSet<Feature> {
        ethtool::features(&self.name)
    }

    /// Returns what the driver supports of XDP, and which program is attached.
    ///
    /// # Errors
    /// If the kernel does not say which program is attached.
    pub fn xdp(&self) -> Result<XdpSupport, Error> {
        bpf::support(self.index)
    }

    /// Returns the frames that the kernel dropped on this interface since it exists, receiving and
    /// sending. These counters have 32 bits and wrap.
    ///
    /// # Errors
    /// If the interfaces cannot be listed.
    pub fn dropped(&self) -> Result<(u32, u32), Error> {
        let mut dropped = (0, 0);
        each_address(&self.name, |family, entry| {
            if family == libc::AF_PACKET && !entry.ifa_data.is_null() {
                // SAFETY: for AF_PACKET the data is a `struct rtnl_link_stats`: 32-bit counters,
                // rx_dropped and tx_dropped being the seventh and the eighth.
                dropped = unsafe {
                    let counters = entry.ifa_data.cast::<u32>();
                    (counters.add(6).read(), counters.add(7).read())
                };
            }
        })?;
        Ok(dropped)
    }
}

/// Whether interface `name` is a tunnel that has no address of the other end. Devices that are no
/// tunnels have an address that all of them share.
fn is_multipoint(name: &str) -> Result<bool, Error> {
    let mut found = false;
    each_address(name, |family, entry| {
        if family == libc::AF_PACKET && !entry.ifa_ifu.is_null() {
            // SAFETY: for AF_PACKET, glibc and musl give the link-layer address of all hosts, or
            // that of the tunnel's other end, as a `sockaddr_ll`.
            let all = unsafe { &*entry.ifa_ifu.cast::<libc::sockaddr_ll>() };
            let address = all.sll_addr.iter().take(all.sll_halen.into());
            found = address.clone().count() > 0 && address.copied().all(|byte| byte == 0);
        }
    })?;
    Ok(found)
}

/// Lists the IP addresses of interface `name`.
fn addresses(name: &str) -> Result<Vec<IpAddr>, Error> {
    let mut found = Vec::new();
    each_address(name, |family, entry| {
        // SAFETY: each address is read as the type that its family says.
        unsafe {
            match family {
                libc::AF_INET => {
                    let a = &*entry.ifa_addr.cast::<libc::sockaddr_in>();
                    found.push(IpAddr::V4(Ipv4Addr::from(u32::from_be(a.sin_addr.s_addr))));
                }
                libc::AF_INET6 => {
                    let a = &*entry.ifa_addr.cast::<libc::sockaddr_in6>();
                    found.push(IpAddr::V6(Ipv6Addr::from(a.sin6_addr.s6_addr)));
                }
                _ => {}
            }
        }
    })?;
    Ok(found)
}

/// Calls `f` with the family and the entry of each address of interface `name`; its link-layer
/// address counts as one.
fn each_address(name: &str, mut f: impl FnMut(i32, &libc::ifaddrs)) -> Result<(), Error> {
    let mut list = std::ptr::null_mut();
    // SAFETY: `list` receives a list that `freeifaddrs` below frees.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Err(last("listing addresses"));
    }
    let mut next = list;
    while !next.is_null() {
        // SAFETY: `next` points into the list, which is freed only after the loop; a name is a
        // valid C string and an address, if there is one, starts with its family.
        unsafe {
            let entry = &*next;
            next = entry.ifa_next;
            let same = CStr::from_ptr(entry.ifa_name).to_bytes() == name.as_bytes();
            if same && !entry.ifa_addr.is_null() {
                f(i32::from((*entry.ifa_addr).sa_family), entry);
            }
        }
    }
    // SAFETY: `list` came from `getifaddrs` and is not used after this.
    unsafe { libc::freeifaddrs(list) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn netdev() -> Netdev {
        Netdev {
            name: "fb0".into(),
            index: 1,
            mtu: 1500,
            mac: [2, 0, 0, 0, 0, 1],
            addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            queues: 1,
            up: true,
            hardware: libc::ARPHRD_ETHER,
            framing: Some(Framing::Ethernet),
        }
    }

    fn arp(target: [u8; 4]) -> Vec<u8> {
        let mut f = vec![0xff; 6];
        f.extend([2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        f.extend([2, 0, 0, 0, 0, 9, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0]);
        f.extend(target);
        f
    }

    fn solicitation(target: &str) -> Vec<u8> {
        let mut f = vec![0x33, 0x33, 0xff, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd];
        f.extend([0x60, 0, 0, 0, 0, 24, 58, 255]);
        f.extend([0; 32]);
        f.extend([135, 0, 0, 0, 0, 0, 0, 0]);
        f.extend(target.parse::<Ipv6Addr>().unwrap().octets());
        f
    }

    #[test]
    fn frames_for_the_interface_itself_are_recognised() {
        let dev = netdev();
        assert!(dev.is_local(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0]));
        assert!(!dev.is_local(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 9, 8, 0]));
        assert!(dev.is_local(&arp([10, 0, 0, 1])));
        assert!(!dev.is_local(&arp([10, 0, 0, 2])));
        assert!(dev.is_local(&solicitation("fd00::1")));
        assert!(!dev.is_local(&solicitation("fd00::2")));
        assert!(!dev.is_local(&arp([10, 0, 0, 1])[..41]), "cut short");
        assert!(!dev.is_local(&[]));
    }

    #[test]
    fn loopback_is_found_and_a_wrong_name_is_an_error() {
        let lo = Netdev::find("lo").unwrap();
        assert_eq!(lo.mac, [0; 6]);
        assert!(lo.queues >= 1);
        assert!(matches!(Netdev::find("no-such-port"), Err(Error::NoInterface(_))));
        assert!(matches!(Netdev::find("a\0b"), Err(Error::NoInterface(_))));
    }
}
