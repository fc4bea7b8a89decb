//! Compiles `bpf/headers.h` and `bpf/fingerprint.h` with the machine's C compiler.

fn main() {
    println!("cargo:rerun-if-changed=../../../bpf/headers.h");
    println!("cargo:rerun-if-changed=../../../bpf/fingerprint.h");
    cc::Build::new()
        .file("src/shim.c")
        .include("../../../bpf")
        .warnings(true)
        .warnings_into_errors(true)
        .compile("forebay_wire_c");
}
