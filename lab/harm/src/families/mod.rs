//! The families of paths, and how a cell of each is drawn.
//!
//! A family has one feature of real links with wide ranges of its parameters: what radio links,
//! schedulers, policers, deep buffers and other people's traffic do. Everything else of the path is
//! drawn alike for all families.

mod base;
mod service;
mod traffic;
mod trouble;

use crate::cell::{Cell, Policy, Workload};
use crate::family::{ALL, Family};
use crate::random::Random;

/// Cell `number` of the map with this `seed`.
pub fn draw(seed: u64, number: u32) -> Cell {
    let mut random = Random::new(seed, number);
    let family = ALL[number as usize % ALL.len()];
    let mut cell = Cell {
        number,
        family,
        workload: workload(&mut random),
        policy: policy(&mut random),
        rate: 0.0,
        rtt: 0.0,
        what: String::new(),
        shared: false,
        path: String::new(),
        queue: "fifo",
        buffer: 0,
        rest: String::new(),
        sites: 1,
        nested: false,
        trace: None,
        at_least: 0.0,
    };
    match family {
        Family::Bursts | Family::RandomBursts | Family::Cellular | Family::Outages => {
            service::draw(&mut cell, &mut random);
        }
        Family::Elastic | Family::Bbr | Family::Inelastic | Family::Bundles | Family::Nested => {
            traffic::draw_shared(&mut cell, &mut random);
        }
        Family::Plain
        | Family::Jitter
        | Family::Reordering
        | Family::Steps
        | Family::Policer
        | Family::Loss
        | Family::Shallow
        | Family::Deep
        | Family::Slow
        | Family::Fast
        | Family::Long
        | Family::Aqm
        | Family::Thin
        | Family::Faults => trouble::draw(&mut cell, &mut random),
    }
    cell
}

fn workload(random: &mut Random) -> Workload {
    match random.unit() {
        u if u < 0.45 => Workload::Mix,
        u if u < 0.75 => Workload::Requests,
        u if u < 0.9 => Workload::Bulk,
        _ => Workload::RealTime,
    }
}

fn policy(random: &mut Random) -> Policy {
    match random.unit() {
        u if u < 0.7 => Policy::Sfq,
        u if u < 0.85 => Policy::FqCodel,
        u if u < 0.95 => Policy::Fifo,
        _ => Policy::Pie,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    #[test]
    fn every_family_gives_scenarios_that_the_laboratory_takes() {
        let dir = std::env::temp_dir().join(format!("fb-harm-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let mut families = BTreeSet::new();
        for number in 0..3 * ALL.len() as u32 {
            let cell = draw(5, number);
            families.insert(cell.family);
            let file = cell.write(&dir, 1..=2, number % 2 == 0).unwrap();
            let experiment = forebay_lab::scenario::load(&file)
                .unwrap_or_else(|e| panic!("{e}\n{}", cell.scenario(1..=2, false)));
            assert_eq!((experiment.cells.len(), experiment.seeds.len()), (1, 2));
            let mean = experiment.cells[0].path.rate.as_mbps_f64();
            assert!((0.7..1.4).contains(&(mean / cell.rate)), "{mean} for {cell}");
        }
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(families.len(), ALL.len());
    }

    #[test]
    fn a_cell_depends_on_the_seed_and_its_number_only() {
        assert_eq!(draw(1, 40), draw(1, 40));
        assert_ne!(draw(1, 40).path, draw(2, 40).path);
        assert_ne!(draw(1, 40).path, draw(1, 40 + ALL.len() as u32).path);
    }
}
