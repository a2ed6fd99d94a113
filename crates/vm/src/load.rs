// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kernel module that a guest loads.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A module to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The module.
    pub module: Which,
    /// Parameters in the form of `insmod`: `name=value`, separated by spaces.
    pub parameters: String,
}

/// A module of the kernel, or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// A module of the kernel, such as `nvme`.
    Named(String),
    /// A `.ko` file of the user.
    File(PathBuf),
}

impl Load {
    /// Returns the kernel's name of the module, or `None` if the file's name is not UTF-8.
    pub fn module_name(&self) -> Option<String> {
        let name = match &self.module {
            Which::File(path) => path.file_stem()?.to_str()?,
            Which::Named(name) => name,
        };
        Some(name.replace('-', "_"))
    }
}

/// Parses `NAME PARAMETERS` or `FILE.ko PARAMETERS`. A path may contain spaces: it ends at the first `.ko` before a space or the end of
/// the text for which the file exists.
impl FromStr for Load {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Load, Infallible> {
        let ends = text.match_indices(' ').map(|(at, _)| at).chain([text.len()]);
        let files = || ends.clone().map(|end| text.split_at(end)).filter(|(file, _)| file.ends_with(".ko"));
        let file = files().find(|(file, _)| Path::new(file).is_file());
        // The path of a missing file ends before any parameter.
        let file = file.or_else(|| files().find(|(file, _)| !file.contains('=')));
        let (module, parameters) = match file {
            Some((file, parameters)) => (Which::File(file.into()), parameters),
            None => {
                let (name, parameters) = text.split_once(' ').unwrap_or((text, ""));
                (Which::Named(name.to_owned()), parameters)
            }
        };
        Ok(Load { module, parameters: parameters.trim_start_matches(' ').to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_module_may_have_spaces() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("my a=b drivers/x.ko");
        std::fs::create_dir(there.parent().unwrap()).unwrap();
        std::fs::write(&there, "").unwrap();
        let there = there.to_str().unwrap();
        let with_parameters = format!("{there} a=1 b=2.ko");
        for (text, file, name, parameters) in [
            ("nvme", false, "nvme", ""),
            ("nvme poll_queues=2 x=y", false, "nvme", "poll_queues=2 x=y"),
            ("none/x.ko a=1", true, "none/x.ko", "a=1"),
            ("my none/x.ko", true, "my none/x.ko", ""),
            ("x file=a.ko", false, "x", "file=a.ko"),
            (there, true, there, ""),
            (&with_parameters, true, there, "a=1 b=2.ko"),
        ] {
            let module = if file { Which::File(name.into()) } else { Which::Named(name.to_owned()) };
            assert_eq!(text.parse(), Ok(Load { module, parameters: parameters.to_owned() }), "{text}");
        }
    }

    #[test]
    fn module_name_has_no_dashes() {
        for (text, name) in [("/a/my-driver.ko x=1", "my_driver"), ("dm-crypt", "dm_crypt")] {
            assert_eq!(text.parse::<Load>().unwrap().module_name().as_deref(), Some(name));
        }
    }
}
