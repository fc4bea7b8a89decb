//! Each queueing discipline that a plan may have, made and read back.

use forebay_tc::{
    CakeDiffserv, CakeFlows, Device, Discipline, Features, FifoLimit, Found, Object, Step, steps,
};
use forebay_units::{Bytes, Nanos};

use crate::common::{Network, WAN, fifo, install, plan};

/// HTB's priorities, and so the most classes of a bundle.
const CLASSES: usize = 8;

/// Makes each discipline that the running kernel has, alone and as a class, and finds it on the
/// device with the settings that it was made with. Returns their names.
pub(crate) fn made_and_found() -> Vec<&'static str> {
    let (limit, ms) = (300, |n| Some(Nanos::from_millis(n)));
    let us = |n| Some(Nanos::from_micros(n));
    let all = [
        fifo(limit),
        Discipline::Fifo { limit: FifoLimit::Bytes(Bytes(30_000)) },
        Discipline::Sfq { limit, perturb: ms(10_000) },
        Discipline::FqCodel { limit, target: ms(5), interval: ms(100), ecn: true },
        Discipline::Pie { limit, target: ms(15), ecn: true },
        // A time that is no multiple of what the kernel counts in.
        Discipline::Pie { limit, target: us(15_001), ecn: true },
        Discipline::FqPie { limit: Some(limit), target: ms(15), ecn: false },
        Discipline::FqPie { limit: None, target: us(1), ecn: true },
        Discipline::Cake { memory: None, rtt: None, flows: None, diffserv: None },
        Discipline::Cake {
            memory: Some(Bytes(1 << 20)),
            rtt: ms(50),
            flows: Some(CakeFlows::DualDsthost),
            diffserv: Some(CakeDiffserv::Besteffort),
        },
        Discipline::DualPi2 { limit: None, target: None },
        Discipline::DualPi2 { limit: Some(limit), target: ms(15) },
    ];
    let network = Network::new();
    network.within(|| {
        let has: Vec<&str> = Features::probe().unwrap().kinds().collect();
        let all: Vec<Discipline> = all.into_iter().filter(|d| has.contains(&d.kind())).collect();
        let alone = all.iter().map(std::slice::from_ref);
        let bundles: Vec<&[Discipline]> = alone.chain(all.chunks(CLASSES)).collect();
        drop(install(&bundles));
        let found = Found::of(&Device::find(WAN).unwrap()).unwrap();
        let mut left = steps(&found, &plan(&bundles));
        left.retain(|step| !matches!(step, Step::Make(Object::Filter(_))));
        assert_eq!(left, [], "{}", network.tc("qdisc show dev wan"));
        // Adopted, which says as much of what was not looked at.
        install(&bundles).remove().unwrap();
        has
    })
}

/// On this project's own machines that is little; in the laboratory's guest, which runs this too,
/// it is most of them.
#[test]
fn every_discipline_that_the_kernel_has_is_made_and_adopted() {
    if crate::common::has_root() {
        let has = made_and_found();
        assert!(has.contains(&"pfifo"), "{has:?}");
    }
}
