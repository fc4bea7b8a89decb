//! Arguments of the boxes.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct SendboxArgs {
    /// The configuration of the sendbox, in TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Record each packet that passes the bundles' queues, in a binary file.
    #[arg(long, value_name = "FILE")]
    pub(crate) packet_log: Option<PathBuf>,
    /// Record each control tick of each bundle (every 10 ms), as JSON lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) tick_log: Option<PathBuf>,
    /// Record each decision of the controllers with its reason, as JSON lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) event_log: Option<PathBuf>,
    /// Write the packet counters when the sendbox stops, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) counters: Option<PathBuf>,
    /// In user space, take the forwarding programs away at an orderly end: no frame passes then.
    #[arg(long)]
    pub(crate) unplug: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReceiveboxArgs {
    /// The configuration of the receivebox, in TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SiteArgs {
    /// The configuration of the site, in TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Record each control tick of each peer (every 10 ms), as JSON lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) tick_log: Option<PathBuf>,
    /// Record each decision of the controllers with its reason, as JSON lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) event_log: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Option<SiteCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SiteCommand {
    /// Write the files and keys of two or more sites, each with all others as peers.
    Init(SiteInitArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SiteInitArgs {
    /// A site: its name, its interface towards the network, the address at which other sites reach
    /// it, and the prefixes of its hosts. Give it once for each site; without it the command asks.
    #[arg(long = "site", num_args = 4, value_names = ["NAME", "INTERFACE", "ADDRESS", "PREFIX,..."])]
    pub(crate) sites: Vec<String>,
    /// The directory for a directory for each site.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) directory: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Show only the bundle or peer of this name.
    pub(crate) name: Option<String>,
    /// Print all figures as JSON, on one line.
    #[arg(long)]
    pub(crate) json: bool,
    /// Repeat it every second.
    #[arg(long)]
    pub(crate) watch: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReloadArgs {
    /// Ask only the box that has this process number.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) process: Option<u32>,
    /// Print what changed as JSON, on one line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpgradeArgs {
    /// The process that another one replaces. It may be left out if only one box runs.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) process: Option<u32>,
    /// Print what was taken over as JSON, on one line.
    #[arg(long)]
    pub(crate) json: bool,
    /// The command that ends the process and starts the new one, if that is not systemd.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[cfg(feature = "exporter")]
#[derive(Debug, Args)]
pub(crate) struct ExporterArgs {
    /// The address and port at which it listens.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9477")]
    pub(crate) listen: std::net::SocketAddr,
    /// A name by which clients may call the exporter, besides its addresses and `localhost`; give
    /// it again for another one.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<forebay_web::HostName>,
}

/// The file of the history that the unit keeps.
#[cfg(feature = "watch")]
const HISTORY: &str = "/var/lib/forebay/history.db";

#[cfg(feature = "watch")]
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// The address and port of the page; give it again for another one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9478")]
    pub(crate) listen: Vec<std::net::SocketAddr>,
    /// A name by which browsers may call the page without TLS, besides its addresses and
    /// `localhost`; give it again for another one.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<forebay_web::HostName>,
    /// The file of the history.
    #[arg(long, value_name = "FILE", default_value = HISTORY)]
    pub(crate) history: PathBuf,
    /// The hash of the token that readers of the page have to show: `sha256:` and 64 digits. An
    /// address that others can reach needs one.
    #[arg(long, value_name = "HASH")]
    pub(crate) token_hash: Option<forebay_web::token::Hash>,
    /// The certificate of the page with its chain, in PEM.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) certificate: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
    /// Let the page and its token cross a network without TLS.
    #[arg(long)]
    pub(crate) cleartext: bool,
}

#[cfg(feature = "watch")]
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The name of the peer or bundle.
    pub(crate) name: String,
    /// The file of the history.
    #[arg(long, value_name = "FILE", default_value = HISTORY)]
    pub(crate) history: PathBuf,
}

#[cfg(feature = "watch")]
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Show only the events of this bundle or peer, and of the boxes.
    pub(crate) name: Option<String>,
    /// How far back: `10min`, `1h`, `2d`.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = past)]
    pub(crate) since: std::time::Duration,
    /// Show also each change of the minimum round-trip time and of the epoch size, and each test.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print each event as JSON, on a line of its own.
    #[arg(long)]
    pub(crate) json: bool,
    /// The file of the history.
    #[arg(long, value_name = "FILE", default_value = HISTORY)]
    pub(crate) history: PathBuf,
}

/// Reads a span of the past: a whole number with `s`, `min`, `h` or `d`.
#[cfg(feature = "watch")]
fn past(text: &str) -> Result<std::time::Duration, String> {
    let bad = || "write a whole number and a unit, such as 10min (s, min, h, d)".to_owned();
    let end = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
    let (number, unit) = (text[..end].parse::<u64>(), text[end..].trim());
    let seconds = match unit {
        "s" => 1,
        "min" | "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(bad()),
    };
    let all = number.ok().and_then(|number| number.checked_mul(seconds)).ok_or_else(bad)?;
    Ok(std::time::Duration::from_secs(all))
}

#[derive(Debug, Args)]
pub(crate) struct LinkArgs {
    /// The configuration of the link, in TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Record each packet that passes the queues, in a binary file.
    #[arg(long, value_name = "FILE")]
    pub(crate) packet_log: Option<PathBuf>,
    /// Write the queues' statistics every second and at the end, as JSON lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) statistics: Option<PathBuf>,
    /// Write the packet counters when the link stops, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) counters: Option<PathBuf>,
    /// Take the forwarding programs away at an orderly end: no frame passes then.
    #[arg(long)]
    pub(crate) unplug: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VhostArgs {
    /// The configuration of the back end, in TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Print the counters every second, as JSON lines. They are always printed at the end.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(all(test, feature = "watch"))]
mod tests {
    use super::*;

    #[test]
    fn spans_of_the_past_have_units() {
        let seconds = |text| past(text).map(|span| span.as_secs());
        assert_eq!(seconds("90s"), Ok(90));
        assert_eq!(seconds("10min"), Ok(600));
        assert_eq!(seconds("1 h"), Ok(3_600));
        assert_eq!(seconds("2d"), Ok(172_800));
        for bad in ["", "1", "h", "-1h", "1.5h", "1y", "99999999999999999999d", "9999999999999999d"]
        {
            assert!(seconds(bad).is_err_and(|e| e.contains("10min")), "{bad}");
        }
    }
}
