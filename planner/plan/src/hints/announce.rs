//! The steps that bring BGP speakers from what they announce to what the hints ask for.
//!
//! This module has no socket and starts no process. [`steps`] compares what was announced with what
//! is wanted, [`arguments`] turns a step into arguments of GoBGP's command line, and [`Journal`]
//! records what may have been announced, so that it can be withdrawn after any crash.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use forebay_config::ConfigError;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::hints::bgp::Announcement;

/// One change to what a speaker announces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Announce this route, or announce it again with these attributes.
    Announce(Announcement),
    /// Withdraw this route.
    Withdraw(Announcement),
}

/// What an announcement replaces: the same prefix, of the same speaker, in the same session.
type Key = (Option<String>, IpAddr, IpNet);

fn key(announcement: &Announcement) -> Key {
    (announcement.speaker.clone(), announcement.peer, announcement.prefix)
}

/// Returns the steps from the state in `journal` to the `wanted` announcements.
///
/// Announcements without a speaker are left out. New routes come first, so that traffic has another
/// path before its present one is withdrawn. A step that was begun and perhaps not done is
/// repeated.
pub fn steps(journal: &Journal, wanted: &[Announcement]) -> Vec<Step> {
    let with_speaker = wanted.iter().filter(|a| a.speaker.is_some());
    let wanted: BTreeMap<Key, &Announcement> = with_speaker.map(|a| (key(a), a)).collect();
    let done = |key: &Key, a: &Announcement| {
        journal.routes.get(key).is_some_and(|old| old.confirmed && old.announcement == *a)
    };
    let new = wanted.iter().filter(|(key, a)| !done(key, a));
    let gone = journal.routes.iter().filter(|(key, _)| !wanted.contains_key(key));
    new.map(|(_, a)| Step::Announce((*a).clone()))
        .chain(gone.map(|(_, route)| Step::Withdraw(route.announcement.clone())))
        .collect()
}

/// Returns a step as arguments of GoBGP's command line; `None` if its announcement has no speaker.
pub fn arguments(step: &Step) -> Option<Vec<String>> {
    let (verb, a) = match step {
        Step::Announce(a) => ("add", a),
        Step::Withdraw(a) => ("del", a),
    };
    let (host, port) = a.speaker.as_deref()?.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let family = if matches!(a.prefix, IpNet::V4(_)) { "ipv4" } else { "ipv6" };
    let mut out: Vec<String> =
        ["-u", host, "-p", port, "global", "rib", verb].map(str::to_owned).into();
    out.push(a.prefix.to_string());
    if verb == "add" {
        let mut with = |name: &str, value: String| out.extend([name.to_owned(), value]);
        // BGP compares the origin before the MED (RFC 4271, section 9.1.2.2), so the origin is
        // that of the routes that routers announce themselves.
        with("origin", "igp".to_owned());
        if let Some(hop) = a.next_hop {
            with("nexthop", hop.to_string());
        }
        if let Some(med) = a.med {
            with("med", med.to_string());
        }
        if let Some(preference) = a.local_preference {
            with("local-pref", preference.to_string());
        }
        if let (1.., Some(asn)) = (a.prepends, a.asn) {
            with("aspath", vec![asn.to_string(); usize::from(a.prepends)].join(" "));
        }
        if let Some(community) = &a.community {
            let large = community.matches(':').count() == 2;
            with(if large { "large-community" } else { "community" }, community.clone());
        }
    }
    out.extend(["-a".to_owned(), family.to_owned()]);
    Some(out)
}

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalEntry {
    /// The announcement is about to be made. This line is on the disk before the speaker is asked.
    Begun(Announcement),
    /// The speaker has confirmed the step.
    Done(Step),
}

/// A route that may be announced.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Route {
    announcement: Announcement,
    /// Whether the speaker has confirmed it.
    confirmed: bool,
}

/// The routes that may be announced at present, one JSON line each in the journal's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    routes: BTreeMap<Key, Route>,
}

impl Journal {
    /// Reads a journal from the `text` of its `file`.
    ///
    /// A crash may leave the last line incomplete; that line is ignored, since its step was not
    /// taken yet.
    ///
    /// # Errors
    /// If any other line is not a journal entry, with its line number.
    pub fn read(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let mut journal = Self::default();
        for (line, at) in text.split_inclusive('\n').zip(1..) {
            let Some(whole) = line.strip_suffix('\n') else { break };
            let entry = serde_json::from_str(whole).map_err(|e| ConfigError {
                file: file.to_owned(),
                line: Some(at),
                key: String::new(),
                message: format!("is not an entry of a journal of announcements: {e}"),
            })?;
            journal.record(&entry);
        }
        Ok(journal)
    }

    /// Applies one entry to the state.
    pub fn record(&mut self, entry: &JournalEntry) {
        let (announcement, confirmed) = match entry {
            JournalEntry::Begun(a) => (a, false),
            JournalEntry::Done(Step::Announce(a)) => (a, true),
            JournalEntry::Done(Step::Withdraw(a)) => {
                self.routes.remove(&key(a));
                return;
            }
        };
        let route = Route { announcement: announcement.clone(), confirmed };
        self.routes.insert(key(announcement), route);
    }

    /// Returns the number of routes that may be announced.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Returns whether no route may be announced.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Returns the shortest text of a journal in this state.
    pub fn text(&self) -> String {
        let line = |route: &Route| {
            let announcement = route.announcement.clone();
            match route.confirmed {
                true => JournalEntry::Done(Step::Announce(announcement)).text(),
                false => JournalEntry::Begun(announcement).text(),
            }
        };
        self.routes.values().map(line).collect()
    }
}

impl JournalEntry {
    /// Returns the entry as a line of JSON, with its line end.
    pub fn text(&self) -> String {
        // Every value of this type has a form in JSON.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    fn announcement(prefix: &str, med: Option<u32>) -> Announcement {
        Announcement {
            neighbour: "x".to_owned(),
            peer: "192.0.2.1".parse().unwrap(),
            entry: "A".to_owned(),
            speaker: Some("[2001:db8::9]:50051".to_owned()),
            prefix: prefix.parse().unwrap(),
            next_hop: None,
            med,
            prepends: 0,
            asn: None,
            community: None,
            local_preference: None,
        }
    }

    fn journal(lines: impl IntoIterator<Item = JournalEntry>) -> Journal {
        let mut journal = Journal::default();
        lines.into_iter().for_each(|l| journal.record(&l));
        journal
    }

    #[test]
    fn new_routes_come_before_withdrawals() {
        let (a, b) = (announcement("10.0.0.0/8", Some(0)), announcement("11.0.0.0/8", Some(0)));
        let changed = announcement("10.0.0.0/8", Some(100));
        let done = |a: &Announcement| JournalEntry::Done(Step::Announce(a.clone()));
        assert_eq!(steps(&journal([done(&a)]), from_ref(&a)), []);
        assert_eq!(
            steps(&journal([done(&a), done(&b)]), from_ref(&changed)),
            [Step::Announce(changed), Step::Withdraw(b.clone())]
        );
        // A step that was begun and not confirmed is repeated, or withdrawn.
        let begun = journal([JournalEntry::Begun(a.clone())]);
        assert_eq!(steps(&begun, from_ref(&a)), [Step::Announce(a.clone())]);
        assert_eq!(steps(&begun, &[]), [Step::Withdraw(a.clone())]);
        let without_speaker = Announcement { speaker: None, ..a };
        assert_eq!(steps(&Journal::default(), &[without_speaker]), []);
    }

    #[test]
    fn steps_become_arguments_of_gobgp() {
        let joined = |step: Step| arguments(&step).unwrap().join(" ");
        let a = announcement("10.0.0.0/8", Some(100));
        assert_eq!(
            joined(Step::Announce(a.clone())),
            "-u 2001:db8::9 -p 50051 global rib add 10.0.0.0/8 origin igp med 100 -a ipv4"
        );
        assert_eq!(
            joined(Step::Withdraw(a)),
            "-u 2001:db8::9 -p 50051 global rib del 10.0.0.0/8 -a ipv4"
        );
        let longer = Announcement {
            prepends: 2,
            asn: Some(64500),
            community: Some("1:2:3".to_owned()),
            next_hop: Some("2001:db8::7".parse().unwrap()),
            local_preference: Some(200),
            ..announcement("2001:db8::/32", None)
        };
        assert_eq!(
            arguments(&Step::Announce(longer)).unwrap()[7..],
            [
                "2001:db8::/32",
                "origin",
                "igp",
                "nexthop",
                "2001:db8::7",
                "local-pref",
                "200",
                "aspath",
                "64500 64500",
                "large-community",
                "1:2:3",
                "-a",
                "ipv6"
            ]
        );
    }

    #[test]
    fn an_incomplete_last_line_is_ignored() {
        let (a, b) = (announcement("10.0.0.0/8", None), announcement("11.0.0.0/8", None));
        let lines = [
            JournalEntry::Begun(a.clone()),
            JournalEntry::Done(Step::Announce(a.clone())),
            JournalEntry::Begun(b),
            JournalEntry::Done(Step::Withdraw(a)),
        ];
        let text: String = lines.iter().map(JournalEntry::text).collect();
        let read = |text: &str| Journal::read("j".as_ref(), text).map_err(|e| e.to_string());
        assert_eq!(read(&text).unwrap(), journal(lines.clone()));
        for cut in 0..text.len() {
            let whole = text[..cut].matches('\n').count();
            assert_eq!(read(&text[..cut]).unwrap(), journal(lines[..whole].to_vec()));
        }
        let short = read(&text).unwrap().text();
        assert_eq!((short.lines().count(), read(&short)), (1, read(&text)));
        assert!(read("x\n").unwrap_err().starts_with("j:1: is not an entry of a journal"));
    }
}
