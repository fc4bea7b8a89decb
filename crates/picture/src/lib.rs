//! How results are shown: pictures as SVG, with a small writer and plots with their scales, and how numbers and days are
//! written beside them.
//!
//! What is here knows nothing of what is measured: the laboratory and the planner draw with the same pen.

pub mod axis;
pub mod date;
pub mod number;
pub mod plot;
pub mod svg;

/// The style sheet of pictures, which follows the reader's light or dark mode.
pub const STYLE: &str = include_str!("picture.css");

/// `text` as it may stand in HTML or SVG, in an attribute too.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// `value` to so many decimals.
fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_cannot_become_markup() {
        assert_eq!(super::escape("<script>\"&'"), "&lt;script&gt;&quot;&amp;&#39;");
    }
}
