use std::path::Path;

use forebay_config::ConfigError;
use forebay_units::{Nanos, Rate};

use crate::scenario::{DEMO, Experiment, TrafficKind, parse};

/// The setup of the demonstration.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The experiment, one cell of four arms.
    pub experiment: Experiment,
    /// The offered load of the requests.
    pub offered: Rate,
    /// Sentences about the traffic for the page.
    pub notes: Vec<String>,
}

/// Returns the demonstration with `seed`; with `quick`, an arm is measured for 10 s instead of 40
/// s.
///
/// # Errors
///
/// None for the file that the project contains, which a test checks.
pub fn setup(seed: u64, quick: bool) -> Result<Setup, ConfigError> {
    let mut experiment = parse(Path::new("demo.toml"), DEMO)?;
    experiment.seeds = vec![seed];
    if quick {
        let cells = experiment.cells.into_iter();
        experiment.cells = cells.map(|c| c.measured_for(Nanos::from_secs(10))).collect();
    }
    let requests = experiment.cells.iter().flat_map(|c| &c.traffic).find_map(|t| match &t.kind {
        TrafficKind::Requests { requests, .. } => Some(requests.clone()),
        _ => None,
    });
    let (mut offered, mut notes) = (Rate::ZERO, Vec::new());
    if let Some(r) = requests {
        offered = Rate::from_bps(r.load_bps);
        notes.push(format!(
            "Requests come at random times and go over {} persistent TCP connections chosen at \
             random, each of which serves its requests in order; sizes are those of an Internet \
             core router, none over 20 MB.",
            r.connections
        ));
        notes.push(
            "The distribution is heavy-tailed, so the load of so short a run would be anything from \
             half to twice the offered: the requests are drawn such that the load while measuring \
             is within 2 % of it."
                .to_owned(),
        );
        notes.push("One backlogged Cubic transfer runs beside them.".to_owned());
    }
    Ok(Setup { experiment, offered, notes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::Arm;

    #[test]
    fn the_carried_file_has_the_four_arms() {
        let setup = setup(7, true).unwrap();
        assert_eq!(setup.experiment.seeds, [7]);
        let [cell] = &setup.experiment.cells[..] else { panic!("one cell") };
        let arms: Vec<_> = cell.arms.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(arms, Arm::ALL.map(Arm::key));
        assert_eq!(cell.duration, Nanos::from_secs(10));
        assert!(cell.traffic.iter().all(|t| t.stop == cell.length()), "traffic lasts to the end");
        assert_eq!(setup.offered, Rate::from_mbps(48));
        assert_eq!(setup.notes.len(), 3);
    }
}
