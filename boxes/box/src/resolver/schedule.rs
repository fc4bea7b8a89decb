//! Which name to ask for, and when. It does no IO.

use std::collections::HashMap;
use std::net::SocketAddr;

use forebay_config::RemoteAddress;
use forebay_units::Nanos;

/// The silence of a box after which its name is asked for again, and updates go to the address of
/// its file too. Updates of a working box come every two seconds.
pub(crate) const CONTACT_TIMEOUT: Nanos = Nanos::from_secs(5);
/// The shortest time between two questions for a name that has an address.
const PAUSE: Nanos = Nanos::from_secs(30);
/// The same for a name that has none yet.
const SHORT_PAUSE: Nanos = Nanos::from_secs(5);

/// What is known of a name.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Nanos,
    /// Whether it has, or had, an address.
    has_address: bool,
    /// Whether it was said that the last question failed.
    is_failure_said: bool,
}

/// The questions of a box. At most one waits for its answer.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    asked: HashMap<RemoteAddress, Asked>,
    waiting: Option<RemoteAddress>,
}

impl Schedule {
    /// Notes a name that was asked for at the start.
    pub(super) fn begin(&mut self, now: Nanos, name: &RemoteAddress, has_address: bool) {
        let asked = Asked { at: now, has_address, is_failure_said: !has_address };
        self.asked.insert(name.clone(), asked);
    }

    /// Whether there are no names.
    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Forgets all names, so that each is asked for soon.
    pub(super) fn forget(&mut self) {
        self.asked.clear();
    }

    /// Returns the name to ask for at `now`, among `names` with whether their boxes are silent. Its
    /// answer is waited for.
    pub(super) fn next<'a>(
        &mut self,
        now: Nanos,
        names: impl IntoIterator<Item = (&'a RemoteAddress, bool)>,
    ) -> Option<RemoteAddress> {
        if self.waiting.is_some() {
            return None;
        }
        let due = |(name, is_silent)| match self.asked.get(name) {
            None => Some((Nanos::ZERO, name)),
            Some(asked) => {
                let pause = if asked.has_address { PAUSE } else { SHORT_PAUSE };
                let is_wanted = is_silent || !asked.has_address;
                (is_wanted && now.saturating_sub(asked.at) >= pause).then_some((asked.at, name))
            }
        };
        let (_, name): (Nanos, &RemoteAddress) =
            names.into_iter().filter_map(due).min_by_key(|(at, _)| *at)?;
        let new = Asked { at: now, has_address: false, is_failure_said: false };
        self.asked.entry(name.clone()).or_insert(new).at = now;
        self.waiting = Some(name.clone());
        self.waiting.clone()
    }

    /// Takes in the answer to the last question. A failure is logged once, until there is an
    /// address again.
    pub(super) fn on_answer(
        &mut self,
        answer: Result<SocketAddr, String>,
    ) -> Option<(RemoteAddress, SocketAddr)> {
        let name = self.waiting.take()?;
        let asked = self.asked.get_mut(&name);
        match answer {
            Ok(address) => {
                if let Some(asked) = asked {
                    (asked.has_address, asked.is_failure_said) = (true, false);
                }
                Some((name, address))
            }
            Err(why) => {
                if asked.is_some_and(|asked| !std::mem::replace(&mut asked.is_failure_said, true)) {
                    tracing::warn!("{why}; its last address is kept, and it is tried again");
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::from_secs(1);

    fn name(text: &str) -> RemoteAddress {
        text.parse().unwrap()
    }

    fn found() -> Result<SocketAddr, String> {
        Ok("192.0.2.1:7".parse().unwrap())
    }

    /// Asks once a second until `end`, and answers at once; returns the names with their seconds.
    fn asked(
        schedule: &mut Schedule,
        seconds: std::ops::Range<u64>,
        names: &[(&RemoteAddress, bool)],
        answer: impl Fn(&RemoteAddress) -> Result<SocketAddr, String>,
    ) -> Vec<(u64, String)> {
        let mut all = Vec::new();
        for second in seconds {
            if let Some(name) = schedule.next(SECOND * second, names.iter().copied()) {
                schedule.on_answer(answer(&name));
                all.push((second, name.to_string()));
            }
        }
        all
    }

    #[test]
    fn a_silent_box_is_asked_for_every_thirty_seconds_and_another_never() {
        let (a, b) = (name("a.example:7"), name("b.example:7"));
        let mut schedule = Schedule::default();
        schedule.begin(Nanos::ZERO, &a, true);
        schedule.begin(Nanos::ZERO, &b, true);
        let all = asked(&mut schedule, 0..100, &[(&a, true), (&b, false)], |_| found());
        let expected = [30, 60, 90].map(|second| (second, "a.example:7".to_owned()));
        assert_eq!(all, expected);
        // After a reload both are asked for once.
        schedule.forget();
        let all = asked(&mut schedule, 100..129, &[(&a, false), (&b, false)], |_| found());
        assert_eq!(all, [(100, "a.example:7".to_owned()), (101, "b.example:7".to_owned())]);
    }

    #[test]
    fn a_name_without_an_address_is_tried_every_five_seconds_until_it_has_one() {
        let a = name("a.example:7");
        let mut schedule = Schedule::default();
        schedule.begin(Nanos::ZERO, &a, false);
        let fails = |_: &RemoteAddress| Err("no".to_owned());
        let all = asked(&mut schedule, 0..16, &[(&a, false)], fails);
        assert_eq!(all.iter().map(|(second, _)| *second).collect::<Vec<_>>(), [5, 10, 15]);
        let all = asked(&mut schedule, 16..100, &[(&a, false)], |_| found());
        assert_eq!(all, [(20, "a.example:7".to_owned())]);
    }

    #[test]
    fn one_question_waits_at_a_time_and_a_failure_is_said_once() {
        let (a, b) = (name("a.example:7"), name("b.example:7"));
        let mut schedule = Schedule::default();
        let all = [(&a, true), (&b, true)];
        assert_eq!(schedule.next(SECOND, all), Some(a.clone()));
        assert_eq!(schedule.next(SECOND * 99, all), None, "the answer may take long");
        assert_eq!(schedule.on_answer(Err("no".to_owned())), None);
        assert!(schedule.asked[&a].is_failure_said);
        assert_eq!(schedule.next(SECOND * 99, all), Some(b.clone()));
        assert_eq!(schedule.on_answer(found()), Some((b.clone(), found().unwrap())));
        assert_eq!(schedule.on_answer(found()), None, "nothing was asked");
        assert_eq!(schedule.next(SECOND * 100, all), Some(a.clone()));
        assert_eq!(schedule.on_answer(found()), Some((a.clone(), found().unwrap())));
        assert!(!schedule.asked[&a].is_failure_said, "the next failure is said again");
    }
}
