use super::Demo;
use crate::report::table::{WIDTH, wrapped};
use crate::report::tables;

impl Demo {
    /// Formats the results for a terminal: a sentence and a table of at most 80 columns, with bold
    /// type if `colour` (see [`colour_wanted`](crate::report::colour_wanted)).
    pub fn table(&self, colour: bool) -> String {
        let table = tables::figures(&self.named()).text(colour);
        format!("{}\n\n{table}", wrapped(&self.document().verdict.sentence, WIDTH))
    }
}
