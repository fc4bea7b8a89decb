//! Draws pictures of results as SVG, and formats numbers and dates.
//!
//! [`svg::Svg`] is a picture, and [`plot::Plot`] draws axes and curves into one. The crate knows
//! nothing about what is measured; the laboratory and the planner both use it.

#![forbid(unsafe_code)]

pub mod axis;
pub mod date;
pub mod number;
pub mod plot;
pub mod svg;

/// The style sheet of pictures, which follows the reader's light or dark mode.
pub const STYLE: &str = include_str!("picture.css");

/// The style sheet of pages with such pictures: text, tiles, notices and tables.
pub const PAGE_STYLE: &str = include_str!("page.css");

/// Escapes `text` for HTML or SVG, including attributes.
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

/// Rounds `value` to this number of decimals.
fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    #[test]
    fn markup_in_names_is_escaped() {
        assert_eq!(super::escape("<script>\"&'"), "&lt;script&gt;&quot;&amp;&#39;");
    }
}
