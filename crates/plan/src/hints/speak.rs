//! What a BGP speaker has to be told so that it announces what hints ask for and nothing older.
//!
//! No part of this talks to anybody: [`steps`] compares what was announced with what is wanted, [`arguments`] writes a
//! step down as GoBGP's command takes it, and [`Journal`] remembers what may have been announced, so that it can be taken
//! back after any crash.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use forebay_config::ConfigError;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::hints::bgp::Announcement;

/// One thing to tell a speaker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Announce it, or announce it as it is now.
    Announce(Announcement),
    /// Announce it no more.
    Withdraw(Announcement),
}

/// What an announcement replaces: the same prefix, of the same speaker, in the same session.
type Key = (Option<String>, IpAddr, IpNet);

fn key(announcement: &Announcement) -> Key {
    (announcement.speaker.clone(), announcement.peer, announcement.prefix)
}

/// The steps from what `journal` says to what is `wanted`; announcements without a speaker are left out. New ones come
/// first, so that traffic has somewhere to go before what it follows now is taken away. What was begun and perhaps not
/// done is done again.
pub fn steps(journal: &Journal, wanted: &[Announcement]) -> Vec<Step> {
    let spoken = wanted.iter().filter(|a| a.speaker.is_some());
    let new: BTreeMap<Key, &Announcement> = spoken.map(|a| (key(a), a)).collect();
    let done = |key: &Key, a: &Announcement| {
        journal.0.get(key).is_some_and(|(old, sure)| *sure && old == a)
    };
    let fresh = new.iter().filter(|(key, a)| !done(key, a));
    let gone = journal.0.iter().filter(|(key, _)| !new.contains_key(key));
    fresh
        .map(|(_, a)| Step::Announce((*a).clone()))
        .chain(gone.map(|(_, (a, _))| Step::Withdraw(a.clone())))
        .collect()
}

/// A step as arguments of GoBGP's command line; `None` if its announcement has no speaker.
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
        // As what routers announce of their own: a worse origin would decide before the MED does.
        with("origin", "igp".to_owned());
        if let Some(hop) = a.next_hop {
            with("nexthop", hop.to_string());
        }
        if let Some(med) = a.med {
            with("med", med.to_string());
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
pub enum Line {
    /// It will be announced now. This is written, and on the disk, before the speaker is asked.
    Begun(Announcement),
    /// The speaker has done it.
    Done(Step),
}

/// What may have been announced, and whether that is sure: a line of JSON each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal(BTreeMap<Key, (Announcement, bool)>);

impl Journal {
    /// The journal in a text. Its last line may be torn: what it was about was not done yet.
    ///
    /// # Errors
    /// If another line is none, by its number.
    pub fn read(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let mut journal = Self::default();
        for (line, at) in text.split_inclusive('\n').zip(1..) {
            let Some(whole) = line.strip_suffix('\n') else { break };
            let line = serde_json::from_str(whole).map_err(|e| ConfigError {
                file: file.to_owned(),
                line: Some(at),
                key: String::new(),
                message: format!("is no line of a journal of announcements: {e}"),
            })?;
            journal.note(&line);
        }
        Ok(journal)
    }

    /// Takes note of a line.
    pub fn note(&mut self, line: &Line) {
        match line {
            Line::Begun(a) => drop(self.0.insert(key(a), (a.clone(), false))),
            Line::Done(Step::Announce(a)) => drop(self.0.insert(key(a), (a.clone(), true))),
            Line::Done(Step::Withdraw(a)) => drop(self.0.remove(&key(a))),
        }
    }

    /// How many routes may be announced.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing may be announced.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The journal as a text that is no longer than it must be.
    pub fn text(&self) -> String {
        let line = |(a, sure): &(Announcement, bool)| match sure {
            true => Line::Done(Step::Announce(a.clone())).text(),
            false => Line::Begun(a.clone()).text(),
        };
        self.0.values().map(line).collect()
    }
}

impl Line {
    /// It as a line of text.
    pub fn text(&self) -> String {
        // There is nothing in it that JSON has no words for.
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
        }
    }

    fn journal(lines: impl IntoIterator<Item = Line>) -> Journal {
        let mut journal = Journal::default();
        lines.into_iter().for_each(|l| journal.note(&l));
        journal
    }

    #[test]
    fn what_is_new_comes_before_what_goes() {
        let (a, b) = (announcement("10.0.0.0/8", Some(0)), announcement("11.0.0.0/8", Some(0)));
        let changed = announcement("10.0.0.0/8", Some(100));
        let done = |a: &Announcement| Line::Done(Step::Announce(a.clone()));
        assert_eq!(steps(&journal([done(&a)]), from_ref(&a)), []);
        assert_eq!(
            steps(&journal([done(&a), done(&b)]), from_ref(&changed)),
            [Step::Announce(changed), Step::Withdraw(b.clone())]
        );
        // Begun and perhaps not done: done again, or taken back.
        let begun = journal([Line::Begun(a.clone())]);
        assert_eq!(steps(&begun, from_ref(&a)), [Step::Announce(a.clone())]);
        assert_eq!(steps(&begun, &[]), [Step::Withdraw(a.clone())]);
        let silent = Announcement { speaker: None, ..a };
        assert_eq!(steps(&Journal::default(), &[silent]), []);
    }

    #[test]
    fn steps_in_the_words_of_gobgp() {
        let words = |step: Step| arguments(&step).unwrap().join(" ");
        let a = announcement("10.0.0.0/8", Some(100));
        assert_eq!(
            words(Step::Announce(a.clone())),
            "-u 2001:db8::9 -p 50051 global rib add 10.0.0.0/8 origin igp med 100 -a ipv4"
        );
        assert_eq!(
            words(Step::Withdraw(a)),
            "-u 2001:db8::9 -p 50051 global rib del 10.0.0.0/8 -a ipv4"
        );
        let longer = Announcement {
            prepends: 2,
            asn: Some(64500),
            community: Some("1:2:3".to_owned()),
            next_hop: Some("2001:db8::7".parse().unwrap()),
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
    fn a_journal_survives_a_torn_line() {
        let (a, b) = (announcement("10.0.0.0/8", None), announcement("11.0.0.0/8", None));
        let lines = [
            Line::Begun(a.clone()),
            Line::Done(Step::Announce(a.clone())),
            Line::Begun(b),
            Line::Done(Step::Withdraw(a)),
        ];
        let text: String = lines.iter().map(Line::text).collect();
        let read = |text: &str| Journal::read("j".as_ref(), text).map_err(|e| e.to_string());
        assert_eq!(read(&text).unwrap(), journal(lines.clone()));
        for cut in 0..text.len() {
            let whole = text[..cut].matches('\n').count();
            assert_eq!(read(&text[..cut]).unwrap(), journal(lines[..whole].to_vec()));
        }
        let short = read(&text).unwrap().text();
        assert_eq!((short.lines().count(), read(&short)), (1, read(&text)));
        assert!(read("x\n").unwrap_err().starts_with("j:1: is no line of a journal"));
    }
}
