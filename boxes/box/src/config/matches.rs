use forebay_config::{ConfigError, Prefix, Source, Spanned};
use forebay_discipline::QueueOwner;
use ipnet::IpNet;

/// A rule for packets, which fit if they fit every list that is not empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Match {
    /// The values of the DSCP field.
    pub dscp: Vec<u8>,
    /// The source or destination ports.
    pub ports: Vec<u16>,
    /// The prefixes of the source or destination address.
    pub prefixes: Vec<IpNet>,
    /// The VLAN IDs of the outermost tag.
    pub vlans: Vec<u16>,
}

impl Match {
    /// Whether every packet that fits `other` fits this rule too.
    pub(super) fn covers(&self, other: &Self) -> bool {
        fn within<T>(own: &[T], other: &[T], has: impl Fn(&T, &T) -> bool) -> bool {
            own.is_empty()
                || !other.is_empty() && other.iter().all(|o| own.iter().any(|own| has(own, o)))
        }
        within(&self.dscp, &other.dscp, |own, o| own == o)
            && within(&self.ports, &other.ports, |own, o| own == o)
            && within(&self.prefixes, &other.prefixes, |own, o| own.contains(o))
            && within(&self.vlans, &other.vlans, |own, o| own == o)
    }

    /// Whether every packet fits.
    pub fn is_all(&self) -> bool {
        self.dscp.is_empty()
            && self.ports.is_empty()
            && self.prefixes.is_empty()
            && self.vlans.is_empty()
    }
}

/// The lists of a rule as they are written.
pub(super) struct Lists {
    pub(super) dscp: Vec<Spanned<u8>>,
    pub(super) ports: Vec<u16>,
    pub(super) prefixes: Vec<Prefix>,
    pub(super) vlans: Vec<Spanned<u16>>,
}

impl Lists {
    /// Checks the lists of the table `key`.
    pub(super) fn check(
        self,
        source: &Source,
        key: &str,
        owner: &QueueOwner,
    ) -> Result<Match, ConfigError> {
        if let Some(dscp) = self.dscp.iter().find(|d| *d.get_ref() > 63) {
            let message = format!("{} is no DSCP: 0 to 63", dscp.get_ref());
            return Err(source.error_at(dscp.span(), format!("{key}.dscp"), message));
        }
        let fail = |vlan: &Spanned<u16>, message: String| {
            Err(source.error_at(vlan.span(), format!("{key}.vlans"), message))
        };
        // 0 is a tag with a priority alone, 4095 is reserved (IEEE 802.1Q, table 9-2).
        if let Some(vlan) = self.vlans.iter().find(|v| !(1..=4_094).contains(v.get_ref())) {
            return fail(vlan, format!("{} is no VLAN: 1 to 4094", vlan.get_ref()));
        }
        if let (Some(vlan), QueueOwner::Kernel(_)) = (self.vlans.first(), owner) {
            let message = "go with `dataplane = \"user\"`: the kernel's classifier sees no tags";
            return fail(vlan, message.to_owned());
        }
        Ok(Match {
            dscp: self.dscp.into_iter().map(Spanned::into_inner).collect(),
            ports: self.ports,
            prefixes: self.prefixes.into_iter().map(|prefix| prefix.0).collect(),
            vlans: self.vlans.into_iter().map(Spanned::into_inner).collect(),
        })
    }
}
