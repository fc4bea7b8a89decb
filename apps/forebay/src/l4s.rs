//! `forebay l4s`: whether L4S works on a path.

mod capture;

use std::io::{self, IsTerminal, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_cli::terminal::{Failure, fail, print, raised_by_signals};
use forebay_l4s_check::live::{self, PORT};
use forebay_l4s_check::{Options, Verdict};

use crate::cli::{L4sArgs, L4sCheckArgs, L4sCommand};

/// The highest rate that a check may reach, since it sends from one thread.
const MAX_MBPS: f64 = 1_000.0;

pub(crate) fn run(args: &L4sArgs) -> ExitCode {
    let result = match &args.command {
        L4sCommand::Check(args) => check(args),
        L4sCommand::Capture(args) => capture::run(args),
        L4sCommand::Reflect { listen } => reflect(*listen),
    };
    result.unwrap_or_else(|e| fail(e.as_ref(), 1))
}

/// Returns whether Ctrl-C or SIGTERM has asked for an end.
fn interrupted() -> Result<impl Fn() -> bool, Failure> {
    let raise = |flag: &Arc<AtomicBool>| flag.store(true, Ordering::Relaxed);
    let flag = raised_by_signals(raise)?;
    Ok(move || flag.load(Ordering::Relaxed))
}

fn reflect(listen: SocketAddr) -> Result<ExitCode, Failure> {
    let interrupted = interrupted()?;
    print(&format!("answers checks at {listen}\n"))?;
    live::reflect(listen, interrupted)
        .map_err(|e| format!("cannot answer checks at {listen}: {e}"))?;
    Ok(ExitCode::SUCCESS)
}

fn check(args: &L4sCheckArgs) -> Result<ExitCode, Failure> {
    let max_rate = args.max_rate.0;
    if !(1.0..=MAX_MBPS).contains(&max_rate.as_mbps_f64()) {
        return Ok(fail(&"--max-rate must be 1 Mbit/s to 1 Gbit/s", 2));
    }
    let address = match resolve(&args.host) {
        Ok(address) => address,
        Err(e) => return Ok(fail(&e, 2)),
    };
    let interrupted = interrupted()?;
    let options = Options { max_rate, seed: forebay_l4s_check::session()? };
    let shown = io::stderr().is_terminal();
    let progress = |share: f64| {
        if shown {
            let _ = write!(io::stderr(), "\rchecking {address}: {:3.0} % ", share * 100.0);
        }
    };
    let report = live::check(address, options, interrupted, progress)
        .map_err(|e| format!("cannot check the path to {address}: {e}"))?;
    if shown {
        let _ = write!(io::stderr(), "\r{:60}\r", "");
    }
    let Some(report) = report else { return Ok(ExitCode::from(130)) };
    let text = if args.json { serde_json::to_string_pretty(&report)? } else { report.to_string() };
    print(&(text + "\n"))?;
    Ok(ExitCode::from(u8::from(report.verdict != Verdict::Works)))
}

/// Returns the first address of `host`, which may have a port.
fn resolve(host: &str) -> Result<SocketAddr, String> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let found = match bare.parse() {
        Ok(ip) => return Ok(SocketAddr::new(ip, PORT)),
        Err(_) if host.contains(':') => host.to_socket_addrs(),
        Err(_) => (host, PORT).to_socket_addrs(),
    };
    let mut found = found.map_err(|e| format!("{host:?} is no host: {e}"))?;
    found.next().ok_or_else(|| format!("{host:?} has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_may_have_a_port() {
        for (host, address) in [
            ("192.0.2.1", "192.0.2.1:28317"),
            ("192.0.2.1:9", "192.0.2.1:9"),
            ("2001:db8::1", "[2001:db8::1]:28317"),
            ("[2001:db8::1]", "[2001:db8::1]:28317"),
            ("[2001:db8::1]:9", "[2001:db8::1]:9"),
        ] {
            assert_eq!(resolve(host), Ok(address.parse().expect("it is one")), "{host}");
        }
        assert!(resolve("192.0.2.1:port").is_err());
    }
}
