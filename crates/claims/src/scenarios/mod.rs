//! Claims of a paper, tried again: for each its figures, ours, and whether they agree within a band
//! that was written down before anything was run.
//!
//! A [`Catalogue`] is a directory: `page.toml` with the claims in the page's order, and for each claim
//! `NAME.claim.toml` beside the scenario that it is tried by. [`run()`] tries one on an engine; what
//! comes out, an [`Outcome`], is kept in a [`Store`](forebay_outcome::Store) beside the page, so that slow engines can be run
//! claim by claim; [`page`] makes the page from all that is stored.
//!
//! # A claim's file
//!
//! | key | what |
//! |---|---|
//! | `title`, `source`, `about` | what is claimed; section and figure; how it is tried here (Markdown) |
//! | `scenario` | the experiment's file, beside this one; its seeds are not used |
//! | `[engine.NAME]` `seeds`, `duration` | on `sim`, `uml`, `netns`: with seeds 1 to this; measured for this, or as the scenario says |
//! | `[[figure]]` `what` | what it is, in words; of its own in the claim |
//! | `source`, `band` | the source's figure, if it has one; where ours must lie: `10 %`, `0.1`, `10 % or 0.1` around the source's, `at most 2`, `at least 2`, `1 to 2`, or `any`: shown and not judged |
//! | `of` | `{ arm, measure, at, traffic, phase, size, mode, cells, over }` |
//! | `to` | likewise, what `of` is divided by, or held against if the measure is `worse_for`; what it leaves out is as in `of` |
//! | `why` | why ours differs, where that is known |
//! | `[picture]` `kind` | `slowdown`, with the arm to look at as `strong`; `timeline`; `errors`; `sweep` with `axis`, `measure`, `at`, `traffic`, `size`; `by`: an axis whose values have a plot each; `lines`: traffics with a line each |
//!
//! Measures are those of [`Measure`], in small letters with `_`; `at` is `mean` or `p0` to `p100` of what a run has a
//! distribution of; `size` is `small`, `medium` or `large`; `cells` is a value or a list of values on
//! each axis, as in `{ rtt = "50 ms", flows = ["10", "20"] }`; `over` is what counts of several cells:
//! `mean`, `min` or `max`.

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
#[cfg(test)]
mod tests;
mod traffic_kind;
mod window;

pub use catalogue::{COLUMNS, Catalogue, ENGINES, load};
pub use claim::{Claim, Extent, Figure, Selection};
pub use outcome::{Outcome, load_outcome, picture_file, save_outcome};
pub use page::{Row, page};
pub use picture::{Errors, Picture, Slowdown, Sweep, SweepLine, Timeline, Wanted};
pub use quantity::{Measure, Quantity, Statistic};
pub use run::{Settings, run};
