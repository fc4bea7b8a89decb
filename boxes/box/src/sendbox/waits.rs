//! Who waits in the queues of a sendbox in user space: the waits of packets that left, split by the
//! size of the transfer and by class.

use forebay_records::{ClassWait, Wait, WaitsHere};
use forebay_units::{Bytes, Nanos};

/// The first bytes of a transfer, which count as small: ten full frames, the initial window of TCP
/// (RFC 6928).
pub(super) const SMALL: Bytes = Bytes(10 * 1514);
/// The time over which waits are averaged. A reader that asks as often sees every packet.
const SPAN: Nanos = Nanos::from_secs(1);
/// The classes of a bundle that are told apart; the last one has all further classes.
const CLASSES: usize = 4;
/// The groups: small and large transfers, then classes.
const GROUPS: usize = 2 + CLASSES;

/// The packets of a group and their waits.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    packets: u64,
    waited: Nanos,
    longest: Nanos,
}

impl Tally {
    fn note(&mut self, wait: Nanos) {
        self.packets += 1;
        self.waited = self.waited.saturating_add(wait);
        self.longest = self.longest.max(wait);
    }
}

/// The waits of a bundle's packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    total: [Tally; GROUPS],
    /// The start of the present second.
    start: Nanos,
    present: [Tally; GROUPS],
    /// The second before; all zero if nothing left in it.
    before: [Tally; GROUPS],
}

impl Waits {
    /// Notes that a packet of this class left after `wait`.
    pub(super) fn note(&mut self, now: Nanos, wait: Nanos, is_large: bool, class: u8) {
        let age = now.saturating_sub(self.start);
        if age >= SPAN {
            let ended = std::mem::take(&mut self.present);
            self.before = if age < SPAN * 2 { ended } else { Default::default() };
            self.start = now;
        }
        let class = 2 + usize::from(class).min(CLASSES - 1);
        for group in [usize::from(is_large), class] {
            self.total[group].note(wait);
            self.present[group].note(wait);
        }
    }

    /// Returns the waits since the start and of the last whole second, for the classes of these
    /// names.
    pub(super) fn status<'a>(
        &self,
        now: Nanos,
        names: impl ExactSizeIterator<Item = &'a str>,
    ) -> WaitsHere {
        let last = match now.saturating_sub(self.start) {
            age if age < SPAN => self.before,
            age if age < SPAN * 2 => self.present,
            _ => Default::default(),
        };
        let ms = |time: Nanos| time.0 as f64 / 1e6;
        let wait = |group: usize| {
            let (total, last) = (self.total[group], last[group]);
            let left = last.packets > 0;
            Wait {
                packets: total.packets,
                waited_ms: ms(total.waited),
                mean_ms: left.then(|| ms(last.waited) / last.packets as f64),
                longest_ms: left.then(|| ms(last.longest)),
            }
        };
        let has_more = names.len() > CLASSES;
        let classes = names.take(CLASSES).enumerate().map(|(class, name)| {
            let is_rest = has_more && class == CLASSES - 1;
            let name = if is_rest { "other classes" } else { name };
            ClassWait { name: name.to_owned(), wait: wait(2 + class) }
        });
        WaitsHere { small: wait(0), large: wait(1), classes: classes.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn means_are_those_of_the_last_whole_second() {
        let mut waits = Waits::default();
        waits.note(MS(5_000), MS(2), false, 0);
        waits.note(MS(5_500), MS(4), false, 1);
        waits.note(MS(5_900), MS(90), true, 200);
        let names = ["voice", "web", "mail", "video", "rest"];
        let told = |waits: &Waits, at| waits.status(MS(at), names.iter().copied());
        let early = told(&waits, 5_950);
        assert_eq!((early.small.packets, early.small.mean_ms), (2, None), "not over");
        let whole = told(&waits, 6_000);
        assert_eq!((whole.small.mean_ms, whole.small.longest_ms), (Some(3.0), Some(4.0)));
        assert_eq!((whole.large.mean_ms, whole.large.waited_ms), (Some(90.0), 90.0));
        let classes: Vec<_> =
            whole.classes.iter().map(|c| (&c.name[..], c.wait.packets, c.wait.mean_ms)).collect();
        let none = ("mail", 0, None);
        let rest = ("other classes", 1, Some(90.0));
        assert_eq!(classes, [("voice", 1, Some(2.0)), ("web", 1, Some(4.0)), none, rest]);
        waits.note(MS(6_100), MS(8), true, 0);
        assert_eq!(told(&waits, 6_200).large.mean_ms, Some(90.0), "the second before");
        assert_eq!(told(&waits, 7_200).large.mean_ms, Some(8.0));
        let late = told(&waits, 8_200);
        assert_eq!((late.large.mean_ms, late.large.packets), (None, 2), "nothing for a second");
    }
}
