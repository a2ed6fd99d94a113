// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folder of the sockets between riser and QEMU.

use super::vm_host::VmHost;
use std::env;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use thiserror::Error;

/// Maximum length of the folder's path in bytes: the path of a socket has at most 107 (unix(7)).
const LONGEST: usize = 60;
/// The folder's parent if the path of TMPDIR is longer.
const SHORT: &str = "/tmp";

/// There is no folder for sockets.
#[derive(Debug, Error)]
#[error("TMPDIR={}{why}", parent.display())]
pub struct SocketFolderError {
    parent: PathBuf,
    why: String,
}

/// Creates a folder for sockets, in TMPDIR if its path is short enough.
///
/// # Errors
/// TMPDIR is not a folder with a path in UTF-8, or the folder cannot be created.
pub fn socket_folder() -> Result<TempDir, SocketFolderError> {
    let parent = parent(env::temp_dir());
    let made = match parent.to_str() {
        _ if !parent.is_dir() => Err(" does not exist; set TMPDIR to an existing folder".to_owned()),
        None => Err(": cannot create a folder for sockets; expected a path in UTF-8".to_owned()),
        Some(_) => {
            tempfile::tempdir_in(&parent).map_err(|e| format!(": cannot create a folder for sockets: {e}"))
        }
    };
    made.map_err(|why| SocketFolderError { parent, why })
}

/// Folder of the sockets of guests. The folder is removed when all devices are connected, so a killed run leaves no folder.
#[derive(Debug)]
pub struct GuestSockets {
    folder: Option<TempDir>,
    awaited: usize,
}

impl GuestSockets {
    /// Waits for the devices of `hosts`. Guests that can start again need the folder until the end.
    pub fn new(folder: TempDir, hosts: &[VmHost]) -> GuestSockets {
        let all = || hosts.iter().flat_map(VmHost::sockets);
        let awaited = if all().any(|socket| socket.machine.is_some()) { usize::MAX } else { all().count() };
        GuestSockets { folder: Some(folder), awaited }
    }

    /// Counts a connected device.
    pub fn add_joined(&mut self) {
        self.awaited = self.awaited.saturating_sub(1);
        if self.awaited == 0 {
            self.folder = None;
        }
    }
}

fn parent(folder: PathBuf) -> PathBuf {
    match folder.as_os_str().len() > LONGEST && folder.is_dir() {
        true => Path::new(SHORT).to_owned(),
        false => folder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_long_tmpdir_is_replaced_by_a_short_folder() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("x".repeat(100));
        // If the folder is missing, its name is kept for the error message.
        assert_eq!(parent(long.clone()), long);
        std::fs::create_dir(&long).unwrap();
        assert_eq!(parent(long), Path::new(SHORT));
        assert_eq!(parent(folder.path().to_owned()), folder.path());
    }
}
