# SPDX-License-Identifier: Apache-2.0 OR MIT
# The few commands of this project. `make` alone lists them.

FUZZ_SECONDS ?= 60
# One more than there are cores: many tests wait for sockets and clocks.
TEST_THREADS ?= $(shell expr $$(nproc) + 1)
PREFIX ?= /usr/local

.DEFAULT_GOAL := help
# `make -j` would run tests before set-up ends.
.NOTPARALLEL:
.PHONY: help setup demo guest-demo rtl-demo test wheels ci long check check-format deny advisories lint unit benches bench hops fuzz fmt doc reference libtlp registers device-header

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what tests and demo use beside Rust
	@scripts/setup.sh

demo: setup ## build riser and show its main job
	@scripts/demo.sh

guest-demo: ## show a stock Linux kernel on the fabric
	@scripts/guest-demo.sh

rtl-demo: ## show a design for an FPGA in a slot, with its own Linux driver
	@scripts/rtl-demo.sh

# Clippy is the compiler of riser's own crates here. `make lint` would check all dependencies once more, which costs minutes.
test: export RUSTC_WORKSPACE_WRAPPER = $(CURDIR)/scripts/test-rustc.sh
test: export CLIPPY_ARGS = -Dwarnings__CLIPPY_HACKERY__
test: setup wheels check-format deny unit ## all set-up, then every test; warnings are errors

# Tests of Python say that they are skipped where their wheels cannot be had.
wheels:
	-@scripts/python.sh -c ''
	-@scripts/python.sh --with crates/python/tests/requirements.txt -c ''

ci: ## exactly what CI runs
	.ci/run

long: ## run what takes too long for CI, five hours in all; PARTS="trees rtl" runs some parts
	.ci/long $(PARTS)

check: ## compile everything, and run nothing
	cargo check --locked --workspace --all-targets

check-format:
	cargo fmt --all --check

deny: ## check licences, banned crates and sources of dependencies
	cargo deny --locked check licenses bans sources

advisories: ## check dependencies for security advisories; needs the internet
	cargo deny --locked check advisories

lint: ## run clippy, warnings as errors
	cargo clippy --locked --workspace --all-targets -- -D warnings

# Doc tests are no executables, so nextest does not run them.
unit: ## run all tests
	cargo nextest run --locked --workspace --test-threads $(TEST_THREADS)
	cargo test --locked --workspace --doc

benches: ## compile the benchmarks
	cargo test --locked --workspace --benches --no-run

bench: ## measure speed
	cargo bench --locked --workspace

hops: ## count the instructions of a TLP-hop, by part, into docs/speed.md
	scripts/hops.py

pgo: ## build riser with profile-guided optimisation, and say where it is
	@scripts/pgo.sh

fuzz: ## fuzz each parser for FUZZ_SECONDS
	@scripts/fuzz.sh $(FUZZ_SECONDS)

fmt: ## format all code
	cargo fmt --all

doc: ## build the API documentation, warnings as errors
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --locked --workspace --no-deps

reference: ## write anew what docs/ and README.md have from the code and from commands
	RISER_UPDATE_DOCS=1 cargo test --locked --quiet -p riser-tlp --test it reference::
	RISER_UPDATE_DOCS=1 cargo test --locked --quiet -p riser-worlds --test it reference::
	RISER_UPDATE_DOCS=1 cargo test --locked --quiet -p riser-capture --test it -- reference:: dissector_has_the_tables
	RISER_UPDATE_DOCS=1 cargo test --locked --quiet -p riser-sweep --test it reference::
	RISER_UPDATE_DOCS=1 cargo test --locked --quiet -p riser-rtl --test it reference::
	RISER_UPDATE_DOCS=1 cargo test --locked --quiet -p riser-cli --test it new:: -- --include-ignored
	RISER_UPDATE_DOCS=1 cargo test --locked --quiet -p riser-cli --test it docs::

registers: ## write what comes from the description of the DMA engine's registers
	@scripts/python.sh registers/generate.py

device-header: ## install riser_device.h, for devices in C and C++, and riser-device.pc below PREFIX
	crates/native/install.sh $(PREFIX)

libtlp: ## install LibTLP for C, its headers and libtlp.pc below PREFIX
	crates/libtlp/install.sh $(PREFIX)
