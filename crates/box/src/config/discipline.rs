use forebay_config::Limit;
use forebay_dataplane::PolicyKind;
use forebay_queue::sfq;
use forebay_tc::{self as tc, Features, FifoLimit};

/// How a bundle's packets wait, or those of a class.
#[derive(Clone, Debug, PartialEq)]
pub enum Discipline {
    /// One that this project has; over the kernel's queues it is the kernel's of that name.
    Own(PolicyKind),
    /// One that only the kernel has.
    Kernel(tc::Discipline),
}

impl From<PolicyKind> for Discipline {
    fn from(kind: PolicyKind) -> Self {
        Self::Own(kind)
    }
}

/// A queue of the kernel's where only one of this project's will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} is a queue of the kernel's, which goes with `dataplane = \"kernel\"` in [sendbox]; a box's own are fifo, sfq, fq_codel, pie, dualpi2 and strict"
)]
pub struct NotOwn(pub &'static str);

impl Discipline {
    /// The one that this project has.
    ///
    /// # Errors
    /// If only the kernel has it.
    pub fn own(&self) -> Result<&PolicyKind, NotOwn> {
        match self {
            Self::Own(own) => Ok(own),
            Self::Kernel(kernel) => Err(NotOwn(kernel.kind())),
        }
    }

    /// The kernel's; none for strict priority, which is made of classes. Its limit is that of the
    /// sendbox's own, in packets where the kernel counts nothing else. A super-packet counts as one.
    pub fn in_kernel(&self) -> Option<tc::Discipline> {
        let own = match self {
            Self::Own(own) => own,
            Self::Kernel(kernel) => return Some(*kernel),
        };
        let packets = u32::try_from(own.capacity()).unwrap_or(u32::MAX);
        Some(match *own {
            PolicyKind::Strict => return None,
            PolicyKind::Fifo { limit: Some(Limit::Bytes(bytes)) } => {
                tc::Discipline::Fifo { limit: FifoLimit::Bytes(bytes) }
            }
            PolicyKind::Fifo { .. } => tc::Discipline::Fifo { limit: FifoLimit::Packets(packets) },
            PolicyKind::Sfq { perturb, .. } => {
                let perturb = perturb.or(sfq::Config::default().perturb);
                tc::Discipline::Sfq { limit: packets, perturb }
            }
            PolicyKind::FqCodel { target, interval, ecn, .. } => {
                tc::Discipline::FqCodel { limit: packets, target, interval, ecn }
            }
            PolicyKind::Pie { target, ecn, .. } => {
                tc::Discipline::Pie { limit: packets, target, ecn }
            }
            PolicyKind::DualPi2 { target, .. } => {
                tc::Discipline::DualPi2 { limit: Some(packets), target }
            }
        })
    }
}

/// Which disciplines a sendbox can have.
#[derive(Clone, Debug)]
pub(super) enum Offer {
    /// Over its own ports: those of this project.
    Own,
    /// Over the kernel's queues: what the kernel has. It is not known to who may not try.
    Kernel(Option<Features>),
}

impl Offer {
    /// Why `discipline` is not among them, if it is not.
    pub(super) fn lacks(&self, discipline: &Discipline) -> Option<String> {
        match self {
            Self::Own => discipline.own().err().map(|e| e.to_string()),
            Self::Kernel(features) => {
                let (features, kernel) = features.as_ref().zip(discipline.in_kernel())?;
                features.check(&kernel).err().map(|e| e.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_dataplane::Profile;
    use forebay_units::{Bytes, Nanos};

    use super::*;

    #[test]
    fn limits_are_those_of_the_sendbox_s_own_queues() {
        let ms = |n| Some(Nanos::from_millis(n));
        let of = |policy: PolicyKind| Discipline::Own(policy).in_kernel().unwrap().to_string();
        let bytes = Some(Limit::Bytes(Bytes(30_280)));
        assert_eq!(of(PolicyKind::Fifo { limit: None }), "pfifo limit 1250 packets");
        assert_eq!(of(PolicyKind::Fifo { limit: bytes }), "bfifo limit 30280 bytes");
        assert_eq!(
            of(PolicyKind::Sfq { limit: bytes, perturb: ms(5_000) }),
            "sfq limit 20 packets perturb 5.000 s"
        );
        let limit = Some(Limit::Packets(77));
        assert_eq!(
            of(PolicyKind::FqCodel { limit, target: ms(5), interval: None, ecn: false }),
            "fq_codel limit 77 packets target 5.000 ms noecn"
        );
        assert_eq!(
            of(PolicyKind::Pie { limit, target: ms(9), ecn: true }),
            "pie limit 77 packets target 9.000 ms ecn"
        );
        let profile = Profile::Rfc9332;
        assert_eq!(
            Discipline::Own(PolicyKind::DualPi2 { profile, limit, target: ms(9), coupling: None })
                .in_kernel(),
            Some(tc::Discipline::DualPi2 { limit: Some(77), target: ms(9) })
        );
        assert_eq!(Discipline::Own(PolicyKind::Strict).in_kernel(), None);
    }

    #[test]
    fn what_a_kernel_has_or_has_a_stand_in_for_is_offered() {
        let profile = Profile::Rfc9332;
        let dualpi2: Discipline =
            PolicyKind::DualPi2 { profile, limit: None, target: None, coupling: None }.into();
        let fq_pie =
            Discipline::Kernel(tc::Discipline::FqPie { limit: None, target: None, ecn: true });
        let sfq = Discipline::Own(PolicyKind::Sfq { limit: None, perturb: None });
        let here = Offer::Kernel(Some(Features::of(&["htb", "pfifo"])));
        assert_eq!(here.lacks(&sfq), None);
        assert_eq!(here.lacks(&PolicyKind::Strict.into()), None);
        let said = here.lacks(&dualpi2).unwrap();
        assert!(said.starts_with("this kernel has no queueing discipline dualpi2: it has pfifo"));
        let there = Offer::Kernel(Some(Features::of(&["htb", "dualpi2"])));
        assert_eq!(there.lacks(&dualpi2), None);
        assert_eq!(Offer::Kernel(None).lacks(&dualpi2), None, "not known");
        assert!(Offer::Own.lacks(&fq_pie).unwrap().contains("`dataplane = \"kernel\"`"));
        assert_eq!(Offer::Own.lacks(&dualpi2), None);
        assert_eq!(Offer::Own.lacks(&sfq), None);
    }
}
