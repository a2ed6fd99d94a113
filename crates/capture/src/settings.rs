// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of functions: given by the user or a text file, or shown by configuration requests.

use tlp::{Mps, Mrrs, Rcb, SizeError};

/// Numbers of tags that the settings of a function allow.
pub const TAGS: [u16; 3] = [32, 256, 1024];

/// Settings that the user or a file gives. They apply to all functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FunctionOverrides {
    /// Read Completion Boundary of root complexes. Other completers have 128 bytes (`PCIe 5.0 §2.3.1.1`).
    pub rcb: Option<Rcb>,
    /// Max_Payload_Size.
    pub mps: Option<Mps>,
    /// Max_Read_Request_Size.
    pub mrrs: Option<Mrrs>,
    /// Number of tags: 32, 256 or 1024.
    pub tags: Option<u16>,
    /// Completion timeout, in picoseconds.
    pub timeout_ps: Option<u64>,
}

/// Reason why a setting is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SettingError {
    /// There is no such setting.
    #[error("unknown setting {0:?}; known settings: rcb, mps, mrrs, tags")]
    Name(String),
    /// The value is not a number.
    #[error("{name} {value:?}: expected a decimal number")]
    Number {
        /// The setting.
        name: String,
        /// Its value.
        value: String,
    },
    /// The size is not legal.
    #[error("{0}")]
    Size(SizeError),
    /// The number of tags is not legal.
    #[error("tags {0}: expected 32, 256 or 1024")]
    Tags(u32),
}

impl FunctionOverrides {
    /// Names of the settings that [`set`](Self::set) knows.
    pub const NAMES: [&str; 4] = ["rcb", "mps", "mrrs", "tags"];

    /// Sets one setting from text: `rcb`, `mps` or `mrrs` in bytes, or `tags`.
    ///
    /// # Errors
    /// An unknown name or an illegal value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let number = || {
            let wrong = |_| SettingError::Number { name: name.to_owned(), value: value.to_owned() };
            value.parse::<u32>().map_err(wrong)
        };
        match name {
            "rcb" => self.rcb = Some(Rcb::new(number()?).map_err(SettingError::Size)?),
            "mps" => self.mps = Some(Mps::new(number()?).map_err(SettingError::Size)?),
            "mrrs" => self.mrrs = Some(Mrrs::new(number()?).map_err(SettingError::Size)?),
            "tags" => {
                let tags = number()?;
                let legal = TAGS.into_iter().find(|legal| u32::from(*legal) == tags);
                self.tags = Some(legal.ok_or(SettingError::Tags(tags))?);
            }
            _ => return Err(SettingError::Name(name.to_owned())),
        }
        Ok(())
    }
}

/// `mps=256 tags=32`; without the completion timeout.
impl std::fmt::Display for FunctionOverrides {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let values = [
            self.rcb.map(Rcb::bytes),
            self.mps.map(Mps::bytes),
            self.mrrs.map(Mrrs::bytes),
            self.tags.map(u32::from),
        ];
        let given = FunctionOverrides::NAMES.into_iter().zip(values);
        let words: Vec<String> =
            given.filter_map(|(name, value)| Some(format!("{name}={}", value?))).collect();
        f.write_str(&words.join(" "))
    }
}

/// The settings of one function that the capture shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct DeviceControl {
    pub(crate) mps: Option<Mps>,
    pub(crate) mrrs: Option<Mrrs>,
    pub(crate) tags: Option<u16>,
}
