//! Formats numbers for tables, pictures and sentences.

use crate::rounded;

/// Formats a measured value with three significant digits and at most two decimals: 0.04, 2.13,
/// 71.2, 412, 12 345.
///
/// A single run does not give more precision, and the text fits a column.
pub fn figure(value: f64) -> String {
    match value.abs() {
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        v => {
            let sign = if value < 0.0 { "-" } else { "" };
            format!("{sign}{}", count(v.round() as u64))
        }
    }
}

/// Formats a configured value as it was written: 96, 50, 0.5.
pub fn setting(value: f64) -> String {
    format!("{}", rounded(value, 6))
}

/// Formats a count, in groups of three digits from five digits on.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a share from 0 to 1 as a percentage with one decimal, rounded down, so that only 1
/// becomes 100 %.
pub fn percent(share: f64) -> String {
    if share >= 1.0 {
        return "100 %".to_owned();
    }
    format!("{:.1} %", (share * 1000.0).floor() / 10.0)
}

/// Formats a rate in bits per second with a unit that suits its size: `1.50 Gbit/s`.
pub fn rate(bps: f64) -> String {
    let (value, unit) = match bps.abs() {
        b if b >= 1e12 => (bps / 1e12, "Tbit/s"),
        b if b >= 1e9 => (bps / 1e9, "Gbit/s"),
        b if b >= 1e6 => (bps / 1e6, "Mbit/s"),
        b if b >= 1e3 => (bps / 1e3, "kbit/s"),
        _ => return format!("{} bit/s", bps.round() + 0.0),
    };
    format!("{} {unit}", figure(value))
}

/// Formats a time in seconds in its two largest units: `0.4 s`, `12 min 3 s`, `1 d 2 h`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds as u64;
    let (minutes, hours, days) = (whole / 60, whole / 3600, whole / 86_400);
    match () {
        () if days > 0 => format!("{days} d {} h", hours % 24),
        () if hours > 0 => format!("{hours} h {} min", minutes % 60),
        () if minutes > 0 => format!("{minutes} min {} s", whole % 60),
        () => format!("{seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let written = [0.0, 0.0449, 2.126, 9.996, 71.24, 99.96, 412.4, 12_345.0, -2.5, -1234.0];
        let expected =
            ["0.00", "0.04", "2.13", "10.0", "71.2", "100", "412", "12 345", "-2.50", "-1234"];
        assert_eq!(written.map(figure), expected);
    }

    #[test]
    fn settings_are_written_as_they_were_set() {
        assert_eq!([96.0, 0.5, 3.0 * 0.1].map(setting), ["96", "0.5", "0.3"]);
    }

    #[test]
    fn rates_have_the_unit_of_their_size() {
        let written = [0.0, 999.4, 1_500.0, 2.5e7, 1.2345e10, 4e12, -3e9].map(rate);
        let expected = [
            "0 bit/s",
            "999 bit/s",
            "1.50 kbit/s",
            "25.0 Mbit/s",
            "12.3 Gbit/s",
            "4.00 Tbit/s",
            "-3.00 Gbit/s",
        ];
        assert_eq!(written, expected);
    }

    #[test]
    fn durations_have_two_units() {
        let written = [0.44, 59.9, 61.0, 7_199.0, 93_784.0].map(duration);
        assert_eq!(written, ["0.4 s", "59.9 s", "1 min 1 s", "1 h 59 min", "1 d 2 h"]);
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!([0, 9_999, 10_000, 1_234_567].map(count), ["0", "9999", "10 000", "1 234 567"]);
    }

    #[test]
    fn only_one_is_a_hundred_per_cent() {
        assert_eq!([0.0, 0.8, 0.9999, 1.0].map(percent), ["0.0 %", "80.0 %", "99.9 %", "100 %"]);
    }
}
