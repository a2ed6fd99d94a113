# SPDX-License-Identifier: Apache-2.0 OR MIT
# Commands of this project. `make` without a target lists them.

FUZZ_SECONDS ?= 60
# The number of threads is one more than the number of cores, because many tests wait for sockets and clocks.
TEST_THREADS ?= $(shell expr $$(nproc) + 1)
PREFIX ?= /usr/local
# Port of `make docs`.
DOCS_PORT ?= 3000

.DEFAULT_GOAL := help
# With `make -j`, tests would start before set-up ends.
.NOTPARALLEL:
.PHONY: help setup demo guest-demo rtl-demo stack-demo test ci long check check-format check-prose deny advisories lint compiled unit benches bench hops fuzz fmt doc docs site check-docs pictures reference libtlp registers device-header release

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install the tools that tests and demos need apart from Rust
	@scripts/setup.sh

demo: setup ## build riser and show its main features
	@scripts/demo.sh

guest-demo: ## run a stock Linux kernel on the fabric
	@scripts/guest-demo.sh

rtl-demo: ## run an FPGA design in a slot, with its own Linux driver
	@scripts/rtl-demo.sh

stack-demo: ## run the PCI Express stack in RTL below a stock Linux kernel and a RISC-V core, and measure the Chipyard study's figures in it
	@scripts/stack-demo.sh

# Compiles riser's own crates with clippy. `make lint` would check all dependencies again, which takes minutes.
test: export RUSTC_WORKSPACE_WRAPPER = $(CURDIR)/scripts/test-rustc.sh
test: export CLIPPY_ARGS = -Dwarnings__CLIPPY_HACKERY__
test: setup compiled unit ## set up, then run every test; warnings are errors

# Checks texts and dependencies, and installs wheels, while the tests compile. Python tests report that they are skipped if their wheels cannot be installed.
compiled:
	@$(MAKE) --no-print-directory check-format check-prose check-docs deny & checks=$$!; \
	{ scripts/python.sh -c ''; scripts/python.sh --with crates/python/tests/requirements.txt -c ''; } & wheels=$$!; \
	cargo nextest run --locked --workspace --tests --no-run; status=$$?; \
	wait $$wheels; wait $$checks && exit $$status

ci: ## run exactly what CI runs
	.ci/run

long: ## run the checks that take too long for CI, five hours in all; PARTS="trees rtl" selects parts
	.ci/long $(PARTS)

check: ## compile everything without running it
	cargo check --locked --workspace --all-targets

check-format:
	cargo fmt --all --check

check-prose: ## check that texts are plain English; SINCE=COMMIT checks only the lines that differ from COMMIT
	@scripts/prose.py --self-test
	@scripts/prose.py $(if $(SINCE),--since $(SINCE))

deny: ## check dependencies for licences, banned crates and sources
	cargo deny --locked check licenses bans sources

advisories: ## check dependencies for security advisories; needs the internet
	cargo deny --locked check advisories

lint: ## run clippy; warnings are errors
	cargo clippy --locked --workspace --all-targets -- -D warnings

# nextest cannot run doc tests, because they are not executables. They run next to the others.
unit: ## run all tests
	@cargo test --quiet --locked --workspace --doc & docs=$$!; \
	cargo nextest run --locked --workspace --tests --test-threads $(TEST_THREADS); status=$$?; \
	wait $$docs && exit $$status

benches: ## compile the benchmarks and examples
	cargo test --locked --workspace --benches --examples --no-run

bench: ## measure speed
	cargo bench --locked --workspace

hops: ## count the instructions per TLP-hop by part, and write them to docs/speed.md
	scripts/hops.py

pgo: ## build riser with profile-guided optimization, and print its path
	@scripts/pgo.sh

fuzz: ## run each fuzz target for FUZZ_SECONDS
	@scripts/fuzz.sh $(FUZZ_SECONDS)

fmt: ## format all code
	cargo fmt --all

doc: ## build the API documentation; warnings are errors
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --locked --workspace --no-deps

docs: ## build the documentation site, and serve it on loopback at DOCS_PORT (3000)
	@scripts/site.sh --serve $(DOCS_PORT)

site: ## build the documentation site in target/book, and check its links
	@scripts/site.sh

check-docs:
	@scripts/site.sh --optional

pictures: ## make the pictures of docs/pictures and gallery; needs chromium
	@scripts/pictures.sh

reference: ## regenerate the parts of docs/ and README.md that come from code and commands
	RISER_UPDATE_DOCS=1 cargo test --locked --quiet -p riser-tlp --test it reference::
	RISER_UPDATE_DOCS=1 cargo test --locked --quiet -p riser-worlds --test it reference::
	RISER_UPDATE_DOCS=1 cargo test --locked --quiet -p riser-capture --test it -- reference:: dissector_has_the_tables
	RISER_UPDATE_DOCS=1 cargo test --locked --quiet -p riser-sweep --test it reference::
	RISER_UPDATE_DOCS=1 cargo test --locked --quiet -p riser-rtl --test it reference::
	RISER_UPDATE_DOCS=1 cargo test --locked --quiet -p riser-cli --test it new:: -- --include-ignored
	RISER_UPDATE_DOCS=1 cargo test --locked --quiet -p riser-cli --test it docs::

registers: ## generate the files derived from the DMA engine's register description
	@scripts/python.sh registers/generate.py

device-header: ## install riser_device.h (devices in C and C++) and riser-device.pc below PREFIX
	crates/native/install.sh $(PREFIX)

libtlp: ## install LibTLP for C (library, headers and libtlp.pc) below PREFIX
	crates/libtlp/install.sh $(PREFIX)

release: ## build wheel, Debian packages and tarball of this commit in target/dist
	@scripts/release.sh
