//! The bounds of a bundle's rate, in the files of boxes and of the laboratory.

use forebay_units::Rate;

use crate::{ConfigError, RateValue, Source, Spanned};

/// Checks the keys `min_rate` and `max_rate` of the table that the file calls `of`, and returns the
/// rates that it gives. `defaults` are in force where it gives none.
///
/// # Errors
///
/// A rate of zero, or a lowest rate above the highest one.
pub fn rate_bounds(
    source: &Source,
    of: &str,
    [min, max]: [Option<&Spanned<RateValue>>; 2],
    defaults: [Rate; 2],
) -> Result<[Option<Rate>; 2], ConfigError> {
    let rate = |value: Option<&Spanned<RateValue>>| value.map(|v| v.get_ref().0);
    let given = [rate(min), rate(max)];
    let [lowest, highest] = [0, 1].map(|bound| given[bound].unwrap_or(defaults[bound]));
    for (value, key, crossed) in [
        (max, "max_rate", format!("is below min_rate ({lowest})")),
        (min, "min_rate", format!("is above max_rate ({highest})")),
    ] {
        let Some(value) = value else { continue };
        let message = match value.get_ref().0 {
            Rate::ZERO => "a rate of zero stops the bundle".to_owned(),
            _ if highest < lowest => crossed,
            _ => continue,
        };
        return Err(source.error_at(value.span(), format!("{of}.{key}"), message));
    }
    Ok(given)
}
