//! Estimates demands from measured demands and the load of links.

use std::collections::BTreeSet;

use forebay_config::ConfigError;
use forebay_plan::estimate;
use forebay_plan::input::MAX_FILE;
use forebay_plan::network::{Demand, Network};

use super::Service;

impl Service {
    /// Returns the estimates for the `measured` demands, and how many are above the measured ones.
    /// Without a file of link loads, it returns the measured demands.
    pub(super) fn estimated(
        &self,
        measured: Vec<Demand>,
    ) -> Result<(Vec<Demand>, Option<usize>), ConfigError> {
        let Some(file) = &self.config.files.links else { return Ok((measured, None)) };
        let text = forebay_input::text(file, MAX_FILE)?;
        let carried = estimate::carried_json(file, &text, &self.fixed.topology)?;
        let measured = Network {
            topology: self.fixed.topology.clone(),
            providers: self.fixed.file.providers.clone(),
            demands: measured,
            avoided: BTreeSet::new(),
        };
        let demands = estimate::demands(&measured, &carried, &estimate::Config::default());
        let more = demands.iter().zip(&measured.demands).filter(|(new, old)| new.rate > old.rate);
        let more = more.count();
        Ok((demands, Some(more)))
    }
}
