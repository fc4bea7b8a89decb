//! `forebay site init`: writes the files and keys of sites.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, BufRead, IsTerminal, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::ExitCode;

use forebay_box::config::generate_key;
use forebay_cli::terminal::{Failure, fail, print};
use forebay_config::{Prefix, RemoteAddress};

use crate::cli::SiteInitArgs;

/// The most sites of one command: each gets a key for every other one.
const MAX_SITES: usize = 64;
/// The port of a site if its address has none.
const PORT: u16 = 28316;

pub(crate) fn init(args: &SiteInitArgs) -> ExitCode {
    match sites(args).and_then(|sites| write(&args.directory, &sites)) {
        Ok(text) => {
            // The files are there, whether or not this can be printed.
            let _ = print(&text);
            ExitCode::SUCCESS
        }
        Err(e) => fail(&e, 2),
    }
}

/// A site as its operator describes it.
#[derive(Debug, PartialEq, Eq)]
struct Site {
    name: String,
    interface: String,
    address: String,
    prefixes: Vec<Prefix>,
}

impl Site {
    fn read(words: &[String]) -> Result<Self, Failure> {
        let [name, interface, address, prefixes] = words else {
            return Err("a site needs a name, an interface, an address and prefixes".into());
        };
        // The name becomes a directory and the name of a key file.
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
        if name.is_empty() || name.len() > 32 || !name.bytes().all(fits) {
            return Err(format!("\"{name}\" is no name: use letters, digits, - and _").into());
        }
        if interface.is_empty() || interface.len() > 15 || interface.contains(['/', '"', ' ']) {
            return Err(format!("\"{interface}\" is no name of an interface").into());
        }
        let address = match address.parse::<std::net::IpAddr>() {
            Ok(ip) => SocketAddr::new(ip, PORT).to_string(),
            Err(_) if !address.contains(':') => format!("{address}:{PORT}"),
            Err(_) => address.clone(),
        };
        address.parse::<RemoteAddress>()?;
        let prefixes = prefixes.split([',', ' ']).filter(|text| !text.is_empty());
        let prefixes = prefixes.map(str::parse).collect::<Result<Vec<Prefix>, _>>()?;
        if prefixes.is_empty() {
            return Err(format!("{name}: name at least one prefix of its hosts").into());
        }
        Ok(Self { name: name.clone(), interface: interface.clone(), address, prefixes })
    }

    /// Returns the address without a name, if it is one.
    fn socket(&self) -> Option<SocketAddr> {
        self.address.parse().ok()
    }

    /// Returns the file of this site with `others` as its peers.
    fn file(&self, others: &[&Self]) -> String {
        let quoted = |prefixes: &[Prefix]| {
            let all: Vec<_> = prefixes.iter().map(|p| format!("\"{p}\"")).collect();
            all.join(", ")
        };
        // A name is resolved at the peers only. The site has to hear the addresses of all others.
        let listen = match self.socket() {
            Some(_) => self.address.clone(),
            None => {
                let port = self.address.rsplit(':').next().unwrap_or_default();
                let is_v6 = others.iter().filter_map(|o| o.socket()).any(|a| a.is_ipv6());
                format!("{}:{port}", if is_v6 { "[::]" } else { "0.0.0.0" })
            }
        };
        let mut text = format!(
            "# The site {}. Run it with: sudo forebay site --config site.toml\n[site]\n\
             interface = \"{}\"\nlisten = \"{listen}\"\nprefixes = [{}]\n",
            self.name,
            self.interface,
            quoted(&self.prefixes)
        );
        for other in others {
            text += &format!(
                "\n[[peer]]\nname = \"{0}\"\naddress = \"{1}\"\nprefixes = [{2}]\nkey_file = \
                 \"{0}.key\"\n",
                other.name,
                other.address,
                quoted(&other.prefixes)
            );
        }
        text
    }
}

/// Returns the sites of the arguments, or asks for them.
fn sites(args: &SiteInitArgs) -> Result<Vec<Site>, Failure> {
    let words = if args.sites.is_empty() { ask()? } else { args.sites.clone() };
    let sites = words.chunks(4).map(Site::read).collect::<Result<Vec<_>, _>>()?;
    for (index, site) in sites.iter().enumerate() {
        for other in &sites[..index] {
            let same = |what: &str| format!("{} and {} have one {what}", other.name, site.name);
            if other.name == site.name {
                return Err(same("name").into());
            }
            if other.address == site.address {
                return Err(same("address").into());
            }
            if let (Some(one), Some(two)) = (other.socket(), site.socket())
                && one.is_ipv4() != two.is_ipv4()
            {
                return Err(format!(
                    "{} has the address {one} and {} has {two}, which cannot reach each other: give \
                     all sites addresses of one IP version, or host names",
                    other.name, site.name
                )
                .into());
            }
            if other.prefixes.iter().any(|prefix| site.prefixes.contains(prefix)) {
                return Err(same("prefix").into());
            }
        }
    }
    match sites.len() {
        2..=MAX_SITES => Ok(sites),
        n => Err(format!("{n} sites: from 2 to {MAX_SITES} are possible").into()),
    }
}

/// Asks for two sites on the terminal.
fn ask() -> Result<Vec<String>, Failure> {
    if !io::stdin().is_terminal() {
        return Err("name the sites: --site NAME INTERFACE ADDRESS PREFIX,... for each".into());
    }
    let mut words = Vec::new();
    for site in ["first", "second"] {
        for question in [
            format!("Name of the {site} site (such as head): "),
            "  its interface towards the network (such as wan0): ".to_owned(),
            "  the address at which the other site reaches it (such as 192.0.2.10): ".to_owned(),
            "  the prefixes of its hosts (such as 10.1.0.0/16, fd00:1::/32): ".to_owned(),
        ] {
            print(&question)?;
            let mut answer = String::new();
            if io::stdin().lock().read_line(&mut answer)? == 0 {
                return Err("there was no answer".into());
            }
            words.push(answer.trim().to_owned());
        }
    }
    Ok(words)
}

/// Writes a directory for each site, and returns what to do with them.
fn write(directory: &Path, sites: &[Site]) -> Result<String, Failure> {
    for site in sites {
        let path = directory.join(&site.name);
        // Keys will be in it.
        fs::create_dir_all(directory)
            .and_then(|()| DirBuilder::new().mode(0o700).create(&path))
            .map_err(|e| format!("cannot make {}: {e}", path.display()))?;
    }
    let (mut text, mut keys) = (String::new(), String::new());
    for (index, site) in sites.iter().enumerate() {
        for other in &sites[..index] {
            let here = directory.join(&site.name).join(format!("{}.key", other.name));
            let there = directory.join(&other.name).join(format!("{}.key", site.name));
            let fingerprint = generate_key(&[&here, &there])
                .map_err(|e| format!("cannot write {}: {e}", here.display()))?;
            keys += &format!(
                "fingerprint of the key of {} and {}: {fingerprint}\n",
                other.name, site.name
            );
        }
        let others: Vec<_> = sites.iter().filter(|other| other.name != site.name).collect();
        let file = directory.join(&site.name).join("site.toml");
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&file)
            .and_then(|mut open| open.write_all(site.file(&others).as_bytes()))
            .map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        let path = directory.join(&site.name);
        text += &format!(
            "{0}: copy it to {1} securely, for example with `scp -rp`, remove it here with `rm -r \
             {0}`, and run there: sudo forebay site --config site.toml\n",
            path.display(),
            site.name
        );
    }
    text += "a key lets its holder pose as a site, so keep no copy here; `forebay check` and \
             `forebay status` print fingerprints, which are the same at both ends:\n";
    Ok(text + &keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split('|').map(str::to_owned).collect()
    }

    fn args(all: &[&str]) -> SiteInitArgs {
        let sites = all.iter().flat_map(|text| words(text)).collect();
        SiteInitArgs { sites, directory: ".".into() }
    }

    const HEAD: &str = "head|wan0|192.0.2.10|10.1.0.0/16,fd00:1::/32";
    const BRANCH: &str = "branch|eth1|branch.example.org:4000|10.2.0.0/16";

    #[test]
    fn each_site_has_the_others_as_peers() {
        let sites = sites(&args(&[HEAD, BRANCH])).unwrap();
        assert_eq!(
            sites[0].file(&[&sites[1]]),
            "# The site head. Run it with: sudo forebay site --config site.toml\n[site]\n\
             interface = \"wan0\"\nlisten = \"192.0.2.10:28316\"\n\
             prefixes = [\"10.1.0.0/16\", \"fd00:1::/32\"]\n\n[[peer]]\nname = \"branch\"\n\
             address = \"branch.example.org:4000\"\nprefixes = [\"10.2.0.0/16\"]\n\
             key_file = \"branch.key\"\n"
        );
        let branch = sites[1].file(&[&sites[0]]);
        assert!(branch.contains("listen = \"0.0.0.0:4000\""), "{branch}");
        // A site with a name hears a peer with an IPv6 address.
        let v6 = "head|wan0|2001:db8::1|10.1.0.0/16";
        let sites = super::sites(&args(&[v6, BRANCH])).unwrap();
        let branch = sites[1].file(&[&sites[0]]);
        assert!(branch.contains("listen = \"[::]:4000\""), "{branch}");
    }

    #[test]
    fn what_makes_no_sites_is_refused() {
        for (all, expected) in [
            (vec![HEAD], "1 sites: from 2 to 64"),
            (vec![HEAD, HEAD], "head and head have one name"),
            (vec![HEAD, "b|eth0|192.0.2.10|10.2.0.0/16"], "head and b have one address"),
            (vec![HEAD, "b|eth0|192.0.2.11|10.1.0.0/16"], "head and b have one prefix"),
            (vec![HEAD, "../b|eth0|192.0.2.11|10.2.0.0/16"], "\"../b\" is no name"),
            (vec![HEAD, "b|eth0|192.0.2.11|10.2.0.1/16"], "\"10.2.0.1/16\" has bits beyond"),
            (vec![HEAD, "b|eth0|192.0.2.11:0|10.2.0.0/16"], "\"192.0.2.11:0\" has no port"),
            (
                vec![HEAD, "b|eth0|2001:db8::2|10.2.0.0/16"],
                "head has the address 192.0.2.10:28316 and b has [2001:db8::2]:28316, which cannot",
            ),
            (vec![HEAD, "b|eth0|192.0.2.11|,"], "b: name at least one prefix"),
        ] {
            let said = sites(&args(&all)).unwrap_err().to_string();
            assert!(said.starts_with(expected), "{said}");
        }
    }

    #[test]
    fn both_ends_get_one_key_and_nothing_is_replaced() {
        let directory = std::env::temp_dir().join(format!("fb-site-{}", std::process::id()));
        let sites = sites(&args(&[HEAD, BRANCH])).unwrap();
        let text = write(&directory, &sites).unwrap();
        let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
        assert_eq!(read("head/branch.key"), read("branch/head.key"));
        assert!(read("head/site.toml").contains("[[peer]]"));
        let key = read("head/branch.key");
        let fingerprint = key.parse::<forebay_box::config::Key>().unwrap().fingerprint();
        let told = format!("fingerprint of the key of head and branch: {fingerprint}\n");
        assert!(text.ends_with(&told) && text.contains("remove it here"), "{text}");
        assert!(!text.contains(key.trim().rsplit(' ').next().unwrap()), "{text}");
        let mode = |name: &str| {
            let there = fs::metadata(directory.join(name)).unwrap();
            std::os::unix::fs::MetadataExt::mode(&there) & 0o777
        };
        let modes = ["head", "head/branch.key", "head/site.toml"].map(mode);
        assert_eq!(modes, [0o700, 0o600, 0o600]);
        let again = write(&directory, &sites).unwrap_err().to_string();
        fs::remove_dir_all(&directory).unwrap();
        assert!(again.contains("File exists"), "{again}");
    }
}
