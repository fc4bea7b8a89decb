//! The window growth of Reno (RFC 5681).

use super::{Connection, Window};

/// Grows the window by slow start, then by a segment per round trip.
pub(super) fn grow(window: &mut Window, c: &Connection, acked: u32) {
    if !c.cwnd_limited {
        return;
    }
    let left = if window.slow_start() { window.double(acked) } else { acked };
    if left > 0 {
        window.add(window.size, left);
    }
}
