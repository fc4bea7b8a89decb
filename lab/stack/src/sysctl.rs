//! Reading and setting the kernel's parameters below `/proc/sys`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A tree of parameters: `/proc/sys`, or a directory of a test.
#[derive(Clone, Debug)]
pub struct Tree(PathBuf);

impl Tree {
    /// The parameters of the namespace that the calling thread is in.
    pub fn of_kernel() -> Self {
        Self(PathBuf::from("/proc/sys"))
    }

    /// The parameters below `root`.
    pub fn at(root: &Path) -> Self {
        Self(root.to_owned())
    }

    /// Reads the parameter `name`, such as `net.core.somaxconn`; fields are parted by one blank.
    /// `None` if there is none.
    pub fn read(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.file(name)).ok()?;
        Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Sets the parameter `name`, which must exist.
    ///
    /// # Errors
    /// If there is none, or the kernel refuses the value.
    pub fn write(&self, name: &str, value: &str) -> io::Result<()> {
        let file = self.file(name);
        // Writing must not make a file where the kernel has no such parameter.
        fs::metadata(&file)?;
        fs::write(file, format!("{value}\n"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name.replace('.', "/"))
    }
}
