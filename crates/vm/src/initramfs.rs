// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guest's files: busybox, an init, modules in load order, packages. The same parts give the same bytes.

use crate::cpio::Archive;
use crate::error::{Context, Error, Result, bad_file, read};
use crate::load::{Load, Which};
use crate::modules::{Module, Modules, plain};
use crate::parts::{Kernel, Programs};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The init: a script for busybox's shell.
const INIT: &str = include_str!("init.sh");

/// Modules for the ports through which the init talks to the host.
const PORTS: [&str; 2] = ["virtio_pci", "virtio_console"];
/// Modules for a shared folder.
const SHARE: [&str; 2] = ["9pnet_virtio", "9p"];

/// Lists of modules in a kernel's module folder.
const LISTS: [&str; 3] = ["modules.builtin", "modules.builtin.modinfo", "modules.order"];

/// Paths in packages that the guest does not need: documentation, and files of programs that it does not have.
const UNREAD: [&str; 13] = [
    "usr/share/doc/",
    "usr/share/doc-base/",
    "usr/share/man/",
    "usr/share/info/",
    "usr/share/locale/",
    "usr/share/i18n/",
    "usr/share/lintian/",
    "usr/share/bash-completion/",
    "usr/share/zsh/",
    "usr/share/icons/",
    "usr/lib/systemd/system/",
    "usr/lib/systemd/user/",
    "usr/lib/x86_64-linux-gnu/gconv/",
];

/// Folders that are links into `usr`, as in Debian.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

/// Links that the script of Debian's package base-files creates.
const LINKS: [(&str, &str); 2] = [("var/run", "/run"), ("var/lock", "/run/lock")];

/// Default files in `/etc`, for files that no package contains. They replace the work of package scripts, which do not
/// run: the scripts of base-passwd, passwd, libpam-runtime (`common-*`) and openssh-server (its user).
const FILES: [(&str, u32, &str); 11] = [
    (
        "etc/passwd",
        0o644,
        "root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\nuser:x:1000:1000::/home/user:/bin/sh\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("etc/group", 0o644, "root:x:0:\ntty:x:5:\ndisk:x:6:\nsudo:x:27:\nuser:x:1000:\nnogroup:x:65534:\n"),
    // Accounts have no password and do not expire.
    (
        "etc/shadow",
        0o600,
        "root:*:20000::::::\nsshd:*:20000::::::\nuser:*:20000::::::\nnobody:*:20000::::::\n",
    ),
    ("etc/hostname", 0o644, "guest\n"),
    ("etc/hosts", 0o644, "127.0.0.1 localhost guest\n::1 localhost\n"),
    ("etc/pam.d/common-auth", 0o644, "auth required pam_unix.so nullok\n"),
    ("etc/pam.d/common-account", 0o644, "account required pam_unix.so\n"),
    ("etc/pam.d/common-password", 0o644, "password required pam_unix.so\n"),
    ("etc/pam.d/common-session", 0o644, "session required pam_unix.so\n"),
    ("etc/pam.d/common-session-noninteractive", 0o644, "session required pam_unix.so\n"),
    (
        "etc/pam.d/other",
        0o644,
        "@include common-auth\n@include common-account\n@include common-password\n@include common-session\n",
    ),
];

/// Tasks of the init after it has loaded the modules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Command and arguments; empty for a shell.
    pub(crate) command: Vec<String>,
    /// Rows and columns of the terminal on which the command runs.
    pub(crate) terminal: Option<(u16, u16)>,
    /// Whether the command has an input.
    pub(crate) input: bool,
    /// Whether to mount a shared folder.
    pub(crate) share: bool,
    /// Files that must exist after the modules are loaded.
    pub(crate) expected: Vec<String>,
    /// Environment variables.
    pub(crate) environment: Vec<(String, String)>,
    /// Scripts to add to the path: name and text.
    pub(crate) scripts: Vec<(String, String)>,
}

/// Builds the archive.
pub(crate) fn build(kernel: &Kernel, programs: &Programs, load: &[Load], work: &Work) -> Result<Vec<u8>> {
    let mut archive = Archive::new();
    // The kernel opens it for the init before /dev is mounted.
    archive.character_device("dev/console", 5, 1);
    for name in MERGED {
        archive.directory(&format!("usr/{name}"));
        archive.link(name, &format!("usr/{name}"));
    }
    add_programs(&mut archive, programs)?;
    archive.file("init", 0o755, INIT.as_bytes().to_vec());
    for (path, mode, text) in FILES {
        if !archive.contains(path) {
            archive.file(path, mode, text.as_bytes().to_vec());
        }
    }
    for (path, target) in LINKS {
        archive.link(path, target);
    }
    let mut modules = Loading::new(&mut archive, kernel);
    modules.list("vm/ports", &PORTS.map(named))?;
    let share = work.share.then(|| SHARE.map(named)).into_iter().flatten();
    modules.list("vm/modules", &share.chain(load.iter().cloned()).collect::<Vec<_>>())?;
    modules.lists()?;
    for (name, text) in &work.scripts {
        if name.is_empty() || name.contains(['/', '\0']) {
            return Err(Error::Option(format!("{name:?}: invalid name of a script")));
        }
        archive.file(&format!("usr/local/bin/{name}"), 0o755, text.clone().into_bytes());
    }
    archive.file("vm/command", 0o755, command(&work.command).into_bytes());
    archive.file("vm/settings", 0o644, settings(work)?.into_bytes());
    Ok(archive.bytes())
}

fn named(name: &str) -> Load {
    Load { module: Which::Named(name.to_owned()), parameters: String::new() }
}

/// Returns the script that executes the command.
fn command(words: &[String]) -> String {
    if words.is_empty() {
        return "exec $(command -v bash sh | head -n 1) -l\n".to_owned();
    }
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("exec {}\n", words.join(" "))
}

/// Quotes a word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns the variables that the init reads.
fn settings(work: &Work) -> Result<String> {
    let flag = |name: &str, set: bool| format!("{name}={}\n", if set { "yes" } else { "" });
    let mut text = flag("share", work.share) + &flag("input", work.input);
    text += &flag("terminal", work.terminal.is_some());
    text += &format!("expected={}\n", quoted(&work.expected.join(" ")));
    if let Some((rows, columns)) = work.terminal {
        text += &format!("rows={rows}\ncolumns={columns}\n");
    }
    for (name, value) in &work.environment {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(legal) {
            return Err(Error::Option(format!("{name:?}: invalid name of an environment variable")));
        }
        text += &format!("export {name}={}\n", quoted(value));
    }
    Ok(text)
}

/// Lists of modules. No module is loaded twice.
struct Loading<'a> {
    archive: &'a mut Archive,
    modules: &'a Modules,
    /// Release of the kernel that all modules are for; `None` until it is known.
    release: Option<String>,
    loaded: BTreeSet<String>,
}

impl<'a> Loading<'a> {
    fn new(archive: &'a mut Archive, kernel: &'a Kernel) -> Loading<'a> {
        Loading {
            archive,
            modules: &kernel.modules,
            release: kernel.release.clone(),
            loaded: BTreeSet::new(),
        }
    }

    /// Adds modules and their dependencies to the archive, and a list of them in load order.
    fn list(&mut self, path: &str, load: &[Load]) -> Result<()> {
        let mut lines = String::new();
        for load in load {
            if load.parameters.contains(['\n', '\0']) {
                return Err(Error::Option(format!(
                    "{:?}: expected a module's parameters in one line",
                    load.parameters
                )));
            }
            let (wanted, closure) = self.closure(load)?;
            for module in &closure {
                if self.loaded.insert(module.name.clone()) {
                    let parameters = if module.name == wanted { &load.parameters } else { "" };
                    lines += &format!("/{} {parameters}\n", self.add(module)?);
                }
            }
        }
        self.archive.file(path, 0o644, lines.into_bytes());
        Ok(())
    }

    /// Returns a module's name, and the module with all its dependencies.
    fn closure(&self, load: &Load) -> Result<(String, Vec<Module>)> {
        Ok(match &load.module {
            // Without a module folder, the module is assumed to be built in.
            Which::Named(name) if self.modules.is_empty() => (plain(name), Vec::new()),
            Which::Named(name) => (plain(name), self.modules.closure(&[name])?),
            Which::File(path) => {
                let module = Module::read(path)?;
                (module.name.clone(), self.modules.closure_of(module)?)
            }
        })
    }

    /// Adds a module to the archive, where `modprobe` looks for it.
    fn add(&mut self, module: &Module) -> Result<String> {
        let release = self.release.get_or_insert_with(|| module.kernel.clone());
        if *release != module.kernel {
            return Err(Error::Option(format!(
                "the module {} is built for Linux {}, expected {release}",
                module.name, module.kernel
            )));
        }
        let file = format!("{}/{}.ko", folder(release), module.name);
        self.archive.file(&file, 0o644, module.bytes.clone());
        Ok(file)
    }

    /// Adds the files that `depmod` reads in addition to the modules.
    fn lists(&mut self) -> Result<()> {
        let Some(release) = &self.release else { return Ok(()) };
        for name in LISTS {
            let path = self.modules.folder().join(name);
            if path.is_file() {
                self.archive.file(&format!("{}/{name}", folder(release)), 0o644, read(&path)?);
            }
        }
        Ok(())
    }
}

/// Returns the folder of a kernel's modules.
fn folder(release: &str) -> String {
    format!("usr/lib/modules/{release}")
}

/// Adds busybox and the packages.
fn add_programs(archive: &mut Archive, programs: &Programs) -> Result<()> {
    archive.file("vm/busybox", 0o755, read(&programs.busybox)?);
    for folder in &programs.packages {
        add_tree(archive, folder, "")?;
    }
    if !archive.contains("usr/bin/sh") {
        let bash = archive.contains("usr/bin/bash");
        archive.link("usr/bin/sh", if bash { "bash" } else { "/vm/busybox" });
    }
    Ok(())
}

/// Adds the files below `root/path`.
fn add_tree(archive: &mut Archive, root: &Path, path: &str) -> Result<()> {
    let folder = root.join(path);
    let what = || folder.display().to_string();
    for entry in fs::read_dir(&folder).context(what)? {
        let entry = entry.context(what)?;
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| bad_file(&entry.path(), "expected a name in UTF-8"))?;
        let inner = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
        let target = in_usr(&inner);
        let kind = entry.file_type().context(what)?;
        if UNREAD.iter().any(|unread| format!("{target}/").starts_with(unread)) {
            continue;
        }
        if kind.is_dir() {
            add_tree(archive, root, &inner)?;
        } else if kind.is_symlink() {
            let link = fs::read_link(entry.path()).context(what)?;
            archive.link(&target, &link.to_string_lossy());
        } else if kind.is_file() {
            let mode = entry.metadata().context(what)?.permissions().mode();
            archive.file(&target, mode, read(&entry.path())?);
        }
    }
    Ok(())
}

/// Moves a path in `bin` and the like into `usr`, because these folders are links.
fn in_usr(path: &str) -> String {
    match path.split('/').next() {
        Some(first) if MERGED.contains(&first) => format!("usr/{path}"),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_words_of_the_command() {
        let words = ["a b", "it's", "$HOME", "", "-x", "a\nb"].map(str::to_owned);
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("command");
        fs::write(&script, command(&words).replace("exec ", "exec printf '<%s>' ")).unwrap();
        let output = std::process::Command::new("sh").arg(&script).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "<a b><it's><$HOME><><-x><a\nb>");
    }

    #[test]
    fn quotes_environment_variables() {
        let mut work = Work { environment: vec![("A_1".to_owned(), "'; rm".to_owned())], ..Work::default() };
        assert!(settings(&work).unwrap().ends_with("export A_1=''\\''; rm'\n"));
        for bad in ["", "1A", "A B", "A;", "A=B"] {
            work.environment[0].0 = bad.to_owned();
            assert!(
                settings(&work).unwrap_err().to_string().contains("invalid name of an environment variable")
            );
        }
    }

    #[test]
    fn moves_merged_folders_into_usr() {
        for (path, expected) in [
            ("bin/sh", "usr/bin/sh"),
            ("lib/x", "usr/lib/x"),
            ("usr/bin/a", "usr/bin/a"),
            ("library/a", "library/a"),
        ] {
            assert_eq!(in_usr(path), expected);
        }
    }
}
