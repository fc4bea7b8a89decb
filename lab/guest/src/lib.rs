//! Kernel guests: a real Linux kernel as a process of this machine, in virtual time.
//!
//! [`kernel_file`] builds the kernel once, [`Machine`] boots it, and [`zd`] runs the experiments of
//! the kernel patch in `kernel/zd`. What a guest does is the caller's: the guest's first process is
//! the caller's own program, started again.
//!
//! The crate also holds what every run of real programs needs: the error and the interrupt, a
//! [`LockedDir`] that a later run removes if this one is killed, and socket options.

mod cores;
mod error;
mod hang_diagnosis;
mod init;
mod interrupt;
mod kernel;
mod locked_dir;
mod machine;
mod process;
pub mod sockopt;
pub mod stamps;
pub mod zd;

pub use error::Error;
pub use hang_diagnosis::{busiest_process, cpu_time_of_guest};
pub use init::{HOSTS_DIR, mount, power_off};
pub use interrupt::Interrupt;
pub use kernel::{Kernel, kernel_file, kernel_file_with};
pub use locked_dir::{LockedDir, lock};
pub use machine::{Machine, run_dir};
pub use process::{PROCESS_NAME, die_with};
