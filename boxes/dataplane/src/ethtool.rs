//! Properties of an interface's driver, by the kernel's ethtool requests (`linux/ethtool.h`).

use std::collections::BTreeSet;
use std::fmt;

use crate::ioctl::ioctl;

/// An offload of a driver or of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// The kernel merges received packets, reversibly (GRO).
    Gro,
    /// The NIC merges received packets, irreversibly (LRO).
    Lro,
    /// The NIC segments packets that are sent (TSO).
    Tso,
    /// The kernel segments packets that are sent, below the queues (GSO).
    Gso,
    /// The NIC may write IPv4 IDs of its own when it segments packets.
    MangledIds,
}

impl Feature {
    /// Every feature, with the kernel's name of it.
    const ALL: [(Self, &'static str); 5] = [
        (Self::Gro, "rx-gro"),
        (Self::Lro, "rx-lro"),
        (Self::Tso, "tx-tcp-segmentation"),
        (Self::Gso, "tx-generic-segmentation"),
        (Self::MangledIds, "tx-tcp-mangleid-segmentation"),
    ];
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gro => "GRO",
            Self::Lro => "LRO",
            Self::Tso => "TSO",
            Self::Gso => "GSO",
            Self::MangledIds => "TSO with IP IDs of its own",
        })
    }
}

/// The numbers of queues of an interface (`struct ethtool_channels`).
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// Returns the number of receive queues; one where the driver does not answer.
pub(crate) fn receive_queues(name: &str) -> u32 {
    const ETHTOOL_GCHANNELS: u32 = 0x3c;
    let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    let ifru = libc::__c_anonymous_ifr_ifru { ifru_data: (&raw mut channels).cast() };
    match ioctl(name, libc::SIOCETHTOOL, Some(ifru)) {
        Ok(_) => (channels.rx + channels.combined).max(1),
        Err(_) => 1,
    }
}

/// Returns the features that are turned on.
pub(crate) fn features(name: &str) -> BTreeSet<Feature> {
    let Some(names) = feature_names(name) else { return BTreeSet::new() };
    let Some(active) = active_features(name, names.len()) else { return BTreeSet::new() };
    let of = |name: &str| Feature::ALL.iter().find(|(_, n)| *n == name).map(|(f, _)| *f);
    let on = names.iter().zip(active).filter(|(_, active)| *active);
    on.filter_map(|(name, _)| of(name)).collect()
}

/// Bytes of a name in a set of names (`ETH_GSTRING_LEN`).
const NAME: usize = 32;
/// More features than any kernel has: a bound for what the kernel is asked to write.
const MAX_FEATURES: usize = 1_024;

/// Returns the kernel's names of its features, in the order of their bits, in which kernels differ.
fn feature_names(name: &str) -> Option<Vec<String>> {
    const ETHTOOL_GSSET_INFO: u32 = 0x37;
    const ETHTOOL_GSTRINGS: u32 = 0x1b;
    const ETH_SS_FEATURES: u32 = 4;
    // `struct ethtool_sset_info`: command, reserved, a mask of sets in two words, one length.
    let mut info = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0];
    ask(name, &mut info)?;
    let count = Some(info[4] as usize).filter(|n| (1..=MAX_FEATURES).contains(n))?;
    // `struct ethtool_gstrings`: command, set, length, the strings.
    let mut strings = vec![0u32; 3 + count * NAME / 4];
    strings[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count as u32]);
    ask(name, &mut strings)?;
    let bytes: Vec<u8> = strings[3..].iter().flat_map(|w| w.to_ne_bytes()).collect();
    let text = |raw: &[u8]| {
        let end = raw.iter().position(|b| *b == 0).unwrap_or(raw.len());
        String::from_utf8_lossy(&raw[..end]).into_owned()
    };
    Some(bytes.chunks_exact(NAME).map(text).collect())
}

/// Returns which of `count` features are turned on.
fn active_features(name: &str, count: usize) -> Option<Vec<bool>> {
    const ETHTOOL_GFEATURES: u32 = 0x3a;
    // `struct ethtool_gfeatures`: command, blocks; of each block of 32 what is available,
    // requested, active and never changed.
    let blocks = count.div_ceil(32);
    let mut words = vec![0u32; 2 + 4 * blocks];
    words[..2].copy_from_slice(&[ETHTOOL_GFEATURES, blocks as u32]);
    ask(name, &mut words)?;
    let active = |i: usize| words[2 + 4 * (i / 32) + 2] >> (i % 32) & 1 == 1;
    Some((0..count).map(active).collect())
}

/// Sends a request whose answer is written over it. `None` if the driver does not know the request.
fn ask(name: &str, words: &mut [u32]) -> Option<()> {
    let ifru = libc::__c_anonymous_ifr_ifru { ifru_data: words.as_mut_ptr().cast() };
    ioctl(name, libc::SIOCETHTOOL, Some(ifru)).ok().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_features_and_a_wrong_name_has_none() {
        // Every kernel's loopback segments in software.
        assert!(features("lo").contains(&Feature::Gso));
        assert!(!features("lo").contains(&Feature::Lro));
        assert_eq!(receive_queues("lo"), 1);
        assert!(features("no-such-port").is_empty());
    }
}
