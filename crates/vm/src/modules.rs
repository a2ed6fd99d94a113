// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's modules: where they are, and what must be loaded before each.
//!
//! Debian's packages hold no `modules.dep` (it is written when they are installed), therefore each module's own `.modinfo` section
//! is read, of which `depmod` makes that file.

use crate::error::{Context, Result, bad_file, read};
use crate::kernel;
use object::read::elf::{ElfFile64, SectionHeader};
use object::{Endianness, Object};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// More than any module unpacks to, in bytes.
const LONGEST: usize = 256 << 20;

/// One module, unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name, with `_` for each `-`.
    pub name: String,
    /// The ELF file.
    pub bytes: Vec<u8>,
    /// Names of those that must be loaded before it.
    depends: Vec<String>,
    /// Names of those that should be, where they are there (`softdep: pre`).
    wishes: Vec<String>,
    /// Modules to load after it, if the kernel has them (`softdep: post`).
    followers: Vec<String>,
    /// The kernel that it was built for: the first word of `vermagic`.
    pub kernel: String,
}

impl Module {
    /// Reads a `.ko`, `.ko.xz` or `.ko.zst` file.
    ///
    /// # Errors
    /// It cannot be read, or is no module.
    pub fn read(path: &Path) -> Result<Module> {
        let bytes = read(path)?;
        let bad = |what: String| bad_file(path, what);
        let bytes = match path.extension().and_then(|e| e.to_str()) {
            Some("xz") => kernel::xz(&bytes, LONGEST).map_err(|e| bad(format!("damaged xz: {e}")))?,
            Some("zst") => kernel::zstd(&bytes, LONGEST).map_err(|e| bad(format!("damaged zstd: {e}")))?,
            _ => bytes,
        };
        Module::parse(file_name(path), bytes).map_err(bad)
    }

    fn parse(name: String, bytes: Vec<u8>) -> std::result::Result<Module, String> {
        let info = modinfo(&bytes)?;
        let text = String::from_utf8_lossy(&info);
        let values = |key: &str| -> Vec<&str> {
            text.split('\0').filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
        };
        let vermagic = values("vermagic");
        let kernel = vermagic.first().and_then(|v| v.split(' ').next());
        let kernel = kernel.ok_or("no kernel module: its .modinfo section has no vermagic")?.to_owned();
        let name = values("name").first().map_or(name, |name| plain(name));
        let depends =
            values("depends").into_iter().flat_map(|v| v.split(',')).filter(|v| !v.is_empty()).map(plain);
        let soft = |key: &str| values("softdep").into_iter().flat_map(|line| soft(line, key)).collect();
        let (depends, wishes, followers) = (depends.collect(), soft("pre"), soft("post"));
        Ok(Module { name, depends, wishes, followers, kernel, bytes })
    }
}

/// The modules of one key, `pre` or `post`, in a soft dependency: `pre: a b post: c` (modprobe.d(5)).
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

/// A name as the kernel has it.
pub(crate) fn plain(name: &str) -> String {
    name.replace('-', "_")
}

/// The module's name in that of its file.
fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    plain(name.split(".ko").next().unwrap_or_default())
}

fn modinfo(bytes: &[u8]) -> std::result::Result<Vec<u8>, String> {
    let file = ElfFile64::<Endianness>::parse(bytes).map_err(|e| format!("no kernel module: {e}"))?;
    let section = file.section_by_name(".modinfo").ok_or("no kernel module: it has no section .modinfo")?;
    let endian = file.endian();
    let data = section.elf_section_header().data(endian, bytes);
    data.map(<[u8]>::to_vec).map_err(|e| format!("damaged section .modinfo: {e}"))
}

/// The modules of one kernel.
#[derive(Clone, Debug, Default)]
pub struct Modules {
    folder: PathBuf,
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
}

impl Modules {
    /// Those below a folder, as `/lib/modules/VERSION` is one.
    ///
    /// # Errors
    /// The folder cannot be read, or has neither modules nor a list of those that are built in.
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
                "no modules: neither .ko files nor modules.builtin; /lib/modules/VERSION of a kernel is expected",
            ));
        }
        Ok(found)
    }

    fn collect(&mut self, folder: &Path) -> Result<()> {
        let what = || format!("the folder of modules {}", folder.display());
        for entry in fs::read_dir(folder).context(what)? {
            let entry = entry.context(what)?;
            let path = entry.path();
            // A link is not followed: `build` and `source` lead out of the folder.
            if entry.file_type().context(what)?.is_dir() {
                self.collect(&path)?;
            } else if is_module(&path) {
                self.files.insert(file_name(&path), path);
            }
        }
        Ok(())
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of a module.
    pub fn file(&self, name: &str) -> Option<&Path> {
        self.files.get(&plain(name)).map(PathBuf::as_path)
    }

    /// True where the kernel has none at all.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.built_in.is_empty()
    }

    /// The modules of these names and all that they need, in the order in which they must be loaded. Soft dependencies of the kernel's are
    /// among them: `pre` before a module, `post` after it. What is built into the kernel is left out.
    ///
    /// # Errors
    /// There is no module of a name, or a file is damaged.
    pub fn closure(&self, names: &[&str]) -> Result<Vec<Module>> {
        let mut order = Closure { modules: self, seen: BTreeSet::new(), order: Vec::new() };
        for name in names {
            order.add(&plain(name), None)?;
        }
        Ok(order.order)
    }

    /// As [`Modules::closure`], with a module that does not come from the kernel's folder.
    ///
    /// # Errors
    /// As there.
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

/// A walk in depth first.
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
        // Before those that it needs, so that a circle ends.
        self.seen.insert(module.name.clone());
        self.add_wishes(&module.wishes, &module.name)?;
        for needed in &module.depends {
            self.add(needed, Some(&module.name))?;
        }
        let (name, followers) = (module.name.clone(), module.followers.clone());
        self.order.push(module);
        self.add_wishes(&followers, &name)
    }

    /// Adds the modules that the kernel has.
    fn add_wishes(&mut self, wishes: &[String], of: &str) -> Result<()> {
        for wish in wishes {
            // An algorithm's name, with `crypto-` before it or not, is an alias that its plain implementation has.
            let generic = format!("{}_generic", wish.strip_prefix("crypto_").unwrap_or(wish));
            let there = [wish, &generic].into_iter().find(|name| self.modules.files.contains_key(*name));
            if let Some(name) = there {
                self.add(name, Some(of))?;
            }
        }
        Ok(())
    }
}
