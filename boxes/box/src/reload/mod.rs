//! Changes of a running box: a new file is read and checked whole, and then the difference is
//! applied.
//!
//! SIGHUP or `forebay reload` ask for it. A file that cannot be applied changes nothing, and one
//! line says why.

mod difference;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use forebay_config::Configuration;
use forebay_records::Reloaded;
use forebay_units::Rate;

use self::difference::{ADDED, REMOVED};
pub(crate) use self::difference::{Difference, Parts, Step, difference};

use crate::Error;
use crate::commands::Commands;
use crate::config::{BundleConfig, PeerConfig, ReceiveboxConfig, SendboxConfig, SiteConfig};
use crate::signals::Signals;

/// The most bundles that an answer names.
const NAMED: usize = 100;

/// The reason why a file was not applied.
#[derive(Debug)]
pub(crate) struct Refused {
    why: String,
    /// Whether a part of it was applied nevertheless.
    partly: bool,
}

impl Refused {
    pub(crate) fn new(why: impl fmt::Display) -> Self {
        Self { why: why.to_string(), partly: false }
    }

    /// What another attempt may not meet.
    pub(crate) fn later(why: impl fmt::Display) -> Self {
        Self::new(format!("{why}: try again"))
    }

    /// What needs another process.
    pub(crate) fn restart(why: impl fmt::Display) -> Self {
        Self::new(format!("{why}: restart it to apply the file"))
    }

    /// An error that came after the first change, when all that can be checked was checked.
    pub(crate) fn partly(why: impl Into<Error>) -> Self {
        Self { why: why.into().to_string(), partly: true }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)?;
        f.write_str(if self.partly {
            "; the file is applied in part: restart the process"
        } else {
            "; nothing changed"
        })
    }
}

impl<E: Into<Error>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::new(error.into())
    }
}

/// Keys of a file with their values.
type Keys = Vec<(&'static str, String)>;

/// The configuration of a box that can change while it runs.
pub(crate) trait Reloadable: Configuration {
    /// Returns the keys that cannot change, with their values.
    fn fixed(&self) -> Keys;

    /// Returns the bundles.
    fn contents(self) -> Contents;
}

/// The bundles of a file.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// The bundles that it sends.
    pub(crate) bundles: Vec<BundleConfig>,
    /// The bundles that it receives.
    pub(crate) peers: Vec<PeerConfig>,
    /// The common limit of the bundles that it sends.
    pub(crate) limit: Option<Rate>,
}

impl Reloadable for SendboxConfig {
    fn fixed(&self) -> Keys {
        let listen = self.listen.map(|listen| listen.to_string()).unwrap_or_default();
        let mut keys =
            vec![("sendbox.outside", self.outside.name.clone()), ("sendbox.listen", listen)];
        keys.extend(self.dataplane.fixed());
        keys
    }

    fn contents(self) -> Contents {
        Contents { bundles: self.bundles, peers: Vec::new(), limit: self.limit }
    }
}

impl Reloadable for SiteConfig {
    fn fixed(&self) -> Keys {
        vec![
            ("site.interface", self.interface.name.clone()),
            ("site.listen", self.listen.to_string()),
            ("site.take_over", format!("{:?}", self.foreign)),
        ]
    }

    fn contents(self) -> Contents {
        Contents { bundles: self.bundles, peers: self.peers, limit: self.limit }
    }
}

impl Reloadable for ReceiveboxConfig {
    fn fixed(&self) -> Keys {
        vec![
            ("receivebox.interface", self.interface.name.clone()),
            ("receivebox.listen", self.listen.to_string()),
        ]
    }

    fn contents(self) -> Contents {
        Contents { bundles: Vec::new(), peers: self.peers, limit: None }
    }
}

/// The file of a running box.
pub(crate) struct Reloader {
    file: PathBuf,
    load: fn(&Path) -> Result<(Keys, Contents), Error>,
    /// The fixed keys of the file at the start.
    fixed: Keys,
}

impl Reloader {
    /// Returns what will read `file` again, which `config` is from.
    pub(crate) fn new<C: Reloadable>(file: &Path, config: &C) -> Self {
        Self {
            file: file.to_owned(),
            load: |file| {
                let config = C::load(file)?;
                Ok((config.fixed(), config.contents()))
            },
            fixed: config.fixed(),
        }
    }

    /// Reads the file if SIGHUP or a command asked for it; `None` if nobody did.
    pub(crate) fn poll(
        &self,
        signals: &Signals,
        commands: &mut Commands,
    ) -> Option<Result<Contents, Refused>> {
        let [by_signal, by_command] = [signals.ask_to_reload(), commands.take_reload()];
        (by_signal || by_command).then(|| self.read())
    }

    fn read(&self) -> Result<Contents, Refused> {
        let (fixed, contents) = (self.load)(&self.file)?;
        let changed = fixed.iter().zip(&self.fixed).find(|(new, old)| new != old);
        match changed {
            Some(((key, _), _)) => {
                Err(Refused::restart(format!("{key} cannot change in a running process")))
            }
            None => Ok(contents),
        }
    }

    /// Says what became of it, in the log and to the commands that asked.
    pub(crate) fn answer(&self, outcome: &Result<Words, Refused>, commands: &Commands) {
        let file = self.file.display();
        let answer = match outcome {
            Ok(words) => {
                tracing::info!("the new {file} is applied: {words}");
                Reloaded { changes: words.0.clone(), ..Reloaded::of(std::process::id()) }
            }
            Err(refused) => {
                tracing::warn!("the new {file} is refused: {refused}");
                let refused = Some(refused.to_string());
                Reloaded { refused, ..Reloaded::of(std::process::id()) }
            }
        };
        commands.answer_reload(answer);
    }
}

/// What changed: for each bundle a few words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Words(Vec<String>);

impl Words {
    /// Joins what changed of the bundles that are sent and of those that are received. Where both
    /// have the same bundles and say the same, it is said once.
    pub(crate) fn new(sends: Vec<(String, String)>, receives: Vec<(String, String)>) -> Self {
        let mut all: Vec<(String, Vec<String>)> = Vec::new();
        let mut places = HashMap::new();
        for (name, what) in sends.into_iter().chain(receives) {
            let place = *places.entry(name.clone()).or_insert(all.len());
            match all.get_mut(place) {
                Some((_, said)) => said.push(what),
                None => all.push((name, vec![what])),
            }
        }
        let more = all.len().saturating_sub(NAMED);
        let first = all.into_iter().take(NAMED);
        let mut words: Vec<_> =
            first.map(|(name, said)| format!("{name}: {}", joined(&said))).collect();
        if more > 0 {
            words.push(format!("{more} more"));
        }
        Self(words)
    }

    /// As [`Self::new`] for a site, which has the bundles `sent` and `received` from now on. If one
    /// direction of a peer comes or goes and the other stays, the direction is named.
    pub(crate) fn of_site(
        sends: Vec<(String, String)>,
        receives: Vec<(String, String)>,
        [sent, received]: [&HashSet<String>; 2],
    ) -> Self {
        let words = |all: &[(String, String)]| -> HashMap<_, _> { all.iter().cloned().collect() };
        let (of_sends, of_receives) = (words(&sends), words(&receives));
        let named = |all: Vec<(String, String)>,
                     others: &HashSet<String>,
                     said: &HashMap<_, _>,
                     direction: &str| {
            let one = |(name, what): (String, String)| {
                let other = said.get(&name).map_or("", String::as_str);
                let what = match what.as_str() {
                    REMOVED if others.contains(&name) => format!("no longer {direction}"),
                    ADDED if other != ADDED && (others.contains(&name) || other == REMOVED) => {
                        format!("{direction} from now on")
                    }
                    _ => what,
                };
                (name, what)
            };
            all.into_iter().map(one).collect::<Vec<_>>()
        };
        let sends = named(sends, received, &of_receives, "sent");
        Self::new(sends, named(receives, sent, &of_sends, "received"))
    }

    /// Adds that the common limit of all bundles changed, if it did.
    pub(crate) fn with_limit(mut self, old: Option<Rate>, new: Option<Rate>) -> Self {
        if old != new {
            let rate = |rate: Option<Rate>| rate.map_or("none".to_owned(), |r| r.to_string());
            self.0.insert(0, format!("max_rate of all: {} to {}", rate(old), rate(new)));
        }
        self
    }
}

/// Joins what both ends of a bundle say, each part once.
fn joined(said: &[String]) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in said.iter().flat_map(|text| text.split(", ")) {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.join(", ")
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing changed");
        }
        f.write_str(&self.0.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_directions_say_is_said_once() {
        let words = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(name, what)| ((*name).to_owned(), (*what).to_owned())).collect()
        };
        let both = Words::new(
            words(&[("branch", "policy fifo to fq_codel, another key"), ("lab", "added")]),
            words(&[("lab", "added"), ("branch", "prefixes, another key"), ("old", "removed")]),
        );
        assert_eq!(
            both.to_string(),
            "branch: policy fifo to fq_codel, another key, prefixes; lab: added; old: removed"
        );
        assert_eq!(Words::new(vec![], vec![]).to_string(), "nothing changed");
        let many: Vec<_> = (0..130).map(|n| (format!("b{n}"), "added".to_owned())).collect();
        assert!(Words::new(many, vec![]).to_string().ends_with("b99: added; 30 more"));
    }

    #[test]
    fn a_direction_of_a_peer_that_goes_or_comes_is_named() {
        let words = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(name, what)| ((*name).to_owned(), (*what).to_owned())).collect()
        };
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
        let (sent, received) = (names(&["new", "more"]), names(&["new", "less", "more", "turned"]));
        let said = Words::of_site(
            words(&[("less", "removed"), ("gone", "removed"), ("turned", "removed")]),
            words(&[("less", "prefixes"), ("gone", "removed"), ("turned", "added")]),
            [&sent, &received],
        );
        assert_eq!(
            said.to_string(),
            "less: no longer sent, prefixes; gone: removed; \
             turned: no longer sent, received from now on"
        );
        let said = Words::of_site(
            words(&[("new", "added"), ("more", "added"), ("old", "removed")]),
            words(&[("new", "added")]),
            [&sent, &received],
        );
        assert_eq!(said.to_string(), "new: added; more: sent from now on; old: removed");
    }
}
