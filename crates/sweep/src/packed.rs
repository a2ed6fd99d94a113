// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A sweep as text for other processes and machines, with every file that it needs. Never reads one.

use crate::sweep::{Sweep, TextFile};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lab::FileErrors;
use plug::Models;
use plug::file::{FileError, KeptFiles};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::path::Path;

/// What is sent.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Packed {
    pub(crate) file: TextFile,
    pub(crate) lab: TextFile,
    /// The files that the lab names, in base64.
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub(crate) files: KeptFiles,
    pub(crate) native: bool,
}

impl Sweep {
    /// The sweep as one line of JSON: all that a worker needs, on this machine or another.
    pub fn pack(&self) -> String {
        serde_json::to_string(&self.packed()).unwrap_or_default()
    }

    /// The sweep that [`pack`](Self::pack) has packed.
    ///
    /// # Errors
    /// Where the text is none, or of another version.
    pub fn unpack(models: &Models, packed: &str) -> Result<Sweep, FileErrors> {
        let packed = serde_json::from_str(packed).map_err(|e| {
            FileError::whole(
                Path::new("<packed>"),
                format!("{e}: legal is what another riser of this version packs"),
            )
        })?;
        Sweep::unpacked(models, packed)
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
