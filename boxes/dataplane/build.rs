//! Compiles the BPF programs with clang; the objects are carried in the library.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [&str; 8] =
    ["port", "bypass", "receivebox", "ingress", "egress", "dctcp", "prague", "ect1"];

fn main() {
    let source = Path::new(&var("CARGO_MANIFEST_DIR")).join("../../bpf");
    let out = PathBuf::from(var("OUT_DIR"));
    let include = var("DEP_BPF_INCLUDE");
    let clang = env::var("CLANG").unwrap_or_else(|_| find_clang());
    // The objects carry file names, and must not differ from one build directory to the next.
    let maps = [(&source, "bpf"), (&PathBuf::from(&include), "libbpf")]
        .map(|(directory, name)| format!("-ffile-prefix-map={}={name}", directory.display()));
    println!("cargo:rerun-if-changed={}", source.display());
    println!("cargo:rerun-if-env-changed=CLANG");
    for program in PROGRAMS {
        let ok = Command::new(&clang)
            .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror"])
            .arg("-fdebug-compilation-dir=.")
            .args(&maps)
            .arg(format!("-D__TARGET_ARCH_{}", linux_arch()))
            .arg(format!("-I{include}"))
            .arg(format!("-I/usr/include/{}-linux-gnu", var("CARGO_CFG_TARGET_ARCH")))
            .arg("-c")
            .arg(source.join(format!("{program}.bpf.c")))
            .arg("-o")
            .arg(out.join(format!("{program}.bpf.o")))
            .status();
        match ok {
            Ok(status) if status.success() => {}
            Ok(_) => panic!("{clang} could not compile bpf/{program}.bpf.c"),
            Err(e) => panic!("cannot run {clang}: {e}; `make setup` installs it"),
        }
    }
}

/// What the kernel calls the architecture whose registers a program's arguments come in.
fn linux_arch() -> String {
    match var("CARGO_CFG_TARGET_ARCH").as_str() {
        "x86_64" => "x86".to_owned(),
        "aarch64" => "arm64".to_owned(),
        other => other.to_owned(),
    }
}

fn var(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run this through cargo"))
}

/// The newest clang that is installed under a versioned or plain name.
fn find_clang() -> String {
    (14..=24)
        .rev()
        .map(|v| format!("clang-{v}"))
        .chain(["clang".to_owned()])
        .find(|c| Command::new(c).arg("--version").output().is_ok())
        .unwrap_or_else(|| "clang".to_owned())
}
