// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The emulator: an installed QEMU, a QEMU of the user, or Debian's QEMU in a separate folder.

use super::apt::Apt;
use super::cache::{Part, Use};
use super::command::{Finished, find, run, tethered};
use super::{Parts, Watch, of_part};
use crate::error::{Context, Error, Result, bad_file};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the program.
const PROGRAM: &str = "qemu-system-x86_64";
/// Debian release whose backports have a recent enough QEMU.
const RELEASE: &str = "trixie";
const BACKPORTS: &str = "trixie-backports";

/// A version of QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 10 in 10.1.
    pub major: u32,
    /// 1 in 10.1.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The oldest QEMU with a vfio-user client.
const OLDEST: Version = Version { major: 10, minor: 1 };

/// How to start QEMU.
#[derive(Clone, Debug)]
pub struct Qemu {
    /// The program, and the arguments that come before all others.
    pub(crate) command: Vec<OsString>,
    /// Its version.
    pub version: Version,
    pub(crate) used: Use,
}

impl Parts<'_> {
    /// Returns a QEMU with all these devices: the installed QEMU if it is recent enough, otherwise Debian's.
    ///
    /// # Errors
    /// If no suitable QEMU is installed and none can be fetched.
    pub fn qemu(&mut self, devices: &[&str]) -> Result<Qemu> {
        let installed = match find(PROGRAM) {
            None => None,
            Some(program) => match check(vec![program.into_os_string()], devices, &mut self.watch) {
                Ok(found) => return Ok(found),
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(unsuitable) => Some(unsuitable),
            },
        };
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        self.sources.cache.check_programs()?;
        self.sources.cache.check_list()?;
        let instead = format!("a QEMU of version {OLDEST} or later (--qemu FILE)");
        let name = format!("qemu-{architecture}");
        let part = self.fetch(&name, "QEMU", &instead, |sources, folder, watch| {
            let suites = format!("{RELEASE} {BACKPORTS}");
            let apt = Apt::open(&folder.join("apt"), &suites, architecture, sources, watch)?;
            let packages = folder.join("packages");
            apt.unpack(&["qemu-system-x86"], Some(BACKPORTS), &packages, watch)?;
            Ok(settle(&packages, folder)?)
        });
        let Part { folder, used } = part.map_err(|error| match (error, installed) {
            (Error::Fetch { part, why, instead }, Some(unsuitable)) => Error::Fetch {
                part,
                why: format!("{why} (the installed QEMU is not suitable: {unsuitable})"),
                instead,
            },
            (error, _) => error,
        })?;
        let qemu = command(&folder).and_then(|command| check(command, devices, &mut self.watch));
        Ok(Qemu { used, ..of_part(&folder, qemu)? })
    }

    /// Checks the user's QEMU.
    ///
    /// # Errors
    /// If the program is not a QEMU, is too old, or lacks one of these devices.
    pub fn qemu_at(&mut self, program: &Path, devices: &[&str]) -> Result<Qemu> {
        if !program.is_file() {
            let why = if program.exists() { "not a program" } else { "no such file" };
            return Err(bad_file(program, format!("{why}; expected the program qemu-system-x86_64")));
        }
        let program = std::path::absolute(program).unwrap_or(program.to_owned());
        check(vec![program.into_os_string()], devices, &mut self.watch)
    }
}

impl Parts<'_> {
    /// Checks that QEMU has a processor model, such as `Nehalem` or `max,-avx`. QEMU itself checks the features.
    ///
    /// # Errors
    /// If there is no such model. The error lists the known models.
    pub fn check_cpu(&mut self, qemu: &Qemu, cpu: &str) -> Result<()> {
        let help = ask(&qemu.command, &["-cpu", "help"], &mut self.watch)?;
        let models = cpu_models(&help.stdout);
        let model = cpu.split(',').next().unwrap_or(cpu);
        if models.iter().any(|(name, _)| *name == model) {
            return Ok(());
        }
        let known: Vec<&str> = models.iter().filter(|(_, listed)| *listed).map(|(name, _)| *name).collect();
        Err(Error::Option(format!(
            "this QEMU {} has no processor {model:?}; known processors: {}, and their versions (NAME-v1)",
            qemu.version,
            known.join(", ")
        )))
    }
}

/// Parses the models in the output of `-cpu help`: one per line, up to the first empty line. The flag tells whether an error lists the
/// model; versions and their aliases would be too many.
fn cpu_models(help: &str) -> Vec<(&str, bool)> {
    let is_version = |name: &str| {
        name.rsplit_once("-v").is_some_and(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let lines = help.lines().skip(1).take_while(|line| !line.is_empty());
    let named = lines.filter_map(|line| Some((line.split_whitespace().next()?, line)));
    named.map(|(name, line)| (name, !is_version(name) && !line.contains("(alias of "))).collect()
}

/// Runs QEMU with these arguments to its end.
fn ask(command: &[OsString], arguments: &[&str], watch: &mut Watch) -> Result<Finished> {
    let mut asked = tethered(&command[0]);
    asked.args(&command[1..]).args(arguments);
    run(asked, watch, |watch| watch.look())
}

/// Returns the command that starts the QEMU in a folder of [`settle`].
fn command(folder: &Path) -> Result<Vec<OsString>> {
    let program = folder.join("usr/bin").join(PROGRAM);
    let mut command = loader(&program, folder)?;
    command.push(program.into_os_string());
    for data in ["usr/share/qemu", "usr/share/seabios"] {
        command.extend([OsString::from("-L"), folder.join(data).into_os_string()]);
    }
    Ok(command)
}

/// Checks QEMU's version and devices.
fn check(command: Vec<OsString>, devices: &[&str], watch: &mut Watch) -> Result<Qemu> {
    let program = Path::new(command.last().filter(|_| command.len() == 1).unwrap_or(&command[0])).to_owned();
    let said = ask(&command, &["--version"], watch)?;
    let version = version(&said.stdout).filter(|_| said.status.success());
    let version = version.ok_or_else(|| {
        bad_file(
            &program,
            format!(
                "not a QEMU: it answers --version with {:?}",
                (said.stdout.clone() + &said.stderr).trim()
            ),
        )
    })?;
    if version < OLDEST {
        return Err(bad_file(&program, format!("QEMU {version}, expected {OLDEST} or later")));
    }
    for device in devices {
        // `-device help` without a device would load all modules that QEMU finds, and fail at a module of another build.
        let help = ask(&command, &["-no-user-config", "-device", &format!("{device},help")], watch)?;
        if !help.stdout.contains(&format!("{device} options:")) {
            let why = format!("this QEMU {version} has no device {device}: {}", help.complaint());
            return Err(bad_file(&program, why));
        }
    }
    Ok(Qemu { command, version, used: Use::default() })
}

/// Parses the version in `QEMU emulator version 11.1.3 (Debian ...)`.
fn version(text: &str) -> Option<Version> {
    let rest = text.split("QEMU emulator version ").nth(1)?;
    let mut numbers = rest.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some(Version { major: numbers.next()?.ok()?, minor: numbers.next()?.ok()? })
}

/// Merges the packages into one tree, without documentation.
fn settle(packages: &Path, folder: &Path) -> Result<()> {
    let what = || packages.display().to_string();
    for package in fs::read_dir(packages).context(what)? {
        merge(&package.context(what)?.path(), folder)?;
    }
    for unused in ["usr/share/doc", "usr/share/man", "usr/share/locale", "packages"] {
        let path = folder.join(unused);
        if path.is_dir() {
            fs::remove_dir_all(&path).context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// Moves the files of one tree into another.
pub(super) fn merge(from: &Path, to: &Path) -> Result<()> {
    let what = || from.display().to_string();
    for entry in fs::read_dir(from).context(what)? {
        let entry = entry.context(what)?;
        let target = to.join(entry.file_name());
        if entry.file_type().context(what)?.is_dir() {
            fs::create_dir_all(&target).context(what)?;
            merge(&entry.path(), &target)?;
        } else {
            fs::rename(entry.path(), target).context(what)?;
        }
    }
    Ok(())
}

/// Returns the command that starts a program with the folder's own loader and libraries.
fn loader(program: &Path, folder: &Path) -> Result<Vec<OsString>> {
    let bytes = crate::error::read(program)?;
    let interpreter = interpreter(&bytes);
    let interpreter = interpreter.map_err(|error| bad_file(program, no_program(&error)))?;
    let interpreter = interpreter.ok_or_else(|| bad_file(program, "expected a program with a loader"))?;
    let name = interpreter.trim_start_matches('/');
    let candidates = [folder.join("usr").join(name), folder.join(name)];
    let found = candidates.iter().find_map(|path| path.canonicalize().ok());
    let found = found.ok_or_else(|| bad_file(&candidates[0], "no such loader in the packages"))?;
    let libraries: PathBuf = found.parent().unwrap_or(folder).to_owned();
    Ok(vec![found.into_os_string(), "--library-path".into(), libraries.into_os_string()])
}

/// Message about a file that [`interpreter`] cannot read.
pub(super) fn no_program(error: &object::read::Error) -> String {
    format!("expected a program (ELF, 64 bits): {error}")
}

/// Returns the path of the loader that an ELF program requests, if any.
pub(super) fn interpreter(bytes: &[u8]) -> object::read::Result<Option<String>> {
    let header = elf::FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    for segment in header.program_headers(endian, bytes)? {
        if let Some(path) = segment.interpreter(endian, bytes)? {
            return Ok(Some(String::from_utf8_lossy(path).into_owned()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_processor_models() {
        let help = "Available CPUs:\n  486                   (alias configured by machine type)\n  Nehalem-v1            Intel Core i7\n  \
                    Nehalem-IBRS          (alias of Nehalem-v2)\n  base\n\nRecognized CPUID flags:\n  3dnow abm\n";
        let expected = [("486", true), ("Nehalem-v1", false), ("Nehalem-IBRS", false), ("base", true)];
        assert_eq!(cpu_models(help), expected);
        assert!(cpu_models("").is_empty());
    }

    #[test]
    fn parses_versions() {
        let of = |text: &str| version(text).map(|v| v.to_string());
        assert_eq!(
            of("QEMU emulator version 11.1.3 (Debian 1:11.1.3+ds-1~bpo13+1)\n"),
            Some("11.1".to_owned())
        );
        assert_eq!(of("QEMU emulator version 7.2.22\n"), Some("7.2".to_owned()));
        assert_eq!(of("QEMU emulator version 10"), None);
        assert_eq!(of("qemu-img version 10.1"), None);
        assert!(version("QEMU emulator version 10.0.13").unwrap() < OLDEST);
        assert!(version("QEMU emulator version 10.1.0").unwrap() >= OLDEST);
    }
}
