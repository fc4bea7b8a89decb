//! When, where and of what an outcome is.

use std::fs;
use std::time::SystemTime;

use sha2::{Digest, Sha256};

/// Returns this day in UTC, such as `2026-11-20`.
pub fn today() -> String {
    forebay_picture::date::day(SystemTime::now())
}

/// Describes this machine: its kernel's version and its number of cores.
pub fn machine() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release: Vec<&str> = release.trim().split(['.', '-']).take(2).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let s = if cores == 1 { "" } else { "s" };
    format!("Linux {}, {cores} core{s}", release.join("."))
}

/// Returns this machine's load average over one minute, as the kernel writes it.
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Returns a short hash of the text that says what is run, so that a page can tell that it changed.
pub fn hash(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_hash_is_the_beginning_of_sha256() {
        // `printf abc | sha256sum`.
        assert_eq!(super::hash("abc"), "ba7816bf8f01cfea");
    }
}
