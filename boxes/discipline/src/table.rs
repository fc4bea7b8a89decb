//! Checking a policy of a box's configuration.

use std::ops::Range;

use forebay_config::{ConfigError, Limit, Source};
use forebay_units::Nanos;

use crate::limit::FRAME;
use crate::specification::WrongSetting;
use crate::{Discipline, Key, Kind, PolicyTable, QueueOwner, Settings};

/// The largest limit in packets that a configuration may have: a million full frames are 1.5 GB of
/// buffers.
const MAX_CONFIGURED_PACKETS: u64 = 1_000_000;

impl PolicyTable {
    /// The discipline that the table describes, for a box whose queues are `owner`'s; `key` is the
    /// table's own key.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and key.
    pub fn check(
        &self,
        source: &Source,
        owner: &QueueOwner,
        key: &str,
    ) -> Result<Discipline, ConfigError> {
        let kind = *self.kind.get_ref();
        let settings = self.settings();
        let given = self.given();
        let error = |wrong: WrongSetting| {
            let span = given.iter().find(|(key, _)| *key == wrong.key).map(|(_, span)| span);
            let span = span.cloned().unwrap_or_else(|| self.kind.span());
            source.error_at(span, format!("{key}.{}", wrong.key.name()), wrong.message)
        };
        let refused = || source.error_at(self.kind.span(), format!("{key}.kind"), no_policy(kind));
        let keys = kind.policy_keys().ok_or_else(refused)?;
        check_keys(keys, &given).map_err(error)?;
        check_limit(kind, &settings).map_err(error)?;
        check_times(&settings).map_err(error)?;
        kind.check(&settings).map_err(error)?;
        if let QueueOwner::Kernel(_) = owner {
            for (key, instead) in kind.user_space_keys() {
                if given.iter().any(|(given, _)| given == key) {
                    let message = format!("this goes with `dataplane = \"user\"`: {instead}");
                    return Err(error(WrongSetting::new(*key, message)));
                }
            }
        }
        let discipline = Discipline { kind, settings };
        match owner.refuses(&discipline) {
            Some(message) => Err(source.error_at(self.kind.span(), format!("{key}.kind"), message)),
            None => Ok(discipline),
        }
    }
}

/// Makes the error for a discipline that boxes do not take.
fn no_policy(kind: Kind) -> String {
    let policies = Kind::ALL.iter().filter(|kind| kind.is_policy()).map(|kind| kind.name());
    let policies: Vec<&str> = policies.collect();
    format!("{} is no policy of boxes: use one of {}", kind.name(), policies.join(", "))
}

/// Refuses a key that goes with another discipline.
fn check_keys(keys: &[Key], given: &[(Key, Range<usize>)]) -> Result<(), WrongSetting> {
    let fits = |key: &Key| *key == Key::Limit || keys.contains(key);
    let Some((key, _)) = given.iter().find(|(key, _)| !fits(key)) else { return Ok(()) };
    let have = Kind::ALL.iter().filter(|kind| kind.policy_has(*key));
    let have: Vec<String> = have.map(|kind| format!("\"{}\"", kind.name())).collect();
    let message = match have.as_slice() {
        [most @ .., last] if !most.is_empty() => {
            format!("this goes with {} and {last} only", most.join(", "))
        }
        one => format!("this goes with kind = {} only", one.concat()),
    };
    Err(WrongSetting::new(*key, message))
}

/// Refuses a limit that lets no packet in, or that takes too much memory.
fn check_limit(kind: Kind, settings: &Settings) -> Result<(), WrongSetting> {
    let Some(limit) = settings.limit else { return Ok(()) };
    let message = match limit {
        _ if kind.is_classful() => "each class has a limit of its own: set it there",
        Limit::Bdp(_) => "the round trip is not known beforehand: give packets, bytes or a time",
        Limit::Packets(0) | Limit::Time(Nanos::ZERO) => "nothing could wait",
        Limit::Packets(n) if n > MAX_CONFIGURED_PACKETS => "more than a million packets",
        Limit::Bytes(b) if b < FRAME => "a full packet, 1514 B, would never get in",
        _ => return Ok(()),
    };
    Err(WrongSetting::new(Key::Limit, message))
}

/// Refuses a time of zero.
fn check_times(settings: &Settings) -> Result<(), WrongSetting> {
    let times = [
        (Key::Perturb, settings.perturb),
        (Key::Target, settings.target),
        (Key::Interval, settings.interval),
        (Key::Range, settings.range),
        (Key::Rtt, settings.rtt),
        (Key::L4sBurst, settings.l4s_burst.map(|burst| burst.time)),
    ];
    match times.into_iter().find(|(_, time)| *time == Some(Nanos::ZERO)) {
        Some((key, _)) => Err(WrongSetting::new(key, "must be above zero")),
        None => Ok(()),
    }
}
