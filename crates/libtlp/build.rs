// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets the name of the shared library for the loader, `libtlp.so.0`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtlp.so.0");
}
