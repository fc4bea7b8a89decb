//! The programs of Forebay, which find each other as those of git do: beside their own file, then
//! in PATH.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program of Forebay, which has a package of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// The name of its file.
    name: &'static str,
    /// What it has, in words.
    parts: &'static str,
}

/// The boxes and tools.
pub const BOXES: Program = Program { name: "forebay", parts: "the boxes" };
/// The laboratory and the demonstration.
pub const LAB: Program = Program { name: "forebay-lab", parts: "the laboratory" };
/// The planner and its service.
pub const PLAN: Program = Program { name: "forebay-plan", parts: "the planner" };

/// A program that cannot be run. The text says what to install.
#[derive(Debug)]
pub struct Missing {
    program: Program,
    /// Why the file that was found cannot be run; `None` if none was found.
    reason: Option<io::Error>,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Program { name, parts } = self.program;
        match &self.reason {
            Some(e) => write!(f, "cannot run the program {name}: {e}"),
            None => write!(
                f,
                "the program {name}, which has {parts}, is neither beside this one nor in PATH: \
                 install the package {name}, or build it with `make build`"
            ),
        }
    }
}

impl std::error::Error for Missing {}

impl Program {
    /// Finds the file of this program.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(self) -> Result<PathBuf, Missing> {
        let own = env::current_exe().unwrap_or_default();
        let path = env::var_os("PATH").unwrap_or_default();
        find(self.name, own.parent(), &path).ok_or(Missing { program: self, reason: None })
    }

    /// Becomes this program, which sees `shown` as the name that the user called it by. Returns
    /// only if there is no such program, or it cannot be run.
    pub fn become_it<S: AsRef<OsStr>>(
        self,
        shown: &str,
        arguments: impl IntoIterator<Item = S>,
    ) -> Missing {
        match self.find() {
            Ok(file) => {
                let reason = Command::new(file).arg0(shown).args(arguments).exec();
                Missing { program: self, reason: Some(reason) }
            }
            Err(missing) => missing,
        }
    }
}

/// Finds the executable file `name` in the directory `beside`, then in the directories of `path`.
/// Relative directories do not count, since a program in the current directory may be anybody's.
fn find(name: &str, beside: Option<&Path>, path: &OsStr) -> Option<PathBuf> {
    let is_program = |file: &PathBuf| {
        fs::metadata(file).is_ok_and(|of| of.is_file() && of.permissions().mode() & 0o111 != 0)
    };
    let listed = env::split_paths(path).filter(|dir| dir.is_absolute());
    let all = beside.map(Path::to_owned).into_iter().chain(listed);
    all.map(|dir| dir.join(name)).find(is_program)
}

/// Returns the name of this program, as the user called it: `forebay` for a command of `forebay`
/// that another program runs.
pub fn own_name() -> String {
    let called = env::args_os().next().unwrap_or_default();
    let file = Path::new(&called).file_name().unwrap_or_default().to_string_lossy();
    file.split(' ').next().filter(|name| !name.is_empty()).unwrap_or(BOXES.name).to_owned()
}

#[cfg(test)]
mod tests {
    use forebay_test_support::Dir;

    use super::*;

    #[test]
    fn a_program_is_found_beside_this_one_and_then_in_the_path() {
        let dir = Dir::new("programs");
        let [beside, first, second] = ["beside", "first", "second"].map(|name| {
            fs::create_dir(dir.path().join(name)).unwrap();
            dir.file(&format!("{name}/forebay-lab"), "", 0o755).parent().unwrap().to_owned()
        });
        let path = env::join_paths([Path::new("."), &first, &second]).unwrap();
        let found = |beside: &Path| find("forebay-lab", Some(beside), &path);
        assert_eq!(found(&beside), Some(beside.join("forebay-lab")));
        assert_eq!(found(dir.path()), Some(first.join("forebay-lab")));
        // A file that nobody may execute is no program.
        fs::set_permissions(first.join("forebay-lab"), fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(found(dir.path()), Some(second.join("forebay-lab")));
        assert_eq!(find("forebay-plan", Some(&beside), &path), None);
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let text = Missing { program: LAB, reason: None }.to_string();
        assert!(text.contains("install the package forebay-lab"), "{text}");
    }
}
