//! Engines on several cores that keep step without a lock.
//!
//! Each core has an engine and flows of its own. Without coordination a core with few flows gives
//! each of them more than a core with many, which spreads the rates of 30 000 flows over two orders
//! of magnitude (Zhao's thesis, section 5.3.2). The thesis asks for lazy coordination between
//! independent queues (section 5.4).
//!
//! A [`Board`] holds the virtual time of each engine: how much a flow of weight one has received
//! there. An engine publishes its own and reads the others' once in each `period`, or when it would
//! run ahead of what it last read by more than `slack`. An engine that is ahead of the slowest
//! waits for one period. So a flow receives the same on each core, up to `slack`, whatever the
//! number of flows.
//!
//! A core holds nobody up while it has no flow to serve, and later begins at the latest virtual
//! time of all. Nor does a core that has not called for `timeout`, such as one whose thread the
//! operating system has stopped. Its flows did wait, so it catches up later, by `catch_up` at most.
//!
//! The core with the earliest virtual time never waits, so at least one core always proceeds. All
//! cores must pass times of one clock.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use forebay_units::Nanos;

#[cfg(all(test, loom))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod models;

use crate::ConfigError;
use crate::error::within;
use crate::sync::{Apart, AtomicU64, Ordering};

/// Settings of a [`Board`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The number of cores.
    pub cores: u32,
    /// How far the virtual time of a core may be ahead of another's, in bytes of a flow of weight
    /// one.
    pub slack: u64,
    /// How often a core publishes its virtual time and reads the others'.
    pub period: Nanos,
    /// After how long without a call a core is taken for gone.
    pub timeout: Nanos,
    /// How far a core that was taken for gone may be behind the others when it comes back, in bytes
    /// of a flow of weight one.
    pub catch_up: u64,
}

impl Default for Config {
    /// Returns settings for two cores, a slack of two full packets, a period of 50 us, and 256 KiB
    /// of each flow to catch up.
    fn default() -> Self {
        Self {
            cores: 2,
            slack: 3000,
            period: Nanos::from_micros(50),
            timeout: Nanos::from_millis(10),
            catch_up: 1 << 18,
        }
    }
}

/// What a core publishes.
#[derive(Debug)]
struct Published {
    clock: AtomicU64,
    /// When the core was last active, plus one; zero while it has nothing to serve. It is written
    /// after `clock`, so that a core that joins is never seen with its clock of before.
    seen: AtomicU64,
}

/// The virtual times of all cores.
#[derive(Debug)]
pub struct Board {
    published: Box<[Apart<Published>]>,
    config: Config,
}

impl Board {
    /// Creates a board and the seats of all cores.
    ///
    /// # Errors
    /// Fails if there are no cores or more than 1024, or if a time is zero.
    pub fn seats(config: Config) -> Result<Vec<Seat>, ConfigError> {
        within("cores", u64::from(config.cores), 1, 1024)?;
        within("slack", config.slack, 1, 1 << 40)?;
        within("period", config.period.0, 1, u64::MAX)?;
        within("catch_up", config.catch_up, 0, 1 << 40)?;
        within("timeout", config.timeout.0, config.period.0, u64::MAX)?;
        let empty = |_| Apart(Published { clock: AtomicU64::new(0), seen: AtomicU64::new(0) });
        let published = (0..config.cores).map(empty).collect();
        let board = Arc::new(Self { published, config });
        let seat = |index| Seat {
            board: Arc::clone(&board),
            index,
            limit: 0,
            read: Nanos::ZERO,
            active: false,
        };
        Ok((0..config.cores as usize).map(seat).collect())
    }
}

/// A core's place at the board.
#[derive(Debug)]
pub struct Seat {
    board: Arc<Board>,
    index: usize,
    /// Up to which virtual time this core may go, by what it read last.
    limit: u64,
    /// When it read last.
    read: Nanos,
    active: bool,
}

/// Whether a core may serve its flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The core may go on.
    Go,
    /// The core begins, moves its virtual time to this one if it is later, and asks again.
    Join(u64),
    /// The core is ahead of another one, and asks again at this time.
    Wait(Nanos),
}

/// The virtual time of a byte of a flow of weight one; see `Account::virtual_time`.
const UNIT: u64 = super::ranking::MAX_WEIGHT as u64;

impl Seat {
    fn mine(&self) -> &Published {
        &self.board.published[self.index].0
    }

    fn others(&self) -> impl Iterator<Item = &Published> {
        let all = self.board.published.iter().enumerate();
        all.filter(|&(index, _)| index != self.index).map(|(_, other)| &other.0)
    }

    /// Asks whether this core, which has flows to serve and the virtual time `clock`, may serve
    /// them.
    #[inline]
    pub fn step(&mut self, now: Nanos, clock: u64) -> Step {
        let since = now.saturating_sub(self.read);
        if self.active && clock <= self.limit && since < self.board.config.period {
            return Step::Go;
        }
        self.read = now;
        if !self.active {
            return self.join(now, clock, 0);
        }
        if since > self.board.config.timeout {
            return self.join(now, clock, self.board.config.catch_up * UNIT);
        }
        self.publish(now, clock);
        self.read_others(now);
        if clock <= self.limit {
            Step::Go
        } else {
            Step::Wait(now.saturating_add(self.board.config.period))
        }
    }

    /// Begins, or begins again, at most `behind` the latest virtual time of all cores.
    #[cold]
    fn join(&mut self, now: Nanos, clock: u64, behind: u64) -> Step {
        let latest = self.others().map(|other| other.clock.load(Ordering::Acquire)).max();
        let clock = latest.map_or(clock, |latest| latest.saturating_sub(behind).max(clock));
        self.publish(now, clock);
        self.active = true;
        self.read_others(now);
        Step::Join(clock)
    }

    /// Reports that this core has nothing to serve, so that no other waits for it.
    #[inline]
    pub fn leave(&mut self) {
        if self.active {
            self.active = false;
            self.mine().seen.store(0, Ordering::Release);
        }
    }

    fn publish(&self, now: Nanos, clock: u64) {
        let mine = self.mine();
        mine.clock.store(clock, Ordering::Release);
        mine.seen.store(now.0.saturating_add(1), Ordering::Release);
    }

    /// Sets the limit by the earliest virtual time of the active cores.
    fn read_others(&mut self, now: Nanos) {
        let config = self.board.config;
        let slowest = self.others().filter_map(|other| {
            let seen = other.seen.load(Ordering::Acquire);
            let gone = seen == 0 || now.0.saturating_sub(seen) > config.timeout.0;
            (!gone).then(|| other.clock.load(Ordering::Acquire))
        });
        let slowest = slowest.min();
        self.limit =
            slowest.map_or(u64::MAX, |slowest| slowest.saturating_add(config.slack * UNIT));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
    }
}
