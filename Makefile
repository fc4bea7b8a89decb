# `make demo` shows Forebay at work and `make test` tests it. Both first install what is missing.

SHELL := /bin/bash
CARGO ?= cargo
# Only the installation of packages and network namespaces need root.
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
# Cargo itself does not run as root: it starts each test program through this runner. Root's kernels
# are in root's own home directory, hence -H.
HOST = $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
AS_ROOT = CARGO_TARGET_$(HOST)_RUNNER='$(if $(SUDO),sudo -E -H )$(CURDIR)/scripts/private-tmp'
BINARY := target/release/forebay
DEMO_FLAGS ?=

.PHONY: demo demo-plan build deb reproducible setup test test-all test-core test-base test-boxes \
	test-lab test-planner test-tools test-apps test-faults test-kernel test-kernels test-bgp \
	test-python lint flaky instructions fuzz fuzz-quick bench bench-dataplane deny clean help

help:
	@echo 'make demo             build the demonstration and show a queue move on this machine (needs root)'
	@echo 'make build            build everything: forebay, forebay-lab and forebay-plan in target/release'
	@echo 'make deb              build the Debian packages: target/forebay*_VERSION_ARCHITECTURE.deb'
	@echo 'make reproducible     build the packages twice, in two directories, and compare the files'
	@echo 'make demo-plan        build, and show hints at work between BGP daemons (needs root; installs GoBGP and BIRD)'
	@echo 'make test             run everything that must pass before a change lands (needs root)'
	@echo 'make test-all         run that, and everything that measures or takes long (needs root; builds kernels)'
	@echo 'make test-core        run the tests of a folder: core, base, boxes, lab, planner, tools or apps'
	@echo 'make lint             check format, lints, comments and Markdown'
	@echo 'make flaky            run the live tests RUNS times (default 10) beside busy processes (needs root)'
	@echo 'make test-faults      run the tests of faults and print a table of them (needs root)'
	@echo 'make test-python      build the Python package and run its tests and notebooks'
	@echo 'make test-kernel      test kernel/zd; builds two kernels first'
	@echo 'make test-kernels     load the BPF programs in kernels of Debian, in virtual machines'
	@echo 'make test-bgp         run the demo-plan scenario with faults, and metrics (needs root; installs daemons)'
	@echo 'make instructions     compare the instructions of hot operations with the stored values'
	@echo 'make bench            run the benchmarks'
	@echo 'make bench-dataplane  measure CPU per forwarded gigabit (needs root and a quiet machine)'
	@echo 'make fuzz             run each fuzz target for RUNS inputs (default 1000000); installs cargo-fuzz'
	@echo 'make fuzz-quick       run each fuzz target for a minute; installs cargo-fuzz'
	@echo 'make deny             check licences, sources and advisories of dependencies; installs cargo-deny'

# A build of its own, without the planner and for a short compile time: docs/decisions/0012 has the
# reasons. `--engine uml` builds a kernel, which needs the full set of packages.
demo:
	@scripts/setup demo $(if $(findstring uml,$(DEMO_FLAGS)),uml)
	$(CARGO) build --profile demo --locked -p forebay -p forebay-lab-cli --no-default-features
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
deb:
	@scripts/setup deb
	scripts/deb

# Builds the packages twice, in two directories, and compares the files.
reproducible:
	@scripts/setup deb
	scripts/reproducible

# Installs what the build needs beyond Rust, and the tools that the laboratory calls.
setup:
	@scripts/setup build

# docs/src/tests.md says what is a test of the gate. Cargo itself does not run as root; the tests
# that need root do.
test:
	@scripts/setup test
	@scripts/test gate

test-all:
	@scripts/setup all
	@scripts/test all

test-core test-base test-boxes test-lab test-planner test-tools test-apps:
	@scripts/setup test
	@scripts/test $(@:test-%=%)

lint:
	@scripts/setup test
	@scripts/test lint

# A test of the gate that fails here is mended with its cause, or leaves the gate.
flaky:
	@scripts/setup test
	scripts/flaky $(or $(RUNS),10)

instructions:
	@scripts/setup build valgrind
	scripts/instructions

# All of these are part of `test` or `test-all`, which print no table.
test-faults: setup
	$(AS_ROOT) scripts/test-faults

# Installs the packages of python/requirements-test.txt in a virtual environment under target/.
test-python:
	@scripts/setup test
	@scripts/test-python

# Builds two kernels the first time. It needs no root.
test-kernel:
	@scripts/setup test uml
	FOREBAY_TEST_KERNEL=1 scripts/run-tests measured -- -p forebay-guest

# Gets Debian's kernels, and boots each of them in QEMU. It needs no root.
test-kernels:
	@scripts/setup test kernels
	scripts/test-kernels $(SUITES)

# Not part of `test`, since it takes minutes and installs BGP daemons.
test-bgp: setup
	@scripts/setup-bgp frr
	FOREBAY_TEST_BGP=1 scripts/run-tests measured --only measured::interconnect
	scripts/run-tests measured --only measured::ospf
	scripts/run-tests measured --only measured::isis

fuzz:
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --locked cargo-fuzz
	scripts/fuzz $(or $(RUNS),1000000)

fuzz-quick:
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --locked cargo-fuzz
	scripts/fuzz 60s

bench: setup
	$(CARGO) bench --locked -p forebay-benches --features live

BENCH_FLAGS ?= --rounds 7 --seconds 4
bench-dataplane: setup
	$(AS_ROOT) $(CARGO) bench --locked -p forebay-benches --features live --bench forwarding -- $(BENCH_FLAGS)

deny:
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check bans licenses sources
	@if $(CARGO) deny fetch db; then $(CARGO) deny check advisories; \
		else echo 'deny: the advisory database cannot be fetched, so advisories are not checked'; fi

clean:
	$(CARGO) clean
