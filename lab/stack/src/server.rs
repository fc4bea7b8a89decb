//! The receiving end on a machine of its own.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use forebay_system::own_descriptors;

use crate::load::receiver::Receiver;
use crate::load::{Shared, Step};
use crate::measure::threads;
use crate::{Error, Interrupt};

/// How often interrupts are looked for.
const TICK: Duration = Duration::from_millis(100);

/// What a receiving end has had up to now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Received {
    /// Connections that are open.
    pub open: u32,
    /// Data of the last second in Mbit/s.
    pub mbps: f64,
}

/// Accepts up to `most` connections at `listen` and reads everything from them, until the
/// interrupt. Tells what it receives once a second.
///
/// Anyone who reaches the address can connect and send, as with any such tool: it belongs into a
/// network of tests.
///
/// # Errors
/// If the address cannot be had, or the kernel refuses to go on.
pub fn serve(
    listen: SocketAddr,
    most: u32,
    wanted_threads: u32,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(Received) -> Result<(), Error>,
) -> Result<(), Error> {
    let threads = threads(most, wanted_threads)?;
    let shared = &Shared::default();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(move || {
                let run = || {
                    own_descriptors()?;
                    Receiver::listen(&[listen], most as usize, shared)?.run()
                };
                run().unwrap_or_else(|e| shared.fail(e.to_string()));
            });
        }
        let result = report(shared, interrupt, tell);
        shared.go(Step::Close);
        result
    })
}

fn report(
    shared: &Shared,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(Received) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut before = (Instant::now(), 0);
    while !interrupt.is_raised() {
        thread::sleep(TICK);
        if let Some(what) = shared.failure() {
            return Err(Error::Unfit(what));
        }
        let seconds = before.0.elapsed().as_secs_f64();
        if seconds >= 1.0 {
            let bytes = shared.received.load(Ordering::Relaxed);
            let mbps = (bytes - before.1) as f64 * 8.0 / seconds / 1e6;
            before = (Instant::now(), bytes);
            let accepted = shared.accepted.load(Ordering::Relaxed);
            let open = accepted.saturating_sub(shared.ended.load(Ordering::Relaxed));
            tell(Received { open, mbps })?;
        }
    }
    Ok(())
}
