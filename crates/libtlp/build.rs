// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gives the shared library its name for the loader, `libtlp.so.0`. Never compiles anything.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtlp.so.0");
}
