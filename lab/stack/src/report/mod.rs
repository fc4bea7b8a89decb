//! What a study found out, for a terminal, as JSON lines and as one HTML page.

mod chart;
mod html;
mod json;
mod text;

use crate::findings::Finding;
use crate::study::Results;

pub use json::{Line, lines, read};

/// Everything that a report shows.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// The measured points and the checks.
    pub results: &'a Results,
    /// The findings that the points give.
    pub findings: Vec<Finding>,
    /// The kernel and the machine in a sentence.
    pub machine: String,
    /// The command that makes the like again.
    pub command: String,
    /// What a reader must know about this study, such as what the kernel lacks.
    pub notes: Vec<String>,
}

impl Report<'_> {
    /// Formats the study for a terminal of 80 columns.
    pub fn text(&self) -> String {
        text::text(self)
    }

    /// Formats the study as one HTML page that fetches nothing and runs nothing.
    pub fn html(&self) -> String {
        html::html(self)
    }
}
