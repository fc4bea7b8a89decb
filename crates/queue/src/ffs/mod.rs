//! Integer priority queues and a timing wheel: the lowest of many buckets in a few instructions.
//!
//! Where priorities are small integers, a heap's O(log n) comparisons are not needed: one bucket for
//! each priority and a bitmap of those in use do, since a processor finds the lowest set bit of a
//! word in one instruction (*find first set*, FFS). A bitmap of such words, and bitmaps over
//! bitmaps, make that work for any number of buckets: three levels span 262 144. The idea and its
//! use for packet scheduling are those of Eiffel (Saeed et al., NSDI 2019, section 3.1); a moving
//! range of priorities is covered by two windows that take turns (its cFFS, section 3.1.1), which
//! for times is Carousel's wheel (SIGCOMM 2017, section 4).
//!
//! What is queued is a number below a bound given at construction, such as the index of a flow. Its
//! links are kept here, 8 bytes for each, so no operation allocates and any item can be taken out of
//! the middle in constant time.
//!
//! | | what it is for |
//! |---|---|
//! | [`Bitmap`] | which of many bits is the first that is set |
//! | [`PriorityQueue`] | items by a rank in a fixed range, first come first served within a rank |
//! | [`TimingWheel`] | items by a time that goes on, to within a granularity |

mod bitmap;
mod lists;
mod priority;
mod wheel;

pub use bitmap::Bitmap;
pub use lists::MAX_ITEMS;
pub use priority::PriorityQueue;
pub use wheel::TimingWheel;
