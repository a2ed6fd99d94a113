// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds a design: finds the block's instance, writes the modules around the design, and runs Verilator and the C++
//! compiler to make a shared library. This module never loads a library.

use crate::complaints::{Complaint, LOG, complaints};
use crate::design::{self, Design, read_file};
use crate::loader::ABI;
use crate::netlist::Netlist;
use crate::runtime::Runtime;
use crate::source::{self, Instance};
use crate::standin;
use crate::still::{UndrivenClock, still_clocks};
use crate::tool::{Tool, reason};
use plug::file::{FileErrors, digest};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use thiserror::Error;

/// Name of the C++ compiler in errors.
const COMPILER: &str = "the C++ compiler";
/// Header that redirects the output of a design.
const PRINT_FILE: &str = "print.h";
const PRINT: &str = include_str!("../verilog/print.h");
/// Maximum size of a source in bytes.
const MOST_SOURCE_BYTES: u64 = 1 << 28;
/// Interface between the design and riser.
const SHIM: &str = include_str!("../verilog/shim.cpp");
/// File of the module around the design.
const TOP_FILE: &str = "riser_top.sv";

/// Build options.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Make signals available for waveform files, which makes the design slower.
    pub waves: bool,
}

/// Result of a build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Built {
    /// Path of the library.
    pub library: PathBuf,
    /// Clocks of the design that never have an edge; `None` if Verilator does not write a netlist.
    pub still_clocks: Option<Vec<UndrivenClock>>,
}

/// Step of a build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Verilator and the compiler run.
    Verilator,
    /// The library is linked.
    Link,
}

/// Reason why a build failed.
#[derive(Debug, Error)]
pub enum BuildError {
    /// The design's file is invalid.
    #[error("{0}")]
    Design(FileErrors),
    /// A file cannot be read or written.
    #[error("{}: {why}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        why: io::Error,
    },
    /// A source cannot be read.
    #[error("{}:{line}: {why}", path.display())]
    Source {
        /// Path of the source.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Description of the error.
        why: String,
    },
    /// No source instantiates the block.
    #[error(
        "no instance of `{module}` in {sources} sources; expected one, or another module name in block.module"
    )]
    NoBlock {
        /// Module name of the block.
        module: String,
        /// Number of sources.
        sources: usize,
    },
    /// A tool is missing.
    #[error("{tool} cannot be run: {why} (Debian: apt-get install verilator g++ make zlib1g-dev)")]
    NoTool {
        /// Name of the tool.
        tool: String,
        /// Error of the system.
        why: io::Error,
    },
    /// A tool failed.
    #[error("{tool} failed:\n{said}\nfull log: {}", log.display())]
    Tool {
        /// Name of the tool.
        tool: &'static str,
        /// The first errors of its output.
        said: String,
        /// Path of the full output.
        log: PathBuf,
    },
}

impl From<(PathBuf, io::Error)> for BuildError {
    fn from((path, why): (PathBuf, io::Error)) -> BuildError {
        BuildError::File { path, why }
    }
}

/// Returns the path of the built library.
pub(crate) fn library(folder: &Path, waves: bool) -> PathBuf {
    folder.join(if waves { "design-waves.so" } else { "design.so" })
}

/// Returns a digest of everything that a library is built from.
///
/// # Errors
/// If a source cannot be read.
pub(crate) fn fingerprint(design: &Design, base: &Path) -> Result<String, BuildError> {
    let text = serde_json::to_string(design).unwrap_or_default();
    let mut parts = digest(text.as_bytes());
    for ours in [SHIM, include_str!("../verilog/shown.v"), include_str!("../verilog/primitives.v")] {
        parts += &digest(ours.as_bytes());
    }
    for source in &design.sources {
        parts += &digest(&source_bytes(&base.join(source))?);
    }
    Ok(format!("{}-{ABI}-{}", env!("CARGO_PKG_VERSION"), digest(parts.as_bytes())))
}

/// Reads a source file of limited size.
fn source_bytes(path: &Path) -> Result<Vec<u8>, BuildError> {
    read_file(path, MOST_SOURCE_BYTES).map_err(|why| BuildError::File { path: path.to_owned(), why })
}

/// Builds the design of a file.
///
/// # Errors
/// [`BuildError`]
pub fn build(file: &Path, options: &Options, progress: &mut dyn FnMut(Step)) -> Result<Built, BuildError> {
    let design = Design::read(file).map_err(BuildError::Design)?;
    let base = file.parent().unwrap_or(Path::new(""));
    let [programs, paths] = sources(&design, base);
    let (path, instance) = find_block(&design, &paths)?;
    let block = standin::block(&design.module(), design.shape(), &instance, options.waves);
    let block = block.map_err(|unfit| {
        let why = format!("`{}` has no port `{}`", design.module(), unfit.port);
        BuildError::Source { path: path.clone(), line: unfit.line, why }
    })?;
    let folder = design::folder(file);
    let objects = objects(&folder, options.waves);
    fs::create_dir_all(&objects).map_err(|why| BuildError::File { path: objects.clone(), why })?;
    for (name, text) in [
        ("riser_block.sv", &block),
        (TOP_FILE, &standin::top(&design)),
        ("riser_primitives.v", &standin::primitives(&design)),
        (PRINT_FILE, &PRINT.to_owned()),
        ("shim.cpp", &SHIM.to_owned()),
    ] {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|why| BuildError::File { path, why })?;
    }
    let build = Build { design: &design, base, folder: &folder, objects: &objects, waves: options.waves };
    progress(Step::Verilator);
    build.verilate(&paths)?;
    build.check_widths(&path, &instance)?;
    let still_clocks = build.still_clocks(&paths)?;
    progress(Step::Link);
    Ok(Built { library: build.link(&programs)?, still_clocks })
}

/// Returns true for a source in C or C++, with functions that the design calls.
fn is_program(path: &Path) -> bool {
    path.extension().is_some_and(|extension| ["c", "cc", "cpp"].iter().any(|known| extension == *known))
}

/// Returns the C and C++ sources, and the sources of the design.
fn sources(design: &Design, base: &Path) -> [Vec<PathBuf>; 2] {
    let paths = design.sources.iter().map(|source| base.join(source));
    let (programs, paths) = paths.partition(|path| is_program(path));
    [programs, paths]
}

/// Returns the only instance of the block in the design of a file in `base`, and its source.
///
/// # Errors
/// The design has no block, or a source cannot be read.
pub(crate) fn block_of(design: &Design, base: &Path) -> Result<(PathBuf, Instance), BuildError> {
    let [_, paths] = sources(design, base);
    find_block(design, &paths)
}

/// Returns the path of the netlist that Verilator wrote during the build.
pub(crate) fn netlist(folder: &Path, waves: bool) -> PathBuf {
    objects(folder, waves).join("netlist.xml")
}

fn objects(folder: &Path, waves: bool) -> PathBuf {
    folder.join(if waves { "obj-waves" } else { "obj" })
}

/// Returns the only instance of the block, and its source.
fn find_block(design: &Design, paths: &[PathBuf]) -> Result<(PathBuf, Instance), BuildError> {
    let module = design.module();
    let mut found: Option<(PathBuf, Instance)> = None;
    for path in paths {
        let bytes = source_bytes(path)?;
        let wrong = |line, why| BuildError::Source { path: path.clone(), line, why };
        let all = source::instances(&String::from_utf8_lossy(&bytes), &module);
        for instance in all.map_err(|e| wrong(e.line, e.why))? {
            if let Some((other, first)) = &found {
                let first = format!("{}:{}", other.display(), first.line);
                return Err(wrong(
                    instance.line,
                    format!("second instance of `{module}`; the first is at {first}, expected only one"),
                ));
            }
            found = Some((path.clone(), instance));
        }
    }
    found.ok_or(BuildError::NoBlock { module, sources: paths.len() })
}

struct Build<'a> {
    design: &'a Design,
    base: &'a Path,
    folder: &'a Path,
    objects: &'a Path,
    waves: bool,
}

impl Build<'_> {
    /// Runs Verilator to write C++, and compiles it.
    fn verilate(&self, sources: &[PathBuf]) -> Result<(), BuildError> {
        let (tool, mut command) = self.verilator();
        command.args(["--cc", "-j", "0", "-O3", "--prefix", "Vriser_top"]);
        command.args(["--x-assign", "unique", "--x-initial", "unique", "-Wno-style"]);
        command.args(["-CFLAGS", "-fPIC -O3 -DVL_USER_FATAL -DVL_USER_FINISH -DVL_USER_STOP"]);
        // The makefile runs in the folder below, so the path is relative to that folder.
        command.args(["-CFLAGS", &format!("-fvisibility=hidden -include ../{PRINT_FILE}"), "-Mdir"]);
        command.arg(self.objects);
        if self.waves {
            command.arg("--trace-fst");
        }
        self.add_sources(&mut command, sources);
        self.run(&tool, command, "verilator", LOG)?;
        self.make()
    }

    /// Compiles Verilator's output. `verilator --build` does not work in a folder with special characters in its path.
    fn make(&self) -> Result<(), BuildError> {
        // The rules in this file name the sources without quotes. Verilator itself checks whether the sources have changed.
        let _ = fs::remove_file(self.objects.join("Vriser_top__ver.d"));
        let make = Tool::from_env("MAKE", "make");
        let mut command = make.command();
        let jobs = thread::available_parallelism().map_or(1, usize::from);
        command.current_dir(self.objects).args(["-f", "Vriser_top.mk", &format!("-j{jobs}"), "OPT_FAST=-O3"]);
        // Verilator's makefile rejects a folder with blanks in its path, but does not use the path.
        command.args(["CURDIR=.", &format!("CXX={}", compiler().for_make())]);
        self.run(&make, command, COMPILER, "make.log")
    }

    /// Returns Verilator, and a command that runs it.
    fn verilator(&self) -> (Tool, Command) {
        let tool = Tool::from_env("VERILATOR", "verilator");
        let mut command = tool.command();
        command.args(["--top-module", standin::TOP, "-Wno-fatal", "-Wno-TIMESCALEMOD", "-Wno-PINMISSING"]);
        (tool, command)
    }

    /// Returns the clocks without an edge, if this Verilator writes a netlist.
    fn still_clocks(&self, sources: &[PathBuf]) -> Result<Option<Vec<UndrivenClock>>, BuildError> {
        let (_, mut command) = self.verilator();
        let path = netlist(self.folder, self.waves);
        command.args(["--xml-only", "--flatten", "-Wno-lint", "-Wno-style", "--xml-output"]).arg(&path);
        command.arg("-Mdir").arg(self.objects);
        self.add_sources(&mut command, sources);
        if !command.output().is_ok_and(|output| output.status.success()) {
            return Ok(None);
        }
        let bytes = fs::read(&path).map_err(|why| BuildError::File { path, why })?;
        Ok(Some(still_clocks(&Netlist::read(&String::from_utf8_lossy(&bytes)))))
    }

    /// Adds the options and sources of the design's file.
    fn add_sources(&self, command: &mut Command, sources: &[PathBuf]) {
        command.args(&self.design.verilator);
        command.args(self.design.includes.iter().map(|path| include(&self.base.join(path))));
        command.args(self.design.defines.iter().map(|(name, value)| format!("+define+{name}={value}")));
        command.arg("-v").arg(self.folder.join("riser_primitives.v"));
        command.arg(self.folder.join("riser_top.sv")).arg(self.folder.join("riser_block.sv")).args(sources);
    }

    /// Checks that the signals connected to the block and to the top have the widths of the ports.
    fn check_widths(&self, path: &Path, instance: &Instance) -> Result<(), BuildError> {
        let log = fs::read_to_string(self.folder.join(LOG)).unwrap_or_default();
        let lines = instance.connections.iter().map(|connection| connection.line);
        let lines = instance.line..=lines.max().unwrap_or(instance.line);
        let has = |port: &str| instance.connections.iter().any(|connection| connection.port == port);
        // Verilator prints a path in its shortest form.
        let whole = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let (top, source) = (whole(&self.folder.join(TOP_FILE)), whole(path));
        let is_here = |c: &Complaint<'_>| {
            let place = whole(Path::new(c.path));
            place == top || (place == source && lines.contains(&c.line) && c.port().is_some_and(has))
        };
        match complaints(&log).find(|c| c.is_misfit() && is_here(c)) {
            Some(Complaint { path, line, what, .. }) => {
                let why = format!("{what} (verilator = [\"-Wno-WIDTH\"] accepts it)");
                Err(BuildError::Source { path: path.into(), line, why })
            }
            None => Ok(()),
        }
    }

    /// Returns the compiler flags for Verilator's library and the code around it.
    fn flags(&self, verilator: &Path) -> Vec<String> {
        let waves = u8::from(self.waves);
        let mut flags: Vec<String> =
            ["-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden"].map(str::to_owned).into();
        flags.extend([format!("-DVM_TRACE={waves}"), format!("-DVM_TRACE_FST={waves}")]);
        flags.extend(
            ["include", "include/vltstd"].map(|path| format!("-I{}", verilator.join(path).display())),
        );
        flags.extend(["-DVL_USER_FATAL", "-DVL_USER_FINISH", "-DVL_USER_STOP"].map(str::to_owned));
        // By name only, because the file is in two folders: Verilator's library and the design.
        flags.extend(["-include", PRINT_FILE].map(str::to_owned));
        flags
    }

    /// Links the library.
    fn link(&self, programs: &[PathBuf]) -> Result<PathBuf, BuildError> {
        let library = library(self.folder, self.waves);
        let part = library.with_extension("so.part");
        let include = verilator_root(self.objects);
        let tool = compiler();
        let flags = self.flags(&include);
        let runtime = Runtime {
            tool: tool.clone(),
            flags: flags.clone(),
            include: include.join("include"),
            names: runtime(self.objects).collect(),
            header: (PRINT_FILE, PRINT),
        };
        let objects =
            runtime.objects(self.folder, |command| self.run(&tool, command, COMPILER, "runtime.log"))?;
        let mut command = tool.command();
        command.args(flags).args(["-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs"]);
        command.args([
            format!("-DRISER_ABI={ABI}"),
            format!("-DRISER_FINGERPRINT=\"{}\"", fingerprint(self.design, self.base)?),
        ]);
        command.arg("-I").arg(self.folder).arg("-I").arg(self.objects).arg(self.folder.join("shim.cpp"));
        for program in programs {
            let language = if program.extension().is_some_and(|end| end == "c") { "c" } else { "c++" };
            command.args(["-x", language]).arg(program);
        }
        command.args(["-x", "none"]);
        command.args(objects).arg(self.objects.join("Vriser_top__ALL.a"));
        command.args(["-lz", "-lpthread", "-o"]).arg(&part);
        self.run(&tool, command, COMPILER, "compiler.log")?;
        fs::rename(&part, &library).map_err(|why| BuildError::File { path: library.clone(), why })?;
        Ok(library)
    }

    /// Runs a command of `tool`, and writes its output to the file `log`. `name` is the tool's name in errors.
    fn run(
        &self,
        tool: &Tool,
        mut command: Command,
        name: &'static str,
        log: &str,
    ) -> Result<(), BuildError> {
        let output = command.output().map_err(|why| BuildError::NoTool { tool: tool.name(), why })?;
        let said = [&output.stdout[..], &output.stderr].concat();
        let log = self.folder.join(log);
        fs::write(&log, &said).map_err(|why| BuildError::File { path: log.clone(), why })?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = reason(&String::from_utf8_lossy(&said), output.status);
                Err(BuildError::Tool { tool: name, said, log })
            }
        }
    }
}

/// Returns the C++ compiler.
fn compiler() -> Tool {
    Tool::from_env("CXX", "c++")
}

/// Returns the option that adds a folder to the include path.
fn include(folder: &Path) -> OsString {
    let mut option = OsString::from("-I");
    option.push(folder);
    option
}

/// Returns the parts of Verilator's own library that the design needs, from a makefile that Verilator wrote.
fn runtime(objects: &Path) -> impl Iterator<Item = String> + use<> {
    let text = fs::read_to_string(objects.join("Vriser_top_classes.mk")).unwrap_or_default();
    let lists = text.split("VM_GLOBAL_").skip(1).map(|list| {
        let words = list.split_whitespace().skip(2);
        words
            .take_while(|word| !word.starts_with('#'))
            .filter(|word| *word != "\\")
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    lists.collect::<Vec<_>>().into_iter().flatten()
}

/// Returns the folder of Verilator's own sources, from the makefile that it wrote.
fn verilator_root(objects: &Path) -> PathBuf {
    let text = fs::read_to_string(objects.join("Vriser_top.mk")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VERILATOR_ROOT = "));
    PathBuf::from(line.unwrap_or("/usr/share/verilator"))
}
