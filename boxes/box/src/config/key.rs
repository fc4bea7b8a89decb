use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use forebay_config::{ConfigError, Source, Spanned};
use forebay_system::private;
use forebay_wire::feedback::{Key, KeyFingerprint};
use zeroize::Zeroizing;

/// The largest size of a key file, which is one short line.
const MAX_LEN: u64 = 4096;

/// Reads the key file that the configuration names as `key`. Only its owner may read it. A relative
/// path starts at the directory of the configuration file.
pub(super) fn read(
    source: &Source,
    key: &str,
    path: &Spanned<PathBuf>,
) -> Result<Key, ConfigError> {
    let error = |m: String| source.error_at(path.span(), key, m);
    let base = source.file().parent().unwrap_or(Path::new(""));
    let file = base.join(path.get_ref());
    let shown = file.display();
    let open = private::secret(&file).map_err(|e| {
        error(match e.kind() {
            // The error of a refused file names it and says what to do.
            io::ErrorKind::PermissionDenied if e.raw_os_error().is_none() => e.to_string(),
            _ => format!("{shown} cannot be read: {e} (`forebay keygen {shown}` makes one)"),
        })
    })?;
    // With room for the whole file, no copy stays behind when the text grows.
    let mut text = Zeroizing::new(String::with_capacity(MAX_LEN as usize));
    open.take(MAX_LEN)
        .read_to_string(&mut text)
        .map_err(|e| error(format!("{shown} is not a key file: {e}")))?;
    text.trim().parse().map_err(|e| error(format!("{shown} is not a key file: {e}")))
}

/// Writes a new random key to each of `paths`, readable by its owner only, and returns its
/// fingerprint. It never replaces a file.
///
/// # Errors
/// If a file exists or cannot be written, or the system gives no random numbers.
pub fn generate(paths: &[&Path]) -> io::Result<KeyFingerprint> {
    let mut secret = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *secret).map_err(io::Error::other)?;
    let key = Key::new(*secret);
    for path in paths {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        writeln!(file, "{}", key.text())?;
        file.sync_all()?;
    }
    Ok(key.fingerprint())
}
