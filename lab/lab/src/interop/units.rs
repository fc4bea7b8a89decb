//! Times and rates as ns-3 writes them: a number and a unit without a space.

use forebay_units::{Nanos, Rate};

/// Reads a time, such as `15ms`. A number without a unit is in seconds.
pub(super) fn time(text: &str) -> Option<Nanos> {
    let (number, unit) = split(text)?;
    let nanos = match unit {
        "" | "s" => 1e9,
        "ms" => 1e6,
        "us" => 1e3,
        "ns" => 1.0,
        "min" => 60e9,
        "h" => 3600e9,
        _ => return None,
    };
    let nanos = number * nanos;
    (nanos < u64::MAX as f64).then_some(Nanos(nanos.round() as u64))
}

/// Reads a rate, such as `10Mbps`. A number without a unit is in bits per second.
pub(super) fn rate(text: &str) -> Option<Rate> {
    let (number, unit) = split(text)?;
    let bits = match unit.strip_suffix("ps").unwrap_or(unit) {
        "" | "b" => 1.0,
        "kb" | "Kb" => 1e3,
        "Mb" => 1e6,
        "Gb" => 1e9,
        "B" => 8.0,
        "kB" | "KB" => 8e3,
        "MB" => 8e6,
        "GB" => 8e9,
        _ => match unit.strip_suffix("/s") {
            Some("b") => 1.0,
            Some("kb" | "Kb") => 1e3,
            Some("Mb") => 1e6,
            Some("Gb") => 1e9,
            _ => return None,
        },
    };
    Some(Rate::from_bps_f64(number * bits))
}

/// Splits a text into a number that is not negative and the rest.
fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then_some((number, &text[end..]))
}
