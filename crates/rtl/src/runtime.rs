// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Verilator's own library, compiled once for all designs. Its objects are in the user's cache, keyed by everything that they depend
//! on. Works without a writable cache.

use crate::tool::Tool;
use plug::file::digest;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources of Verilator's library, and how to compile them.
pub(crate) struct Runtime {
    /// The C++ compiler.
    pub(crate) tool: Tool,
    /// Its arguments, without the sources.
    pub(crate) flags: Vec<String>,
    /// Folder of the sources.
    pub(crate) include: PathBuf,
    /// File names of the sources, without extension.
    pub(crate) names: Vec<String>,
    /// A header that the arguments name, and its text.
    pub(crate) header: (&'static str, &'static str),
}

impl Runtime {
    /// Returns the objects. If they do not exist yet, `compile` runs a compiler that writes them to the user's cache.
    /// If there is no writable cache, the compiler writes them to `beside`.
    ///
    /// # Errors
    /// The errors of `compile`, and errors of the file system with the path.
    pub(crate) fn objects<E>(
        &self,
        beside: &Path,
        compile: impl Fn(Command) -> Result<(), E>,
    ) -> Result<Vec<PathBuf>, E>
    where
        E: From<(PathBuf, io::Error)>,
    {
        let key = self.key();
        let here = || self.folder(beside.join(&key), &compile);
        let kept = match cache() {
            // A full disk looks like a failure of the compiler.
            Some(cache) => self.folder(cache.join(&key), &compile).or_else(|_| here()),
            None => here(),
        }?;
        Ok(self.names.iter().map(|name| kept.join(name).with_extension("o")).collect())
    }

    /// Returns the folder `kept`, which then contains the objects.
    fn folder<E>(&self, kept: PathBuf, compile: impl Fn(Command) -> Result<(), E>) -> Result<PathBuf, E>
    where
        E: From<(PathBuf, io::Error)>,
    {
        if kept.is_dir() {
            return Ok(kept);
        }
        // Another build may run at the same time; the build that finishes first provides the folder.
        let part = kept.with_extension(std::process::id().to_string());
        let (header, text) = self.header;
        let ready = fs::create_dir_all(&part).and_then(|()| fs::write(part.join(header), text));
        ready.map_err(|why| (part.clone(), why))?;
        let mut command = self.tool.command();
        command.current_dir(&part).args(&self.flags).arg("-c");
        command.args(self.names.iter().map(|name| self.source(name)));
        let made = compile(command);
        let moved = made.map(|()| fs::rename(&part, &kept));
        let _ = fs::remove_dir_all(&part);
        match moved? {
            Err(why) if !kept.is_dir() => Err((kept, why).into()),
            _ => Ok(kept),
        }
    }

    fn source(&self, name: &str) -> PathBuf {
        self.include.join(name).with_extension("cpp")
    }

    /// Returns the key of its objects: the compiler, its arguments, and the sources with the version in their headers.
    fn key(&self) -> String {
        let version = self.tool.command().arg("--version").output();
        let mut all = version.map_or_else(|_| Vec::new(), |output| output.stdout);
        for text in [&self.tool.name(), &self.flags.join("\n"), self.header.1] {
            all.extend_from_slice(text.as_bytes());
        }
        let sources = self.names.iter().map(|name| self.source(name));
        for path in sources.chain([self.include.join("verilated_config.h"), self.include.join("verilated.h")])
        {
            all.extend_from_slice(path.as_os_str().as_encoded_bytes());
            all.extend(fs::read(&path).unwrap_or_default());
        }
        digest(&all)
    }
}

/// The cache of the user, if there is one. A relative path is invalid, and ignored (XDG Base Directory Specification 0.8).
fn cache() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache")))?;
    Some(folder.join("riser/verilator"))
}
