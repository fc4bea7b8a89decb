//! A small SVG writer.
//!
//! Colours come from the page's style sheet by class, so that pictures follow light and dark mode.
//! Texts are real text, so that they can be searched and read by screen readers.

use core::fmt::Write;

use crate::escape;

/// The part of a text that is at its position.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// The start of the text.
    Start,
    /// The middle of the text.
    Middle,
    /// The end of the text.
    End,
}

/// A picture under construction, in units that the page scales.
#[derive(Debug)]
pub struct Svg {
    out: String,
    width: f64,
    height: f64,
}

impl Svg {
    /// Creates an empty picture.
    ///
    /// `id` must be unique on the page, `title` names the picture, and `desc` describes it for
    /// readers who cannot see it.
    pub fn new(id: &str, title: &str, desc: &str, width: f64, height: f64) -> Self {
        let (id, title, desc) = (escape(id), escape(title), escape(desc));
        let out = format!(
            "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\n\
             <title id=\"{id}-t\">{title}</title>\n<desc id=\"{id}-d\">{desc}</desc>\n",
            Unit(width),
            Unit(height)
        );
        Self { out, width, height }
    }

    /// Draws a line with a class of the style sheet.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.path(class, &Path::default().start(from).line_to(to));
    }

    /// Draws a line with a tooltip; `title` is plain text.
    pub fn titled_line(&mut self, class: &str, from: (f64, f64), to: (f64, f64), title: &str) {
        let (d, title) = (Path::default().start(from).line_to(to).d, escape(title));
        self.put(format_args!("<path class=\"{class}\" d=\"{d}\"><title>{title}</title></path>"));
    }

    /// Draws a rectangle from its corner at the left and top.
    pub fn rect(&mut self, class: &str, corner: (f64, f64), size: (f64, f64)) {
        let (x, y, w, h) = (Unit(corner.0), Unit(corner.1), Unit(size.0), Unit(size.1));
        self.put(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"/>"
        ));
    }

    /// Draws a rectangle with a tooltip; `title` is plain text.
    pub fn titled_rect(&mut self, class: &str, corner: (f64, f64), size: (f64, f64), title: &str) {
        let (x, y, w, h) = (Unit(corner.0), Unit(corner.1), Unit(size.0), Unit(size.1));
        let title = escape(title);
        self.put(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\">\
             <title>{title}</title></rect>"
        ));
    }

    /// Draws a circle.
    pub fn circle(&mut self, class: &str, centre: (f64, f64), radius: f64) {
        let (x, y, r) = (Unit(centre.0), Unit(centre.1), Unit(radius));
        self.put(format_args!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{r}\"/>"));
    }

    /// Draws a path, unless it is empty.
    pub fn path(&mut self, class: &str, path: &Path) {
        if !path.d.is_empty() {
            self.put(format_args!("<path class=\"{class}\" d=\"{}\"/>", path.d));
        }
    }

    /// Draws a text with its base line at `at`; `text` is plain text.
    pub fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let (x, y, text) = (Unit(at.0), Unit(at.1), escape(text));
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        self.put(format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\"{anchor}>{text}</text>"));
    }

    /// Returns the picture as text.
    pub fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }

    fn put(&mut self, element: core::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "{element}");
    }
}

/// The margin around the pictures of a sheet.
const MARGIN: f64 = 16.0;
/// The room for the heading above each picture.
const HEADING: f64 = 26.0;

/// Arranges pictures with their headings in `columns`, as a file of its own.
///
/// The file has its style sheet, and follows light and dark mode. `title` describes all of it.
pub fn sheet(title: &str, pictures: Vec<(String, Svg)>, columns: usize) -> String {
    let columns = columns.clamp(1, pictures.len().max(1));
    let widest = pictures.iter().map(|(_, p)| p.width).fold(0.0, f64::max);
    let (mut inside, mut y) = (String::new(), MARGIN);
    let mut rest = pictures;
    while !rest.is_empty() {
        let later = rest.split_off(columns.min(rest.len()));
        let row = std::mem::replace(&mut rest, later);
        let highest = row.iter().map(|(_, p)| p.height).fold(0.0, f64::max);
        for (column, (heading, picture)) in row.into_iter().enumerate() {
            let x = MARGIN + column as f64 * (widest + MARGIN);
            let (width, height) = (Unit(picture.width), Unit(picture.height));
            let heading = escape(&heading);
            // Writing to a string cannot fail.
            let _ = writeln!(
                inside,
                "<text class=\"heading\" x=\"{}\" y=\"{}\">{heading}</text>",
                Unit(x),
                Unit(y + 14.0)
            );
            let (at_x, at_y) = (Unit(x), Unit(y + HEADING));
            let place =
                format!("<svg x=\"{at_x}\" y=\"{at_y}\" width=\"{width}\" height=\"{height}\" ");
            inside += &picture.finish().replacen("<svg ", &place, 1);
        }
        y += HEADING + highest + MARGIN;
    }
    let width = MARGIN + columns as f64 * (widest + MARGIN);
    let (width, height, title) = (Unit(width), Unit(y), escape(title));
    let style = crate::STYLE;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" font-family=\"system-ui, sans-serif\">\n\
         <title>{title}</title>\n<style>\n{style}</style>\n\
         <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n{inside}</svg>\n"
    )
}

/// The outline of a path.
#[derive(Debug, Default)]
pub struct Path {
    d: String,
}

impl Path {
    /// Starts a new line at this point.
    pub fn start(self, at: (f64, f64)) -> Self {
        self.step('M', at)
    }

    /// Continues with a straight line to this point.
    pub fn line_to(self, at: (f64, f64)) -> Self {
        self.step('L', at)
    }

    /// Draws lines through `points`, from a new start; a round cap makes a single point visible.
    pub fn through(self, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut points = points.into_iter();
        let Some(first) = points.next() else { return self };
        points.fold(self.start(first).line_to(first), Self::line_to)
    }

    /// Continues with a cubic Bezier curve to `to`, with the control points `from_by` and `to_by`.
    pub fn curve_to(mut self, from_by: (f64, f64), to_by: (f64, f64), to: (f64, f64)) -> Self {
        for (command, (x, y)) in [('C', from_by), (' ', to_by), (' ', to)] {
            // Writing to a string cannot fail.
            let _ = write!(self.d, "{command}{} {}", Unit(x), Unit(y));
        }
        self
    }

    /// Closes the line.
    pub fn close(mut self) -> Self {
        self.d.push('Z');
        self
    }

    fn step(mut self, command: char, (x, y): (f64, f64)) -> Self {
        // Writing to a string cannot fail.
        let _ = write!(self.d, "{command}{} {}", Unit(x), Unit(y));
        self
    }
}

/// A length with at most one decimal. This is finer than a pixel, and keeps the file small.
struct Unit(f64);

impl core::fmt::Display for Unit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let tenths = (self.0 * 10.0).round() / 10.0;
        // Adding zero turns minus zero into zero.
        write!(f, "{}", tenths + 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_has_columns_and_rows() {
        let picture = |id: &str| (format!("<{id}>"), Svg::new(id, "T", "D", 100.0, 50.0));
        let sheet = sheet("All", ["a", "b", "c"].map(picture).into(), 2);
        assert!(
            sheet.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 248 200\"")
        );
        for place in ["x=\"16\" y=\"42\"", "x=\"132\" y=\"42\"", "x=\"16\" y=\"134\""] {
            let placed = format!("<svg {place} width=\"100\" height=\"50\" viewBox");
            assert!(sheet.contains(&placed), "{placed}: {sheet}");
        }
        assert!(sheet.contains("&lt;a&gt;</text>") && !sheet.contains("<a>"));
    }

    #[test]
    fn elements_are_written_with_escaped_text() {
        let mut svg = Svg::new("a", "Title", "What <it> shows", 100.0, 50.5);
        svg.line("axis", (0.0, -0.01), (1.26, 2.0));
        svg.text("tick", (1.0, 2.0), Anchor::End, "5 < 6");
        svg.path("curve", &Path::default());
        svg.titled_rect("hit", (0.0, 1.0), (2.0, 3.0), "<now>");
        svg.titled_line("event", (3.0, 0.0), (3.0, 4.0), "a > b");
        svg.path("band", &Path::default().through([(0.0, 1.0), (2.0, 3.0)]).close());
        insta::assert_snapshot!(svg.finish(), @r#"
        <svg viewBox="0 0 100 50.5" role="img" aria-labelledby="a-t a-d">
        <title id="a-t">Title</title>
        <desc id="a-d">What &lt;it&gt; shows</desc>
        <path class="axis" d="M0 0L1.3 2"/>
        <text class="tick" x="1" y="2" text-anchor="end">5 &lt; 6</text>
        <rect class="hit" x="0" y="1" width="2" height="3"><title>&lt;now&gt;</title></rect>
        <path class="event" d="M3 0L3 4"><title>a &gt; b</title></path>
        <path class="band" d="M0 1L0 1L2 3Z"/>
        </svg>
        "#);
    }
}
