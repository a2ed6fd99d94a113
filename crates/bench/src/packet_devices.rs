// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The devices of [`model::nic`] by name: shipped devices, and devices that files describe.

use crate::ask::AskError;
use lab::FileError;
use model::nic::Device;
use model::{Description, SHIPPED, Shipped};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Size limit of a description file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Returns the names of the shipped devices.
pub fn names() -> String {
    SHIPPED.map(|s| s.name).join(", ")
}

/// Returns the devices in `given`, or all shipped devices if it is empty.
///
/// # Errors
/// More than `most` devices, two devices of one name, a file that cannot be read, or an invalid description, with its
/// place.
pub fn devices(given: &[String], most: usize) -> Result<Vec<Device>, AskError> {
    let devices = match given {
        [] => SHIPPED.iter().map(shipped).collect::<Result<Vec<_>, _>>()?,
        given => given.iter().map(|name| device(name)).collect::<Result<Vec<_>, _>>()?,
    };
    if devices.len() > most {
        return Err(AskError::Wrong(format!("{} devices: expected 1 to {most}", devices.len())));
    }
    let twice = devices.iter().enumerate().find(|(at, d)| devices[..*at].iter().any(|e| e.name == d.name));
    match twice {
        Some((_, device)) => {
            Err(AskError::Wrong(format!("two devices are called {}: expected different names", device.name)))
        }
        None => Ok(devices),
    }
}

/// Returns the shipped device of this name, or the one that the file describes.
fn device(name: &str) -> Result<Device, AskError> {
    match Shipped::find(name) {
        Some(found) => shipped(found),
        None => read(Path::new(name)),
    }
}

fn shipped(found: &Shipped) -> Result<Device, AskError> {
    Ok(Device {
        name: found.name.to_owned(),
        title: found.title.to_owned(),
        description: parse(Path::new(found.name), found.text)?,
    })
}

fn read(path: &Path) -> Result<Device, AskError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|f| f.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
    let text = read.and_then(|_| plug::file::text_of(bytes)).map_err(|e| {
        AskError::Profile(format!("{}: {e}; the shipped devices are {}", path.display(), names()))
    })?;
    if text.len() as u64 > MAX_FILE_BYTES {
        let why = format!("{}: larger than the limit of {MAX_FILE_BYTES} bytes", path.display());
        return Err(AskError::Profile(why));
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Device { title: name.clone(), name, description: parse(path, &text)? })
}

/// Parses a description. An error names its line.
fn parse(path: &Path, text: &str) -> Result<Description, AskError> {
    Description::parse(text).map_err(|e| {
        let error = match e.span {
            Some(span) => FileError::at(path, text, span, e.message),
            None => FileError::whole(path, e.message),
        };
        AskError::Profile(error.to_string())
    })
}
