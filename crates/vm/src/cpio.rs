// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes archives that the kernel unpacks at boot: cpio in "newc" format
//! (Documentation/driver-api/early-userspace/buffer-format.rst of the kernel). The output only depends on the entries: no times,
//! owners or inodes of a file system.

use std::collections::BTreeMap;

/// File type bits of a mode (`S_IFMT` and its values, stat(2)).
const KIND: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTER: u32 = 0o020_000;

/// Name of the entry that ends an archive.
const TRAILER: &str = "TRAILER!!!";

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Directory,
    File(Vec<u8>),
    Link(String),
    Character { major: u32, minor: u32 },
}

/// A tree of files, to be written as an archive.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    /// Entries by path without a leading slash. A folder sorts before its contents.
    entries: BTreeMap<String, (u32, Content)>,
}

impl Archive {
    /// Creates an empty tree.
    pub fn new() -> Archive {
        Archive::default()
    }

    /// Adds a folder with mode 0755. Parent folders of other entries are added automatically.
    pub fn directory(&mut self, path: &str) {
        self.put(path, 0o755, Content::Directory);
    }

    /// Adds a file with the permissions of `mode`.
    pub fn file(&mut self, path: &str, mode: u32, bytes: Vec<u8>) {
        self.put(path, mode & 0o7777, Content::File(bytes));
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.put(path, 0o777, Content::Link(target.to_owned()));
    }

    /// Adds a character device with mode 0600.
    pub fn character_device(&mut self, path: &str, major: u32, minor: u32) {
        self.put(path, 0o600, Content::Character { major, minor });
    }

    /// Returns whether the archive has an entry at this path.
    pub fn contains(&self, path: &str) -> bool {
        self.entries.contains_key(path)
    }

    /// Adds an entry. A later entry replaces an earlier one. There are two exceptions, like in dpkg: a folder does not
    /// replace anything, and a link does not replace a folder.
    fn put(&mut self, path: &str, mode: u32, content: Content) {
        let path = path.trim_matches('/');
        if let Some((parent, _)) = path.rsplit_once('/')
            && !self.entries.contains_key(parent)
        {
            self.directory(parent);
        }
        let stays = match self.entries.get(path) {
            None => false,
            Some((_, Content::Directory)) => matches!(content, Content::Directory | Content::Link(_)),
            Some(_) => content == Content::Directory,
        };
        if stays {
            return;
        }
        self.entries.insert(path.to_owned(), (mode, content));
    }

    /// Returns the archive's bytes, a multiple of four. The kernel also unpacks concatenated archives.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (inode, (path, (mode, content))) in (1..).zip(&self.entries) {
            let (kind, data, device): (u32, &[u8], (u32, u32)) = match content {
                Content::Directory => (DIRECTORY, &[], (0, 0)),
                Content::File(bytes) => (FILE, bytes, (0, 0)),
                Content::Link(target) => (LINK, target.as_bytes(), (0, 0)),
                Content::Character { major, minor } => (CHARACTER, &[], (*major, *minor)),
            };
            entry(&mut out, inode, kind | mode, path, data, device);
        }
        entry(&mut out, 0, 0, TRAILER, &[], (0, 0));
        out
    }
}

/// Writes one entry: 13 numbers of eight hexadecimal digits after the magic, the name with a zero byte, the data; each padded to
/// four bytes.
fn entry(out: &mut Vec<u8>, inode: u32, mode: u32, name: &str, data: &[u8], device: (u32, u32)) {
    let length = |bytes: usize| u32::try_from(bytes).expect("entries are below 4 GiB");
    let links = if mode & KIND == DIRECTORY { 2 } else { 1 };
    let (size, name_size) = (length(data.len()), length(name.len() + 1));
    let fields = [inode, mode, 0, 0, links, 0, size, 0, 0, device.0, device.1, name_size, 0];
    out.extend_from_slice(b"070701");
    for field in fields {
        out.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    pad(out);
    out.extend_from_slice(data);
    pad(out);
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}
