use std::ffi::CString;
use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::Error;

/// A network interface of this namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The interface's name.
    pub name: String,
    /// The kernel's index of the interface.
    pub index: i32,
}

impl Device {
    /// Looks up the interface called `name`.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(name: &str) -> Result<Self, Error> {
        let missing = || Error::NoDevice(name.to_owned());
        let c_name = CString::new(name).map_err(|_| missing())?;
        // SAFETY: `c_name` is a valid C string.
        match unsafe { libc::if_nametoindex(c_name.as_ptr()) } {
            0 => Err(missing()),
            index => Ok(Self { name: name.to_owned(), index: index as i32 }),
        }
    }

    /// Returns a key that is unique among the interfaces of all namespaces of this machine, where
    /// an index alone is not.
    pub(crate) fn key(&self) -> Result<String, Error> {
        let namespace = fs::metadata("/proc/thread-self/ns/net")
            .map_err(Error::system("asking for the network namespace"))?;
        Ok(format!("{}-{}", namespace.ino(), self.index))
    }
}
