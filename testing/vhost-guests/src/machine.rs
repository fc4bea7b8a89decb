//! A guest as a process of this machine in real time.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// Prefix of a guest's line with its result.
pub(crate) const RESULT: &str = "fb-result ";

/// A running guest; dropping it kills all its processes.
pub(crate) struct Machine {
    child: Child,
    lines: Receiver<String>,
}

impl Machine {
    /// Boots `kernel` with its network device at `socket`; its first process does `work`.
    pub(crate) fn boot(kernel: &Path, dir: &Path, socket: &Path, work: &[String]) -> Self {
        let own = dir.join(format!("guest-{}", socket.file_stem().unwrap().to_string_lossy()));
        std::fs::create_dir(&own).unwrap();
        symlink(std::env::current_exe().unwrap(), own.join("init")).unwrap();
        let fixed = "mem=256M console=tty0 con=null con0=null,fd:1 ssl=null quiet loglevel=4 panic=-1 \
                     root=none rootfstype=hostfs ro PATH=/usr/sbin:/usr/bin:/sbin:/bin \
                     init=/proc/self/cwd/init";
        let mut command = Command::new(kernel);
        command
            .arg(format!("virtio_uml.device={}:1", socket.display()))
            .args(fixed.split_whitespace())
            .args(["--", "guest"])
            .args(work)
            .env_clear()
            .env("HOME", &own)
            .env("TMPDIR", "/dev/shm")
            .current_dir(&own)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // SAFETY: between fork and exec there are only system calls that take no locks and allocate
        // nothing.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let mut child = command.spawn().unwrap();
        let (tell, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in out.split(b'\n').map_while(Result::ok) {
                let _ = tell.send(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
        });
        Self { child, lines }
    }

    /// Waits for the guest's end and returns the result of its work.
    pub(crate) fn result(mut self, patience: Duration) -> Value {
        let mut console = Vec::new();
        let mut result = None;
        loop {
            match self.lines.recv_timeout(patience) {
                Ok(line) => match line.find(RESULT) {
                    Some(at) => result = serde_json::from_str(&line[at + RESULT.len()..]).ok(),
                    None => console.push(line),
                },
                // Its standard output is closed, so it has ended.
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                Err(e) => panic!("the guest prints nothing ({e}): {}", console.join("\n")),
            }
        }
        let _ = self.child.wait();
        result.unwrap_or_else(|| panic!("the guest has no result: {}", console.join("\n")))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: the call takes two integers. The guest's processes are in its session's group. If
        // it was reaped, the group is empty, and its number is not reused while this process lives.
        unsafe { libc::kill(-(self.child.id() as libc::pid_t), libc::SIGKILL) };
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
