//! `forebay watch`, `explain`, `events` and `top`: the history of boxes, and a live view.

use std::process::ExitCode;

use forebay_cli::terminal::{Failure, fail, print};
use forebay_picture::date::second;
use forebay_status::sentence;
use forebay_system::privileges;
use forebay_system::text::escaped;
use forebay_watch::store::{Store, StoreError};
use forebay_watch::{LogEvent, Options, now};
use forebay_web::tls;

use crate::cli::{EventsArgs, ExplainArgs, WatchArgs};
use crate::service;

/// The width of the text.
const WIDTH: usize = 80;

pub(crate) fn watch(args: &WatchArgs) -> ExitCode {
    privileges::protect();
    let files = args.certificate.clone().zip(args.key.clone());
    let options = Options {
        listen: args.listen.clone(),
        history: args.history.clone(),
        token: args.token_hash,
        tls: files.map(|(certificate, key)| tls::Files { certificate, key, clients: None }),
        hosts: args.host.clone(),
        cleartext: args.cleartext,
    };
    let stop = match service::stop() {
        Ok(stop) => stop,
        Err(e) => return fail(&e, 1),
    };
    match forebay_watch::run(&options, &stop, service::ready) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&e, e.exit_code()),
    }
}

pub(crate) fn explain(args: &ExplainArgs) -> ExitCode {
    let tell = || -> Result<String, Failure> {
        let store = Store::read(&args.history)?;
        let Some(story) = forebay_watch::explain(&store, &args.name, now() / 1000)? else {
            let known: Vec<_> =
                store.series()?.into_iter().map(|(series, _)| series.name).collect();
            return Err(unknown(&args.name, known).into());
        };
        Ok(story.iter().map(|line| wrapped(line)).collect())
    };
    finish(tell())
}

/// Says that there is no such peer, and which there are.
fn unknown(name: &str, mut known: Vec<String>) -> String {
    known.sort();
    known.dedup();
    match known.as_slice() {
        [] => format!("the history has no peer or bundle \"{name}\", and no other"),
        known => format!("the history has no peer or bundle \"{name}\", only {}", known.join(", ")),
    }
}

pub(crate) fn events(args: &EventsArgs) -> ExitCode {
    let list = || -> Result<String, Failure> {
        let store = Store::read(&args.history)?;
        let span = u64::try_from(args.since.as_millis()).unwrap_or(u64::MAX);
        let since = now().saturating_sub(span);
        let mut events = store.events(since, args.all, u64::MAX)?;
        if let Some(name) = &args.name {
            events.retain(|event| event.peer == *name || event.peer.is_empty());
        }
        if args.json {
            let lines = events.iter().map(|event| Ok(serde_json::to_string(event)? + "\n"));
            return lines.collect::<Result<String, serde_json::Error>>().map_err(Failure::from);
        }
        let mut text = begin(&store, since)?;
        text.extend(events.iter().map(|event| wrapped(&line(event))));
        if text.is_empty() {
            text = "nothing happened\n".to_owned();
        }
        Ok(text)
    };
    finish(list())
}

/// Says so if earlier events of the time that was asked for had to make room.
fn begin(store: &Store, since: u64) -> Result<String, StoreError> {
    let begin = store.events_begin()?.filter(|begin| *begin > since);
    Ok(begin.map_or_else(String::new, |begin| {
        format!("the log begins at {}: earlier events had to make room\n", second(begin))
    }))
}

fn line(event: &LogEvent) -> String {
    let about = match event.direction {
        Some(direction) => format!("{direction} {}", event.peer),
        None => event.place.clone(),
    };
    format!("{} {about}: {}", second(event.at_ms), sentence(&event.text))
}

pub(crate) fn top() -> ExitCode {
    match forebay_top::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&format!("the view cannot be shown: {e}"), 1),
    }
}

fn finish(text: Result<String, Failure>) -> ExitCode {
    match text {
        Ok(text) => {
            // A reader that has ended wants no more.
            let _ = print(&text);
            ExitCode::SUCCESS
        }
        Err(e) => fail(&e, 1),
    }
}

/// Returns a text in lines of at most [`WIDTH`] columns; a heading has a line before it. No other
/// line begins within the text.
fn wrapped(text: &str) -> String {
    let text = &*escaped(text);
    if let Some(heading) = text.strip_prefix("# ") {
        return format!("\n{heading}\n");
    }
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            out.push_str("\n  ");
            column = 2;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_into_80_columns() {
        let text = wrapped(&"word ".repeat(40));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!(text.lines().count(), 3);
        assert_eq!(wrapped("# To branch"), "\nTo branch\n");
        assert_eq!(wrapped("# a\n\x1b[2J# b"), "\na\\n\\u001b[2J# b\n");
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_there_are() {
        let known = vec!["b".to_owned(), "a".to_owned(), "b".to_owned()];
        assert!(unknown("c", known).ends_with("\"c\", only a, b"));
    }
}
