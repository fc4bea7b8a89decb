# Two commands do everything: `make demo` and `make test`. Each installs what is missing first.

SHELL := /bin/bash
CARGO ?= cargo
# Nothing but installing packages, and what works on network namespaces, needs root.
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
# Cargo itself never runs as root: it starts each test binary through this.
HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
AS_ROOT := $(if $(SUDO),CARGO_TARGET_$(HOST)_RUNNER='sudo -E')
BINARY := target/release/forebay
DEMO_FLAGS ?=

.PHONY: demo demo-plan build setup test test-kernel test-bgp lint unit network fuzz bench bench-dataplane deny clean help

help:
	@echo 'make demo     build, then show a queue move on this machine (needs root for namespaces)'
	@echo 'make demo-plan   build, then show hints at work between BGP daemons (needs root); installs GoBGP and BIRD'
	@echo 'make test     everything that CI runs'
	@echo 'make test-kernel   the tests of kernel/zd, for which two kernels are built'
	@echo 'make test-bgp    the same with faults: sessions that flap, nonsense, a service that is killed (needs root)'
	@echo 'make bench    the benchmarks'
	@echo 'make bench-dataplane   CPU per forwarded gigabit, as ratios (needs root, and a quiet machine)'
	@echo 'make fuzz     each parser for RUNS inputs (default 1000000); installs cargo-fuzz'
	@echo 'make deny     licences and sources of all dependencies; installs cargo-deny'

demo: build
	@if [ "$$(id -u)" != 0 ]; then \
		echo 'The demo makes network namespaces and attaches XDP programs: that needs root, so sudo may ask.'; fi
	$(SUDO) $(BINARY) demo $(DEMO_FLAGS)

PLAN_DEMO_FLAGS ?=
demo-plan: build
	@scripts/setup-bgp
	$(SUDO) $(BINARY) plan demo $(PLAN_DEMO_FLAGS)

build: setup
	$(CARGO) build --release --locked

# What the build needs beyond Rust, and the tools that the laboratory calls.
setup:
	@scripts/setup

test: lint unit network

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	-$(CARGO) run -q --locked -p forebay-doc-check

unit: setup
	$(CARGO) test --workspace --locked --lib --bins
	$(CARGO) test --workspace --locked --doc

# Tests of whole crates, many of which make namespaces: as root, and one at a time, since they share
# this machine's cores and some of them measure.
network: setup
	$(CARGO) test --workspace --locked --tests --no-run
	$(AS_ROOT) $(CARGO) test --workspace --locked --test '*' -- --test-threads=1

# Not part of `test`: the first time it builds two kernels. Needs no root.
test-kernel: setup
	FOREBAY_TEST_KERNEL=1 $(CARGO) test -p forebay-lab --locked --test zd

# Some minutes, and daemons that nothing else needs, so it stands by itself.
test-bgp: setup
	@scripts/setup-bgp
	$(AS_ROOT) $(CARGO) test -p forebay --locked --test interconnect -- --ignored --test-threads=1

RUNS ?= 1000000
fuzz:
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --locked cargo-fuzz
	scripts/fuzz $(RUNS)

bench: setup
	$(CARGO) bench --workspace

BENCH_FLAGS ?= --rounds 7 --seconds 4
bench-dataplane: setup
	$(AS_ROOT) $(CARGO) bench -p forebay --bench dataplane -- $(BENCH_FLAGS)

deny:
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check bans licenses sources

clean:
	$(CARGO) clean
