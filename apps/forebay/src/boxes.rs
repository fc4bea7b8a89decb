//! Commands that run the boxes, and the doctor.

use std::path::Path;
use std::process::ExitCode;

use forebay_box::config::{
    LinkConfig, ReceiveboxConfig, SendboxConfig, SiteConfig, accept_unresolved_names, generate_key,
};
use forebay_box::{Error, WireEnd, doctor, link, receivebox, sendbox};
use forebay_cli::terminal::{fail, print};
use forebay_config::Configuration;
use forebay_system::privileges;

use crate::cli::{LinkArgs, ReceiveboxArgs, SendboxArgs, SiteArgs, SiteCommand};
use crate::site;

pub(crate) fn sendbox(args: &SendboxArgs) -> ExitCode {
    privileges::protect();
    let paths = sendbox::LogPaths {
        packets: args.packet_log.clone(),
        ticks: args.tick_log.clone(),
        events: args.event_log.clone(),
        counters: args.counters.clone(),
    };
    accept_unresolved_names();
    let load = SendboxConfig::load(&args.config).map_err(Error::from);
    let load =
        load.and_then(|config| sendbox::run(config, &args.config, &paths, wire_end(args.unplug)));
    end(load)
}

pub(crate) fn site(args: &SiteArgs) -> ExitCode {
    privileges::protect();
    match (&args.command, &args.config) {
        (Some(SiteCommand::Init(args)), _) => site::init(args),
        (None, Some(file)) => {
            let paths = sendbox::LogPaths {
                ticks: args.tick_log.clone(),
                events: args.event_log.clone(),
                ..sendbox::LogPaths::default()
            };
            accept_unresolved_names();
            let load = SiteConfig::load(file).map_err(Error::from);
            end(load.and_then(|config| sendbox::run_site(config, file, &paths)))
        }
        (None, None) => fail(&"give --config FILE, or `init` to make the files of sites", 2),
    }
}

pub(crate) fn receivebox(args: &ReceiveboxArgs) -> ExitCode {
    privileges::protect();
    accept_unresolved_names();
    let load = ReceiveboxConfig::load(&args.config).map_err(Error::from);
    end(load.and_then(|config| receivebox::run(config, &args.config)))
}

/// Answers the questions of a box about host names, on standard input.
pub(crate) fn resolve_names() -> ExitCode {
    match forebay_box::answer_questions() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&e, 1),
    }
}

pub(crate) fn doctor(config: Option<&Path>, json: bool) -> ExitCode {
    let report = doctor::examine(config);
    let text = if json { format!("{}\n", serde_json::json!(report)) } else { report.to_string() };
    // The exit status says the verdict even if nobody reads the report.
    let _ = print(&text);
    if report.is_healthy() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(crate) fn link(args: &LinkArgs) -> ExitCode {
    privileges::protect();
    let paths = link::LogPaths {
        packets: args.packet_log.clone(),
        statistics: args.statistics.clone(),
        counters: args.counters.clone(),
    };
    let load = LinkConfig::load(&args.config).map_err(Error::from);
    end(load.and_then(|config| link::run(config, &paths, wire_end(args.unplug))))
}

pub(crate) fn detach(interfaces: &[String]) -> ExitCode {
    let outcomes = interfaces.iter().map(|name| match forebay_box::detach(name) {
        Ok(was_there) => {
            let what = if was_there { "detached the program" } else { "no program of a box" };
            // The exit status says whether it worked.
            let _ = print(&format!("{name}: {what}\n"));
            Ok(())
        }
        Err(e) => Err(e),
    });
    // One interface that fails does not keep the others from being tried.
    let outcomes: Vec<_> = outcomes.collect();
    end(outcomes.into_iter().collect())
}

pub(crate) fn keygen(file: &Path) -> ExitCode {
    privileges::protect();
    match generate_key(&[file]) {
        Ok(fingerprint) => {
            // The key is there, whether or not this can be printed.
            let _ = print(&format!(
                "{}: new key written, with the fingerprint {fingerprint}\ncopy it to the other box \
                 securely, keep it readable by root only, and compare the fingerprints that \
                 `forebay check` prints at both ends\n",
                file.display()
            ));
            ExitCode::SUCCESS
        }
        Err(e) => fail(&std::io::Error::new(e.kind(), format!("{}: {e}", file.display())), 2),
    }
}

fn wire_end(unplug: bool) -> WireEnd {
    if unplug { WireEnd::Unplugged } else { WireEnd::Forwarding }
}

fn end(result: Result<(), Error>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&e, e.exit_code()),
    }
}
