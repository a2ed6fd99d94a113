// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A sweep as text for other processes and machines, with every file that it needs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lab::FileErrors;
use plug::file::{FileError, KeptFiles};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The text that is sent, as a structure.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Packed {
    pub(crate) file: TextFile,
    pub(crate) lab: TextFile,
    /// The files of the lab, in base64.
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub(crate) files: KeptFiles,
    pub(crate) native: bool,
}

/// A file and its text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TextFile {
    /// Path, for messages and as the base of relative paths in the file.
    pub path: PathBuf,
    /// The text.
    pub text: String,
}

impl TextFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn read(path: &Path) -> Result<TextFile, FileErrors> {
        let text = read_text(path).map_err(|e| FileError::whole(path, e.to_string()))?;
        Ok(TextFile { path: path.to_owned(), text })
    }
}

/// Maximum size of a sweep file or lab in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Reads a sweep file or lab.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    match File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)? as u64 {
        ..=MAX_BYTES => plug::file::text_of(bytes),
        _ => Err(io::Error::other(format!("larger than {MAX_BYTES} bytes, the maximum of a sweep or lab"))),
    }
}

fn to_base64<S: Serializer>(files: &KeptFiles, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(files.iter().map(|(name, bytes)| (name, STANDARD.encode(bytes))))
}

fn from_base64<'de, D: Deserializer<'de>>(from: D) -> Result<KeptFiles, D::Error> {
    let texts = BTreeMap::<String, String>::deserialize(from)?;
    let one =
        |(name, text): (String, String)| Ok((name, STANDARD.decode(text).map_err(serde::de::Error::custom)?));
    texts.into_iter().map(one).collect()
}
