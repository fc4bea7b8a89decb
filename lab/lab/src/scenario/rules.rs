//! What all checks of an experiment file share: its source for error messages, names and limits.

use std::collections::HashSet;

use forebay_config::{ConfigError, Source, Spanned};
use forebay_units::Nanos;

/// The largest number of runs of one experiment.
pub(super) const MAX_RUNS: usize = 10_000;
/// The longest round-trip time: no path on Earth is longer.
pub(super) const MAX_RTT: Nanos = Nanos::from_secs(2);

/// The checks of one file. They return errors that name the place in the file.
pub(super) struct Check<'a>(pub(super) &'a Source);

impl Check<'_> {
    /// Checks a name, which is used in file names and figures.
    pub(super) fn name(&self, name: &Spanned<String>, key: &str) -> Result<(), ConfigError> {
        let text = name.get_ref();
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if (1..=40).contains(&text.len()) && text.chars().all(good) {
            return Ok(());
        }
        let what = "must be 1 to 40 letters, digits, '-' or '_'";
        Err(self.0.error_at(name.span(), key, what))
    }

    pub(super) fn unique<'n>(
        &self,
        table: &str,
        names: impl Iterator<Item = &'n Spanned<String>>,
    ) -> Result<(), ConfigError> {
        let mut seen = HashSet::new();
        for name in names {
            if !seen.insert(name.get_ref()) {
                let what = format!("\"{}\" stands twice: names must differ", name.get_ref());
                return Err(self.0.error_at(name.span(), format!("{table}.name"), what));
            }
        }
        Ok(())
    }
}
