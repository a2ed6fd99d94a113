// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments for the address of an adapter and the way of sending TLPs to it.

use super::bytes::address;
use crate::commands::words::{Word, one_of};
use crate::{Failure, output};
use nettlp::auth::Key;
use nettlp::tools::{Scheme, Target};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const SCHEMES: [Word<Scheme>; 4] = [
    ("auto", "A session if the peer supports it, else a port per tag", Scheme::Auto),
    (
        "tagged",
        "A port per tag, as in LibTLP: 0x3000 + tag; for the host's requests 0x4000 + (tag & 0xf)",
        Scheme::Tagged,
    ),
    ("paper", "The ports of the NetTLP paper: 0x3000 + (tag & 0xf)", Scheme::Paper),
    ("session", "A riser session", Scheme::Session),
];

#[derive(clap::Args, Clone, Copy)]
pub(super) struct AddressArgs {
    /// Address of the adapter
    #[arg(short, long, value_name = "ADDRESS", value_parser = address)]
    pub(super) remote: IpAddr,

    /// Address of this host to send from, which the adapter must allow
    #[arg(short, long, value_name = "ADDRESS", value_parser = address)]
    pub(super) local: Option<IpAddr>,
}

#[derive(clap::Args)]
pub(super) struct TargetArgs {
    #[command(flatten)]
    address: AddressArgs,

    /// Way of sending TLPs
    #[arg(long, value_parser = one_of(&SCHEMES), default_value = "auto")]
    scheme: Scheme,

    /// File with the adapter's key; use only an authenticated session
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

impl TargetArgs {
    /// Returns the adapter to use. Reads the key file.
    pub(super) fn target(&self) -> Result<Target, Failure> {
        if self.key.is_some() && matches!(self.scheme, Scheme::Tagged | Scheme::Paper) {
            let why = "--key: LibTLP's ports cannot authenticate, expected --scheme auto or session";
            return Err(Failure::usage(why));
        }
        let key = self.key.as_deref().map(key).transpose()?;
        let AddressArgs { remote, local } = self.address;
        Ok(Target { remote, local, scheme: self.scheme, key })
    }
}

/// Reads a key from a file. Warns on standard error if others can read it.
pub(super) fn key(path: &Path) -> Result<Key, Failure> {
    let key = Key::from_file(path).map_err(Failure::run)?;
    // The key may come from a source without a mode, such as a pipe.
    let mode = path.metadata().map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o007 != 0 {
        let (path, mode) = (path.display(), mode & 0o777);
        output::note(format_args!(
            "key file {path}: all users of this host have access (mode {mode:03o}): chmod 600 {path}"
        ));
    }
    Ok(key)
}
