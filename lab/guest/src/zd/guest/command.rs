//! Commands of the guest.

use std::process::Command;

use super::Failure;

/// Runs a command, which must succeed.
pub(super) fn run(line: &str) -> Result<String, Failure> {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let out = Command::new(program).args(words).output()?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    Err(format!("{line}: {}", String::from_utf8_lossy(&out.stderr).trim()).into())
}
