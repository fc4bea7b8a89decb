//! How numbers are written in tables, pictures and sentences.

use crate::rounded;

/// Three significant digits and no more than two decimals: 0.04, 2.13, 71.2, 412, 12 345. That is as
/// much as one run can tell, and it fits a column.
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

/// A number that was set rather than measured, as it was set: 96, 50, 0.5.
pub fn setting(value: f64) -> String {
    format!("{}", rounded(value, 6))
}

/// A count, from five digits on in groups of three.
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

/// A share from 0 to 1 in per cent, with a decimal: rounding 99.96 to 100 would claim too much, so
/// only what is all is written as 100.
pub fn percent(share: f64) -> String {
    if share >= 1.0 {
        return "100 %".to_owned();
    }
    format!("{:.1} %", (share * 1000.0).floor() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        let written = [0.0, 0.0449, 2.126, 9.996, 71.24, 99.96, 412.4, 12_345.0, -2.5, -1234.0];
        let expected =
            ["0.00", "0.04", "2.13", "10.0", "71.2", "100", "412", "12 345", "-2.50", "-1234"];
        assert_eq!(written.map(figure), expected);
    }

    #[test]
    fn settings() {
        assert_eq!([96.0, 0.5, 3.0 * 0.1].map(setting), ["96", "0.5", "0.3"]);
    }

    #[test]
    fn counts() {
        assert_eq!([0, 9_999, 10_000, 1_234_567].map(count), ["0", "9999", "10 000", "1 234 567"]);
    }

    #[test]
    fn only_all_is_all() {
        assert_eq!([0.0, 0.8, 0.9999, 1.0].map(percent), ["0.0 %", "80.0 %", "99.9 %", "100 %"]);
    }
}
