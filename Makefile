# `make demo` shows Forebay at work and `make test` tests it. Both first install what is missing.

SHELL := /bin/bash
CARGO ?= cargo
# Only the installation of packages and network namespaces need root.
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
# Cargo itself does not run as root: it starts each test program through this runner. Root's kernels
# are in root's own home directory, hence -H.
HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
AS_ROOT := CARGO_TARGET_$(HOST)_RUNNER='$(if $(SUDO),sudo -E -H )$(CURDIR)/scripts/private-tmp'
BINARY := target/release/forebay
DEMO_FLAGS ?=

.PHONY: demo demo-plan build deb reproducible setup test test-faults test-kernel test-bgp test-python lint unit network fuzz fuzz-quick bench bench-dataplane deny clean help

help:
	@echo 'make demo             build the demonstration and show a queue move on this machine (needs root)'
	@echo 'make build            build everything: target/release/forebay'
	@echo 'make deb              build a Debian package: target/forebay_VERSION_ARCHITECTURE.deb'
	@echo 'make reproducible     build the package twice, in two directories, and compare the files'
	@echo 'make demo-plan        build, and show hints at work between BGP daemons (needs root; installs GoBGP and BIRD)'
	@echo 'make test             run everything that CI runs: lint, unit, network and test-python'
	@echo 'make lint             check format, lints, comments and Markdown'
	@echo 'make unit             run unit and documentation tests'
	@echo 'make network          run integration tests (needs root)'
	@echo 'make test-faults      run the tests of faults and print a table of them (needs root)'
	@echo 'make test-python      build the Python package and run its tests and notebooks'
	@echo 'make test-kernel      test kernel/zd; builds two kernels first'
	@echo 'make test-bgp         run the demo-plan scenario with faults, and metrics (needs root; installs daemons)'
	@echo 'make bench            run the benchmarks'
	@echo 'make bench-dataplane  measure CPU per forwarded gigabit (needs root and a quiet machine)'
	@echo 'make fuzz             run each fuzz target for RUNS inputs (default 1000000); installs cargo-fuzz'
	@echo 'make fuzz-quick       run each fuzz target for a minute; installs cargo-fuzz'
	@echo 'make deny             check licences, sources and advisories of dependencies; installs cargo-deny'

# A build of its own, without the planner and for a short compile time: docs/decisions/0012 has the
# reasons. `--engine uml` builds a kernel, which needs the full set of packages.
demo:
	@scripts/setup $(if $(findstring uml,$(DEMO_FLAGS)),,--demo)
	$(CARGO) build --profile demo --locked -p forebay --no-default-features
	@if [ "$$(id -u)" != 0 ]; then \
		echo 'The demo makes network namespaces and attaches XDP programs, so sudo may ask for your password.'; fi
	$(SUDO) target/demo/forebay demo $(DEMO_FLAGS)

PLAN_DEMO_FLAGS ?=
demo-plan: build
	@scripts/setup-bgp
	$(SUDO) $(BINARY) plan demo $(PLAN_DEMO_FLAGS)

build: setup
	$(CARGO) build --release --locked

# A build of its own, in which no file name of this machine is left.
deb: setup
	@scripts/setup dpkg-dev
	scripts/deb

# Builds the package twice, in two directories, and compares the files.
reproducible: setup
	@scripts/setup dpkg-dev
	scripts/reproducible

# Installs what the build needs beyond Rust, and the tools that the laboratory calls.
setup:
	@scripts/setup

# The last line says how many tests this machine could not run; each skip is a line of the file.
SKIPPED := $(CURDIR)/target/skipped
test:
	@mkdir -p target && : >$(SKIPPED)
	FOREBAY_SKIPPED=$(SKIPPED) $(MAKE) --no-print-directory lint unit network test-python
	@scripts/skipped $(SKIPPED)

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) check -q --locked --manifest-path fuzz/Cargo.toml --target-dir target
	$(CARGO) fmt --manifest-path python/Cargo.toml --check
	PYO3_NO_PYTHON=1 $(CARGO) clippy -q --locked --manifest-path python/Cargo.toml --target-dir target -- -D warnings
	$(CARGO) run -q --locked -p forebay-doc-check

# Unit tests that load BPF programs need root. Without it they are skipped here, which is not
# counted, since `network` runs them again.
unit: setup
	$(if $(SUDO),FOREBAY_SKIPPED=,$(AS_ROOT)) $(CARGO) test --workspace --locked --lib --bins
	$(CARGO) test --workspace --locked --doc
	$(CARGO) test -q --locked -p forebay-sim-quic --features qlog

# Integration tests. Many make network namespaces, so they run as root. Some measure, and all share
# this machine's cores, so they run one at a time.
network: setup
	$(CARGO) test --workspace --locked --tests --no-run
	$(AS_ROOT) $(CARGO) test --workspace --locked --test '*' -- --test-threads=1
	$(if $(SUDO),$(AS_ROOT) $(CARGO) test -p forebay-dataplane --locked --lib)

# All of these are part of `network`, which prints no table.
test-faults: setup
	$(AS_ROOT) scripts/test-faults

# Installs the packages of python/requirements-test.txt in a virtual environment under target/.
test-python: setup
	@scripts/test-python

# Not part of `test`, since it builds two kernels the first time. It needs no root.
test-kernel: setup
	FOREBAY_TEST_KERNEL=1 $(CARGO) test -p forebay-guest --locked --test zd

# Not part of `test`, since it takes minutes and installs BGP daemons.
test-bgp: setup
	@scripts/setup-bgp frr
	$(AS_ROOT) FOREBAY_TEST_BGP=1 $(CARGO) test -p forebay --locked --test interconnect -- --test-threads=1
	$(AS_ROOT) $(CARGO) test -p forebay-serve --locked --test ospf --test isis

RUNS ?= 1000000
fuzz:
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --locked cargo-fuzz
	scripts/fuzz $(RUNS)

fuzz-quick:
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --locked cargo-fuzz
	scripts/fuzz 60s

bench: setup
	$(CARGO) bench --workspace

BENCH_FLAGS ?= --rounds 7 --seconds 4
bench-dataplane: setup
	$(AS_ROOT) $(CARGO) bench -p forebay --bench dataplane -- $(BENCH_FLAGS)

deny:
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check bans licenses sources
	@if $(CARGO) deny fetch db; then $(CARGO) deny check advisories; \
		else echo 'deny: the advisory database cannot be fetched, so advisories are not checked'; fi

clean:
	$(CARGO) clean
