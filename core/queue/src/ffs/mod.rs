//! Integer priority queues and a timing wheel that find the lowest bucket in a few instructions.
//!
//! If priorities are small integers, a queue needs no heap with O(log n) comparisons. It has one
//! bucket for each priority and a bitmap of the buckets in use, and a processor finds the lowest
//! set bit of a word in one instruction (*find first set*, FFS). A hierarchy of bitmaps extends
//! this to any number of buckets: three levels span 262 144. Eiffel (Saeed et al., NSDI 2019,
//! section 3.1) introduced this for packet scheduling. Two alternating windows cover a moving range
//! of priorities (its cFFS, section 3.1.1); for times this is Carousel's wheel (SIGCOMM 2017,
//! section 4).
//!
//! An item is a number below a bound given at construction, such as the index of a flow. The queue
//! stores 8 bytes of links for each item. No operation allocates, and any item can be removed in
//! constant time.
//!
//! | type | purpose |
//! |---|---|
//! | [`Bitmap`] | finds the first set bit of many |
//! | [`PriorityQueue`] | items by a rank in a fixed range, first come first served within a rank |
//! | [`TimingWheel`] | items by a time that advances, to within a granularity |
//! | [`Calendar`] | items by any key that advances, in buckets of [`Chunks`] |
//!
//! [`PriorityQueue`] and [`TimingWheel`] link their items. [`Calendar`] names them in [`Chunks`],
//! so that a caller with a million items can prefetch what it stores about those that come next.

mod bitmap;
mod calendar;
mod chunks;
mod lists;
mod priority;
mod wheel;

pub use bitmap::Bitmap;
pub use calendar::Calendar;
pub use chunks::{Chunks, Popped, Position, Removed};
pub use lists::MAX_ITEMS;
pub use priority::PriorityQueue;
pub use wheel::TimingWheel;
