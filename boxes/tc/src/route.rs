//! The route of packets to an address.

use std::net::IpAddr;

use crate::Error;
use crate::netlink::{Attributes, Batch, Message, Netlink, u32_at};

/// The route by which the kernel sends this machine's own packets to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The index of the device through which packets leave.
    pub device: i32,
    /// The MTU of the route; `None` if the device's MTU counts.
    pub mtu: Option<u32>,
    /// The source address of packets that have none yet.
    pub source: Option<IpAddr>,
}

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTAX_MTU: u16 = 2;
/// The length of `struct rtmsg`.
const RTMSG: usize = 12;

impl Route {
    /// Finds the route to `to`; `None` if there is none.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn find(to: IpAddr) -> Result<Option<Self>, Error> {
        let mut socket = Netlink::open(0)?;
        let mut found = None;
        // An unreachable address is a valid answer.
        socket.ask(&mut request(to), |message| found = Self::of(message))?;
        Ok(found)
    }

    fn of(message: &Message<'_>) -> Option<Self> {
        let attributes = Attributes(message.body.get(RTMSG..)?);
        let metrics = attributes.get(RTA_METRICS).map(Attributes);
        let mtu = metrics.and_then(|m| m.get(RTAX_MTU)).and_then(|v| u32_at(v, 0));
        Some(Self {
            device: u32_at(attributes.get(RTA_OIF)?, 0)? as i32,
            mtu: mtu.filter(|mtu| *mtu > 0),
            source: attributes.get(RTA_PREFSRC).and_then(address),
        })
    }
}

fn request(to: IpAddr) -> Batch {
    let (family, bytes) = match to {
        IpAddr::V4(a) => (libc::AF_INET, a.octets().to_vec()),
        IpAddr::V6(a) => (libc::AF_INET6, a.octets().to_vec()),
    };
    let mut batch = Batch::default();
    // `struct rtmsg` begins with the family and the length of the destination's prefix.
    let mut header = [0; RTMSG];
    (header[0], header[1]) = (family as u8, 8 * bytes.len() as u8);
    batch.message(libc::RTM_GETROUTE, 0).fixed(&header).attribute(RTA_DST, &bytes);
    batch
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::messages;

    #[test]
    fn the_route_to_this_machine_is_loopback() {
        let lo = crate::Device::find("lo").unwrap().index;
        let route = Route::find("127.0.0.1".parse().unwrap()).unwrap().unwrap();
        assert_eq!((route.device, route.source), (lo, Some("127.0.0.1".parse().unwrap())));
    }

    #[test]
    fn an_answer_is_read_as_the_kernel_writes_it() {
        let mut batch = Batch::default();
        batch.message(libc::RTM_NEWROUTE, 0).fixed(&[0; RTMSG]);
        batch.number(RTA_OIF, 7).nest(RTA_METRICS, |b| {
            b.number(RTAX_MTU, 1_400);
        });
        batch.attribute(RTA_PREFSRC, &[10, 0, 0, 1]);
        let bytes = batch.take();
        let route = Route::of(&messages(&bytes).next().unwrap()).unwrap();
        let source = "10.0.0.1".parse().ok();
        assert_eq!(route, Route { device: 7, mtu: Some(1_400), source });
        let mut none = Batch::default();
        none.message(libc::RTM_NEWROUTE, 0).fixed(&[0; RTMSG]);
        assert_eq!(Route::of(&messages(&none.take()).next().unwrap()), None);
    }

    #[test]
    fn a_request_is_of_the_address_s_family() {
        let bytes = request("10.0.0.1".parse().unwrap()).take();
        assert_eq!(bytes[16..18], [libc::AF_INET as u8, 32]);
        assert_eq!(bytes[28..], [8, 0, 1, 0, 10, 0, 0, 1]);
        let bytes = request("fd00::1".parse().unwrap()).take();
        assert_eq!(bytes[16..18], [libc::AF_INET6 as u8, 128]);
    }
}
