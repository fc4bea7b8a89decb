//! Claims that scenario files try on the laboratory's engines: figures of a source, ours, and how
//! they compare.
//!
//! A [`Catalogue`] is a directory with `page.toml`, which lists the claims in the page's order, and
//! for each claim `NAME.claim.toml` beside its scenario. [`run()`] runs a claim on an engine. The
//! result, an [`Outcome`], is kept in a [`Store`](forebay_outcome::Store) beside the page, so that
//! slow engines can be run claim by claim. [`page`] makes the page from all stored outcomes, and
//! judges their figures by the claims as they are now.
//!
//! # The page's file
//!
//! | key | meaning |
//! |---|---|
//! | `title`, `about` | the title and the introduction of the page (Markdown) |
//! | `claims` | the claims, in the page's order |
//! | `bands_with_results` | the claims whose bands entered the history together with their first result |
//!
//! # A claim's file
//!
//! | key | meaning |
//! |---|---|
//! | `title`, `source`, `about` | the claim; its section and figure; how it is tried here (Markdown) |
//! | `scenario` | the experiment's file, beside this one; its seeds are not used |
//! | `[engine.NAME]` `seeds`, `duration` | on `sim`, `uml`, `netns`: the number of seeds, and the measured time if it is not the scenario's |
//! | `[[figure]]` `what` | the figure in words, unique in the claim |
//! | `source` | the source's figure, if it has one |
//! | `band` | relative to the source's figure: `10 %`, `0.1`, `10 % or 0.1` around it, `at most source + 10 %`, `at least source - 10 %`; such a band says when the figure is reproduced. Or our own bar: `at most 2`, `at least 2`, `1 to 2`. Or `any`: shown and not judged |
//! | `bar` | our own bar besides, if `band` is relative to the source's figure |
//! | `of` | `{ arm, measure, at, traffic, phase, size, mode, cells, over }` |
//! | `to` | the divisor, or the other side if the measure is `worse_for`; a key that is left out is that of `of` |
//! | `why` | the reason for a difference, where it is known |
//! | `[[changed]]` | a band that was changed after a first result ([`Changed`](crate::changed::Changed)) |
//! | `[picture]` `kind` | `slowdown`, with the arm to highlight as `strong`; `timeline`; `errors`; `sweep` with `axis`, `measure`, `at`, `traffic`, `size`; `by`: an axis with a plot for each value; `lines`: traffics with a line each |
//!
//! Measures are those of [`Measure`], in lower case with `_`. `at` is `mean` or `p0` to `p100`, for
//! measures that have a distribution in a run. `size` is `small`, `medium`, `large` or a range
//! such as `3 kB to 9 kB`. `cells` is a value or a list of values on each axis, as in
//! `{ rtt = "50 ms", flows = ["10", "20"] }`. `over` combines several cells: `mean`, `min` or
//! `max`.

mod ages;
mod axes;
mod catalogue;
mod claim;
mod extract;
mod figures;
mod outcome;
mod page;
mod passed;
mod picture;
mod quantity;
mod run;
mod sizes;
#[cfg(test)]
mod tests;
mod traffic_kind;
mod window;

pub use ages::ages;
pub use catalogue::{COLUMNS, Catalogue, ENGINES, load};
pub use claim::{Claim, Extent, Figure, Selection};
pub use outcome::{Outcome, draw_outcome, load_outcome, picture_file, save_outcome};
pub use page::{Row, page};
pub use picture::{Errors, Picture, Slowdown, Sweep, SweepLine, Timeline, Wanted};
pub use quantity::{Measure, Quantity, Statistic};
pub use run::{Settings, run};
pub use sizes::Sizes;
