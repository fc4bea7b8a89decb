//! Checks of clocks and timers, on which rates, time stamps and ticks depend.

use forebay_units::Nanos;

use crate::doctor::facts::Clock;
use crate::doctor::report::Check;

const AREA: &str = "clocks";

/// The largest time for a reading of the clock. The queues in user space read it at least once for
/// each packet, and a packet of 1500 bytes takes this long at 1 Gbit/s.
const SLOW_READ: Nanos = Nanos::from_micros(1);
/// The largest lateness of sleeps: a tenth of a tick. Later sleeps make bursts of that length.
const LATE: Nanos = Nanos::from_millis(1);
/// The coarsest resolution of high-resolution timers.
const COARSE: Nanos = Nanos::from_micros(10);
/// The largest slewing rate of the kernel (`MAXFREQ`, in parts per million).
const MAX_SLEW: f64 = 500.0;

pub(super) fn checks(clock: &Clock) -> Vec<Check> {
    let named = clock.source.as_deref().unwrap_or("not told");
    let source = Check::new(AREA, "clock source", format!("{named}, {} a reading", clock.read));
    let source = if clock.read >= SLOW_READ {
        source.note(
            "slow: a sendbox of its own queues reads it for every packet; see \
             /sys/devices/system/clocksource for others (tsc, kvm-clock)",
        )
    } else {
        source
    };
    let hertz = clock.hertz.map(|n| format!(", {n} ticks a second")).unwrap_or_default();
    let timers = Check::new(AREA, "timers", format!("{} apart{hertz}", clock.resolution));
    let timers = if clock.resolution > COARSE {
        timers.note("no high-resolution timers (CONFIG_HIGH_RES_TIMERS): packets leave in bursts, one a tick")
    } else {
        timers
    };
    let (median, most) = clock.late;
    let late = Check::new(AREA, "sleeps", format!("{median} late in the median, {most} at most"));
    let late = if most > LATE {
        late.note(
            "packets leave in bursts when a sendbox of its own queues wakes late: is the machine busy? \
             dataplane = \"kernel\" does not depend on it",
        )
    } else {
        late
    };
    let slew = match clock.slew {
        None => Check::new(AREA, "CLOCK_MONOTONIC", "the kernel does not tell how it is slewed"),
        Some(ppm) => {
            let check = Check::new(AREA, "CLOCK_MONOTONIC", format!("slewed by {ppm:+.1} ppm"));
            if ppm.abs() >= MAX_SLEW {
                check.note("as far as the kernel goes: the hardware's clock is bad, and rates are off by as much")
            } else {
                check
            }
        }
    };
    // The wall clock may jump: only logs read it.
    vec![source, timers, late, slew]
}
