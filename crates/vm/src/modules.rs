// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's modules, and their load order.
//!
//! Debian's packages have no `modules.dep` (it is created during installation). So this code reads the `.modinfo`
//! section of each module, like `depmod`.

use crate::error::{Context, Result, bad_file, read};
use crate::kernel;
use object::read::elf::{ElfFile64, SectionHeader};
use object::{Endianness, Object};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Upper limit on the size of an unpacked module, in bytes.
const LONGEST: usize = 256 << 20;

/// An unpacked module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Name, with `_` for each `-`.
    pub name: String,
    /// The ELF file.
    pub bytes: Vec<u8>,
    /// Names of modules that must be loaded before this module.
    depends: Vec<String>,
    /// Names of modules to load before this module, if the kernel has them (`softdep: pre`).
    wishes: Vec<String>,
    /// Names of modules to load after this module, if the kernel has them (`softdep: post`).
    followers: Vec<String>,
    /// The kernel that the module was built for: first word of `vermagic`.
    pub kernel: String,
}

impl Module {
    /// Reads a `.ko`, `.ko.xz` or `.ko.zst` file.
    ///
    /// # Errors
    /// If the file cannot be read or is not a module.
    pub fn read(path: &Path) -> Result<Module> {
        let bytes = read(path)?;
        let bad = |what: String| bad_file(path, what);
        let bytes = match path.extension().and_then(|e| e.to_str()) {
            Some("xz") => kernel::xz(&bytes, LONGEST).map_err(|e| bad(format!("damaged xz: {e}")))?,
            Some("zst") => kernel::zstd(&bytes, LONGEST).map_err(|e| bad(format!("damaged zstd: {e}")))?,
            _ => bytes,
        };
        Module::parse(path, bytes)
    }

    fn parse(path: &Path, bytes: Vec<u8>) -> Result<Module> {
        let info = modinfo(path, &bytes)?;
        let text = String::from_utf8_lossy(&info);
        let values = |key: &str| -> Vec<&str> {
            text.split('\0').filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
        };
        let vermagic = values("vermagic");
        let kernel = vermagic.first().and_then(|v| v.split(' ').next());
        let kernel = kernel
            .ok_or_else(|| bad_file(path, "not a kernel module: no vermagic in its .modinfo section"))?
            .to_owned();
        let name = values("name").first().map_or_else(|| file_name(path), |name| plain(name));
        let depends =
            values("depends").into_iter().flat_map(|v| v.split(',')).filter(|v| !v.is_empty()).map(plain);
        let soft = |key: &str| values("softdep").into_iter().flat_map(|line| soft(line, key)).collect();
        let (depends, wishes, followers) = (depends.collect(), soft("pre"), soft("post"));
        Ok(Module { name, depends, wishes, followers, kernel, bytes })
    }
}

/// Returns the modules of one key, `pre` or `post`, in a soft dependency: `pre: a b post: c` (modprobe.d(5)).
fn soft(line: &str, key: &str) -> Vec<String> {
    let mut is_of_key = false;
    let mut found = Vec::new();
    for word in line.split_whitespace() {
        match word.strip_suffix(':') {
            Some(other) => is_of_key = other == key,
            None if is_of_key => found.push(plain(word)),
            None => {}
        }
    }
    found
}

/// Returns the kernel's form of a module name.
pub(crate) fn plain(name: &str) -> String {
    name.replace('-', "_")
}

/// Returns the name of the module in a file.
fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    plain(name.split(".ko").next().unwrap_or_default())
}

fn modinfo(path: &Path, bytes: &[u8]) -> Result<Vec<u8>> {
    let file = ElfFile64::<Endianness>::parse(bytes);
    let file = file.map_err(|e| bad_file(path, format!("not a kernel module: {e}")))?;
    let section = file.section_by_name(".modinfo");
    let section = section.ok_or_else(|| bad_file(path, "not a kernel module: no section .modinfo"))?;
    let endian = file.endian();
    let data = section.elf_section_header().data(endian, bytes);
    data.map(<[u8]>::to_vec).map_err(|e| bad_file(path, format!("damaged section .modinfo: {e}")))
}

/// The modules of one kernel.
#[derive(Clone, Debug, Default)]
pub struct Modules {
    folder: PathBuf,
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
}

impl Modules {
    /// Finds the modules below a folder such as `/lib/modules/VERSION`.
    ///
    /// # Errors
    /// If the folder cannot be read, or has neither modules nor a list of built-in modules.
    pub fn below(folder: &Path) -> Result<Modules> {
        let mut found = Modules { folder: folder.to_owned(), ..Modules::default() };
        found.collect(folder)?;
        let list = folder.join("modules.builtin");
        if list.is_file() {
            let list = read(&list)?;
            let list = String::from_utf8_lossy(&list);
            found.built_in = list.lines().map(|line| file_name(Path::new(line))).collect();
        }
        if found.files.is_empty() && found.built_in.is_empty() {
            return Err(bad_file(
                folder,
                "no .ko files and no modules.builtin, expected /lib/modules/VERSION of a kernel",
            ));
        }
        Ok(found)
    }

    fn collect(&mut self, folder: &Path) -> Result<()> {
        let what = || format!("the folder of modules {}", folder.display());
        for entry in fs::read_dir(folder).context(what)? {
            let entry = entry.context(what)?;
            let path = entry.path();
            // Links are not followed: `build` and `source` lead out of the folder.
            if entry.file_type().context(what)?.is_dir() {
                self.collect(&path)?;
            } else if is_module(&path) {
                self.files.insert(file_name(&path), path);
            }
        }
        Ok(())
    }

    /// Returns the folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the file of a module.
    pub fn file(&self, name: &str) -> Option<&Path> {
        self.files.get(&plain(name)).map(PathBuf::as_path)
    }

    /// Returns whether there are no modules at all.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.built_in.is_empty()
    }

    /// Returns the modules with these names and all modules that they depend on, in load order. Includes soft
    /// dependencies that the kernel has: `pre` before a module, `post` after it. Omits built-in modules.
    ///
    /// # Errors
    /// If there is no module with one of the names, or a file is damaged.
    pub fn closure(&self, names: &[&str]) -> Result<Vec<Module>> {
        let mut order = Closure { modules: self, seen: BTreeSet::new(), order: Vec::new() };
        for name in names {
            order.add(&plain(name), None)?;
        }
        Ok(order.order)
    }

    /// As [`Modules::closure`], for a module from outside the kernel's folder.
    ///
    /// # Errors
    /// The same.
    pub fn closure_of(&self, module: Module) -> Result<Vec<Module>> {
        let mut order = Closure { modules: self, seen: BTreeSet::new(), order: Vec::new() };
        order.add_module(module)?;
        Ok(order.order)
    }
}

fn is_module(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    [".ko", ".ko.xz", ".ko.zst"].iter().any(|end| name.ends_with(end))
}

/// A depth-first walk.
struct Closure<'a> {
    modules: &'a Modules,
    seen: BTreeSet<String>,
    order: Vec<Module>,
}

impl Closure<'_> {
    fn add(&mut self, name: &str, wanted_by: Option<&str>) -> Result<()> {
        if self.seen.contains(name) || self.modules.built_in.contains(name) {
            return Ok(());
        }
        let Some(path) = self.modules.files.get(name) else {
            let by = wanted_by.map_or(String::new(), |by| format!(", which {by} needs"));
            return Err(bad_file(&self.modules.folder, format!("this kernel has no module {name:?}{by}")));
        };
        self.add_module(Module::read(path)?)
    }

    fn add_module(&mut self, module: Module) -> Result<()> {
        // The module is marked before its dependencies, so that a cycle ends.
        self.seen.insert(module.name.clone());
        self.add_wishes(&module.wishes, &module.name)?;
        for needed in &module.depends {
            self.add(needed, Some(&module.name))?;
        }
        let (name, followers) = (module.name.clone(), module.followers.clone());
        self.order.push(module);
        self.add_wishes(&followers, &name)
    }

    /// Adds the modules of this list that the kernel has.
    fn add_wishes(&mut self, wishes: &[String], of: &str) -> Result<()> {
        for wish in wishes {
            // The name of an algorithm, with or without `crypto-`, is an alias of its generic implementation.
            let generic = format!("{}_generic", wish.strip_prefix("crypto_").unwrap_or(wish));
            let there = [wish, &generic].into_iter().find(|name| self.modules.files.contains_key(*name));
            if let Some(name) = there {
                self.add(name, Some(of))?;
            }
        }
        Ok(())
    }
}
