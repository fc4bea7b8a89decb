//! `forebay check`: recognises the kind of a configuration file and checks it.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use forebay_box::config::{
    Dataplane, Key, LinkConfig, Method, ReceiveboxConfig, SendboxConfig, SiteConfig, effective,
};
use forebay_box::{Error, sendbox};
use forebay_cli::programs::LAB;
use forebay_cli::terminal::{fail, print, warn};
use forebay_config::{Configuration, load};
use forebay_tc::Features;
use forebay_vhost::VhostConfig;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Top-level tables, by which the kinds of files are recognised.
#[derive(Deserialize)]
struct Outline {
    site: Option<IgnoredAny>,
    receivebox: Option<IgnoredAny>,
    link: Option<IgnoredAny>,
    vhost: Option<IgnoredAny>,
    path: Option<IgnoredAny>,
    arm: Option<IgnoredAny>,
}

pub(crate) fn check(file: &Path, show: bool) -> ExitCode {
    if show {
        return match queues(file) {
            Ok(tree) => {
                let _ = print(&tree);
                ExitCode::SUCCESS
            }
            Err(e) => fail(&e, e.exit_code()),
        };
    }
    match describe(file) {
        // The program that knows experiments checks them.
        Ok(None) => {
            let missing = LAB.become_it("forebay", [OsStr::new("check"), file.as_os_str()]);
            fail(&format!("{}: is an experiment: {missing}", file.display()), 2)
        }
        Ok(Some(what)) => {
            // The exit status says it too.
            let _ = print(&format!("{}: valid {what}\n", file.display()));
            ExitCode::SUCCESS
        }
        Err(e) => fail(&e, e.exit_code()),
    }
}

/// The tree of kernel queues that the sendbox of this file would set up.
fn queues(file: &Path) -> Result<String, Error> {
    let config = SendboxConfig::load(file)?;
    let features = Features::probe()?;
    Ok(sendbox::plan(&config.bundles, config.limit, &features)?.to_string())
}

/// Describes a valid file; `None` is an experiment.
fn describe(file: &Path) -> Result<Option<String>, Error> {
    let (outline, _) = load::<Outline>(file)?;
    if outline.path.is_some() || outline.arm.is_some() {
        return Ok(None);
    }
    configuration(&outline, file).map(Some)
}

/// Describes the valid file of a box.
fn configuration(outline: &Outline, file: &Path) -> Result<String, Error> {
    if outline.site.is_some() {
        let config = SiteConfig::load(file)?;
        let peers = count(config.bundles.len(), "bundle");
        let what = format!("site that sends {peers} and receives {}", config.peers.len());
        let config = config.into();
        return Ok(with_kernel_queues(&config, what)? + &shares(&config) + &keys_of(&config));
    }
    if outline.receivebox.is_some() {
        let config = ReceiveboxConfig::load(file)?;
        for warning in config.warnings() {
            warn(format_args!("{}: warning: {warning}", file.display()));
        }
        let keys = keys(config.peers.iter().map(|peer| (&*peer.name, &peer.key)));
        return Ok(format!("receivebox with {}{keys}", count(config.peers.len(), "bundle")));
    }
    if outline.link.is_some() {
        let config = LinkConfig::load(file)?;
        return Ok(format!("link; {}", at_death(config.ports.method)));
    }
    if outline.vhost.is_some() {
        let config = VhostConfig::load(file)?;
        let machines = count(config.vms.len(), "virtual machine");
        return Ok(format!("vhost-user back end for {machines}"));
    }
    let config = SendboxConfig::load(file)?;
    let what = format!("sendbox with {}", count(config.bundles.len(), "bundle"));
    if let Dataplane::User(ports) = &config.dataplane {
        let death = at_death(ports.method);
        return Ok(format!("{what}; {death}{}{}", shares(&config), keys_of(&config)));
    }
    Ok(with_kernel_queues(&config, what)? + &shares(&config) + &keys_of(&config))
}

/// The lines with the fingerprints of the keys of a sendbox.
fn keys_of(config: &SendboxConfig) -> String {
    keys(config.bundles.iter().map(|bundle| (&*bundle.name, &bundle.key)))
}

/// The lines with the fingerprints of keys, which are the same at both ends.
fn keys<'a>(all: impl Iterator<Item = (&'a str, &'a Key)>) -> String {
    let mut lines = "\nfingerprints of keys, the same at both ends:".to_owned();
    for (name, key) in all {
        let _ = write!(lines, "\n  {name}: {}", key.fingerprint());
    }
    lines
}

/// The lines that say what each bundle has of the common limit; none without one.
fn shares(config: &SendboxConfig) -> String {
    let Some(limit) = config.limit else { return String::new() };
    let each: Vec<_> = config.bundles.iter().map(|bundle| bundle.share).collect();
    let mut lines = format!("\nof {limit}, while all send:");
    for (bundle, rate) in config.bundles.iter().zip(effective(limit, &each)) {
        let _ = write!(lines, "\n  {}: {rate}", bundle.name);
    }
    lines
}

/// Checks that the kernel has the queues of `config`.
fn with_kernel_queues(config: &SendboxConfig, what: String) -> Result<String, Error> {
    let what = format!("{what}; if it dies, packets pass without a limit after half a second");
    match Features::probe() {
        Ok(features) => sendbox::plan(&config.bundles, config.limit, &features).map(|_| what),
        Err(forebay_tc::Error::Permission(_)) => {
            Ok(format!("{what}; run as root to check that the kernel has its qdiscs too"))
        }
        Err(e) => Err(e.into()),
    }
}

/// Says what happens to frames when a box that moves them dies.
fn at_death(method: Method) -> &'static str {
    match method {
        Method::Xdp => "if it dies, its XDP programs pass frames from port to port",
        Method::Packet => {
            "if it dies, its filters at tc's ingress pass frames from port to port, \
             and without those filters frames stop (`forebay doctor` says if the kernel has them)"
        }
        Method::Auto => {
            "if it dies, its XDP programs pass frames from port to port, \
             or with AF_PACKET its filters at tc's ingress (`forebay doctor` says which)"
        }
    }
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
