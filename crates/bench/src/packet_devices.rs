// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The devices of [`model::nic`] by name: those that ship, and files that describe others. Never asks the model anything.

use crate::ask::AskError;
use lab::FileError;
use model::nic::Device;
use model::{Description, SHIPPED, Shipped};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes of a description at most.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The names of those that ship.
pub fn names() -> String {
    SHIPPED.map(|s| s.name).join(", ")
}

/// Those that are `given`, or else all that ship; of different names, and no more than `most`.
///
/// # Errors
/// Too many, or two of one name; a file that cannot be read, or that describes none, with the place.
pub fn devices(given: &[String], most: usize) -> Result<Vec<Device>, AskError> {
    let devices = match given {
        [] => SHIPPED.iter().map(shipped).collect::<Result<Vec<_>, _>>()?,
        given => given.iter().map(|name| device(name)).collect::<Result<Vec<_>, _>>()?,
    };
    if devices.len() > most {
        return Err(AskError::Wrong(format!("{} devices: legal are 1 to {most}", devices.len())));
    }
    let twice = devices.iter().enumerate().find(|(at, d)| devices[..*at].iter().any(|e| e.name == d.name));
    match twice {
        Some((_, device)) => {
            Err(AskError::Wrong(format!("two devices are called {}: legal are different names", device.name)))
        }
        None => Ok(devices),
    }
}

/// A device that ships, or the one that a file describes.
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
    let mut text = String::new();
    let read = File::open(path).and_then(|f| f.take(MAX_FILE_BYTES + 1).read_to_string(&mut text));
    read.map_err(|e| {
        AskError::Profile(format!("{}: {e}; the devices that ship are {}", path.display(), names()))
    })?;
    if text.len() as u64 > MAX_FILE_BYTES {
        let why = format!("{}: larger than {MAX_FILE_BYTES} bytes, the most that is read", path.display());
        return Err(AskError::Profile(why));
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Device { title: name.clone(), name, description: parse(path, &text)? })
}

/// What is wrong is named with its line.
fn parse(path: &Path, text: &str) -> Result<Description, AskError> {
    Description::parse(text).map_err(|e| {
        let error = match e.span {
            Some(span) => FileError::at(path, text, span, e.message),
            None => FileError::whole(path, e.message),
        };
        AskError::Profile(error.to_string())
    })
}
