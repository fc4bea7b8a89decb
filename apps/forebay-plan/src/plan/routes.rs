//! `forebay plan routes`: the prefixes of users, from the network's routes.

use std::fmt::Write as _;
use std::io::BufReader;
use std::path::Path;

use forebay_cli::terminal::{Failure, note, print, write};
use forebay_config::ConfigError;
use forebay_plan::input::{self, MAX_FILE};
use forebay_plan::topology::RouterId;
use forebay_routes::mrt::{self, Summary};
use forebay_routes::table::{Limits, Table};

use super::topology;
use crate::cli::RoutesArgs;

/// The most octets that a compressed dump unpacks to: several times the largest collector's.
const MAX_DUMP: u64 = 16 << 30;
/// Next hops without a router that are named; the rest is counted.
const NAMED: usize = 5;

pub(super) fn run(args: &RoutesArgs) -> Result<(), Failure> {
    // The other inputs are read first, since a dump takes a while.
    let routers = match (&args.topology, &args.next_hops) {
        (Some(file), Some(hops)) => {
            let topology = topology(file)?;
            let next_hops =
                input::next_hops(hops, &forebay_input::text(hops, MAX_FILE)?, &topology)?;
            Some((topology, next_hops))
        }
        _ => None,
    };
    let mut table = Table::new(Limits::default());
    for file in &args.files {
        let summary = load(file, &mut table)?;
        tell(file, &summary);
    }
    if table.refused() > 0 {
        note(&format!("{} routes do not fit into the table and are missing", table.refused()));
    }
    let mut text = String::new();
    if let Some((topology, next_hops)) = &routers {
        let learned = input::learned(&table, next_hops);
        let name = |id: RouterId| topology.routers()[id.index()].name.as_str();
        text.push_str("prefix,router\n");
        for (prefix, users) in &learned.prefixes {
            let _ = writeln!(text, "{prefix},{}", name(users.router));
        }
        let mut unknown: Vec<_> = learned.unknown.iter().collect();
        unknown.sort_by_key(|(_, prefixes)| std::cmp::Reverse(**prefixes));
        for (hop, prefixes) in unknown.iter().take(NAMED) {
            let hop = hop.map_or("none".into(), |hop| hop.to_string());
            note(&format!("{prefixes} prefixes have the next hop {hop}, which is at no router"));
        }
        if unknown.len() > NAMED {
            note(&format!("and {} more next hops are at no router", unknown.len() - NAMED));
        }
        if learned.left_out > 0 {
            note(&format!("{} prefixes beyond a million are left out", learned.left_out));
        }
        if learned.prefixes.is_empty() {
            let message = "no prefix has a next hop of this file: add those that are named above";
            return Err(wrong(args.next_hops.as_deref().unwrap_or(Path::new("-")), message).into());
        }
    } else if let Some(origin) = args.origin {
        for prefix in table.originated_by(origin) {
            let _ = writeln!(text, "{prefix}");
        }
        if text.is_empty() {
            return Err(format!("no prefix of these tables is originated by AS {origin}").into());
        }
    }
    match &args.out {
        Some(out) => write(out, &text),
        None => Ok(print(&text)?),
    }
}

/// Says what a dump had.
fn tell(file: &Path, summary: &Summary) {
    let Summary { records, routes, malformed, cut, .. } = summary;
    let mut line = format!("{}: {routes} routes in {records} records", file.display());
    if let Some((record, cause)) = summary.first_malformed {
        let _ = write!(line, ", {malformed} of them damaged (record {record} {cause})");
    }
    if let Some(skipped) = summary.describe_skipped() {
        let _ = write!(line, "; skipped: {skipped}");
    }
    if *cut {
        line.push_str("; it ends within a record");
    }
    note(&line);
}

fn wrong(path: &Path, message: impl Into<String>) -> ConfigError {
    ConfigError { file: path.to_owned(), line: None, key: String::new(), message: message.into() }
}

fn load(path: &Path, table: &mut Table) -> Result<Summary, ConfigError> {
    let mut dump = forebay_input::open(path, MAX_DUMP)?;
    let read = BufReader::with_capacity(1 << 20, &mut dump);
    let summary = mrt::load(read, &path.display().to_string(), table);
    let summary = summary.map_err(|e| wrong(path, e.to_string()))?;
    Ok(Summary { cut: summary.cut || dump.is_cut(), ..summary })
}
