// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fetches Debian packages with apt, without root. riser has its own sources, package lists and package status, in its
//! own folder. The host's sources are only read, to find the mirror. The host's proxies, credentials and other settings
//! apply.
//!
//! apt verifies all downloads with the keys of Debian's archive. Unverified packages are rejected.

use super::command::{Finished, exists, run, tethered};
use super::{Sources, Watch};
use crate::error::{Context, Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Keyring of Debian's archive, as installed by its package.
const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp"];

/// Names of Debian releases in sources. Third-party sources may use the same names, see [`mirror_among`].
const RELEASES: [&str; 11] = [
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "sid",
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "unstable",
];

/// Host settings to clear: hooks after updates (which may empty the host's cache), and architectures other than amd64.
const CLEARED: [&str; 4] = ["APT::Architectures", "APT::Update", "DPkg::Pre-Invoke", "DPkg::Post-Invoke"];

/// Files and folders of apt that are in our folder.
const OWN: [(&str, &str); 10] = [
    ("Dir::Etc::SourceList", "debian.sources"),
    ("Dir::Etc::SourceParts", "none"),
    ("Dir::Etc::PreferencesParts", "none"),
    ("Dir::State", ""),
    ("Dir::State::Status", "status"),
    ("Dir::State::Lists", "lists"),
    ("Dir::State::extended_states", "extended_states"),
    ("Dir::Cache", ""),
    ("Dir::Cache::Archives", "archives"),
    ("Dir::Log", ""),
];

/// Settings of apt, see apt.conf(5): only required packages, all verified, and complete lists.
const SETTINGS: [(&str, &str); 12] = [
    ("Dir::Etc::Preferences", "/dev/null"),
    ("APT::Default-Release", ""),
    ("APT::Install-Recommends", "false"),
    ("APT::Install-Suggests", "false"),
    ("APT::Update::Error-Mode", "any"),
    ("APT::Get::AllowUnauthenticated", "false"),
    ("Acquire::AllowInsecureRepositories", "false"),
    ("Acquire::AllowWeakRepositories", "false"),
    ("Acquire::AllowDowngradeToInsecureRepositories", "false"),
    ("Acquire::Languages", "none"),
    ("Acquire::PDiffs", "false"),
    ("Acquire::Retries", "3"),
];

/// A private apt, for some suites and one architecture.
pub(super) struct Apt {
    folder: PathBuf,
}

/// Relations of a package to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) name: String,
    /// Names in `Depends` and `Pre-Depends`, with all alternatives.
    pub(super) needs: Vec<String>,
    /// Names in `Provides`.
    pub(super) provides: Vec<String>,
}

/// A file to download.
#[derive(Debug, PartialEq, Eq)]
struct Download {
    file: String,
    bytes: u64,
}

impl Apt {
    /// Writes the settings into an empty folder and fetches the package lists.
    pub(super) fn open(
        folder: &Path,
        suites: &str,
        architecture: &str,
        sources: &Sources,
        watch: &mut Watch,
    ) -> std::result::Result<Apt, Failure> {
        for needed in ["apt-get", "dpkg-deb", "setpriv"] {
            if !exists(needed) {
                let why = format!("the program {needed} of Debian and its derivatives is missing");
                return Err(Failure::Why(why));
            }
        }
        let (mirror, keyring) = (mirror(sources, watch)?, keyring(sources)?);
        check("mirror", &mirror)?;
        check("keyring", &keyring.to_string_lossy())?;
        if folder.to_string_lossy().contains(['"', '\\', '\n']) {
            let why = format!(
                "the cache {}: expected a path without quote, backslash or line feed",
                folder.display()
            );
            return Err(Failure::Other(Error::Option(why)));
        }
        let apt = Apt { folder: folder.to_owned() };
        apt.configure(&mirror, suites, architecture, &keyring)?;
        watch.step(&format!("lists of packages of Debian {suites}"))?;
        let finished = run(apt.command("apt-get", &["update"]), watch, |watch| watch.look())?;
        succeeded(finished, "apt-get update")?;
        Ok(apt)
    }

    fn configure(&self, mirror: &str, suites: &str, architecture: &str, keyring: &Path) -> Result<()> {
        for name in ["lists/partial", "archives/partial", "none"] {
            let path = self.folder.join(name);
            fs::create_dir_all(&path).context(|| path.display().to_string())?;
        }
        let sources = format!(
            "Types: deb\nURIs: {mirror}\nSuites: {suites}\nComponents: main\nArchitectures: {architecture}\n\
             Targets: Packages\nSigned-By: {}\n",
            keyring.display()
        );
        let mut settings: String = CLEARED.iter().map(|name| format!("#clear {name};\n")).collect();
        for (name, file) in OWN {
            settings += &format!("{name} \"{}\";\n", self.folder.join(file).display());
        }
        for (name, value) in [("APT::Architecture", architecture)].iter().chain(&SETTINGS) {
            settings += &format!("{name} \"{value}\";\n");
        }
        for (name, text) in [("debian.sources", sources.as_str()), ("status", ""), ("settings", &settings)] {
            let path = self.folder.join(name);
            fs::write(&path, text).context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// Returns an apt command with riser's settings, which override those of the host.
    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = tethered(program);
        command.arg("-c").arg(self.folder.join("settings")).arg("-q").args(arguments);
        command.current_dir(self.folder.join("archives"));
        command
    }

    /// Fetches packages and unpacks each into a folder of its name. With `closure`, includes all dependencies.
    pub(super) fn unpack(
        &self,
        packages: &[&str],
        closure: Option<&str>,
        into: &Path,
        watch: &mut Watch,
    ) -> std::result::Result<(), Failure> {
        let mut arguments = match closure {
            Some(release) => vec!["install", "-y", "--download-only", "-t", release],
            None => vec!["download"],
        };
        arguments.extend(packages);
        let mut ask = arguments.clone();
        ask.insert(1, "--print-uris");
        ask.insert(1, "-qq");
        let asked = run(self.command("apt-get", &ask), watch, |watch| watch.look())?;
        let downloads = downloads(&succeeded(asked, "apt-get")?);
        if downloads.is_empty() {
            return Err(Failure::Why(format!("apt offers no file to download for {}", packages.join(", "))));
        }
        self.download(&arguments, &downloads, packages, watch)?;
        watch.step(&format!("unpacking {}", packages.join(", ")))?;
        for download in &downloads {
            let file = self.folder.join("archives").join(&download.file);
            let target = into.join(name_of(&download.file));
            fs::create_dir_all(&target).context(|| target.display().to_string())?;
            let mut command = tethered("dpkg-deb");
            command.arg("--extract").arg(&file).arg(&target);
            succeeded(run(command, watch, |watch| watch.look())?, "dpkg-deb")?;
            // Some packages have folders that only root can read, but users may share a cache that root has filled.
            let mut command = tethered("chmod");
            command.args(["-R", "a+rX"]).arg(&target);
            succeeded(run(command, watch, |watch| watch.look())?, "chmod")?;
            fs::remove_file(&file).context(|| file.display().to_string())?;
        }
        Ok(())
    }

    /// Downloads the listed files and reports progress.
    fn download(
        &self,
        arguments: &[&str],
        downloads: &[Download],
        packages: &[&str],
        watch: &mut Watch,
    ) -> std::result::Result<(), Failure> {
        let total = downloads.iter().map(|d| d.bytes).sum();
        watch.step(&format!("fetching {} ({} files)", packages.join(", "), downloads.len()))?;
        let archives = self.folder.join("archives");
        let finished = run(self.command("apt-get", arguments), watch, |watch| {
            watch.bytes(size(&archives).min(total), total)
        })?;
        succeeded(finished, "apt-get")?;
        for download in downloads {
            if !archives.join(&download.file).is_file() {
                return Err(Failure::Why(format!("apt-get succeeded without downloading {}", download.file)));
            }
        }
        watch.bytes(total, total)?;
        Ok(())
    }

    /// Returns the first dependency of `package`.
    pub(super) fn first_dependency(
        &self,
        package: &str,
        watch: &mut Watch,
    ) -> std::result::Result<String, Failure> {
        let first = self.dependencies(package, watch)?.into_iter().next();
        first.ok_or(Failure::Why(format!("the package {package} has no dependencies")))
    }

    /// Returns the relations of these packages.
    pub(super) fn show(
        &self,
        packages: &[String],
        watch: &mut Watch,
    ) -> std::result::Result<Vec<Package>, Failure> {
        let mut command = self.command("apt-cache", &["show"]);
        command.args(packages);
        let shown = run(command, watch, |watch| watch.look())?;
        Ok(succeeded(shown, "apt-cache")?.split("\n\n").map(package).collect())
    }

    /// Returns the dependencies of `package`: the first of each group of alternatives.
    pub(super) fn dependencies(
        &self,
        package: &str,
        watch: &mut Watch,
    ) -> std::result::Result<Vec<String>, Failure> {
        let shown = run(self.command("apt-cache", &["show", package]), watch, |watch| watch.look())?;
        Ok(dependencies(&succeeded(shown, "apt-cache")?))
    }
}

/// Parses the field `Depends` and returns the first of each group of alternatives (Debian Policy §7.1).
fn dependencies(shown: &str) -> Vec<String> {
    let line = shown.lines().find_map(|line| line.strip_prefix("Depends: ")).unwrap_or_default();
    let names =
        line.split(',').filter_map(|group| group.split([' ', '|', '(', ':']).find(|name| !name.is_empty()));
    names.map(str::to_owned).collect()
}

/// Parses a paragraph of `apt-cache show` (Debian Policy §7.1).
fn package(shown: &str) -> Package {
    let field = |name: &str| {
        let line = shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_default()
    };
    let names = |line: &'static str| {
        let words = field(line).split([',', '|']).filter_map(|name| name.trim().split([' ', ':']).next());
        words.filter(|name| !name.is_empty()).map(str::to_owned)
    };
    Package {
        name: field("Package").to_owned(),
        needs: names("Depends").chain(names("Pre-Depends")).collect(),
        provides: names("Provides").collect(),
    }
}

/// Rejects text that is not one word, because apt's source files would read it as several words.
fn check(what: &str, word: &str) -> Result<()> {
    match word.is_empty() || word.contains(|c: char| c.is_whitespace() || c.is_control()) {
        false => Ok(()),
        true => Err(Error::Option(format!("the {what} {word:?}: expected one word without spaces"))),
    }
}

/// Returns the size of all files in a folder and below, in bytes.
pub(super) fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(m) if m.is_dir() => size(&entry.path()),
            Ok(m) => m.len(),
            // The file was renamed during the walk.
            Err(_) => 0,
        })
        .sum()
}

/// Why a fetch failed: a message, or an error that is not about fetching.
pub(super) enum Failure {
    Why(String),
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Other(error)
    }
}

fn succeeded(finished: Finished, name: &str) -> std::result::Result<String, Failure> {
    match finished.status.success() {
        true => Ok(finished.stdout),
        false => Err(Failure::Why(format!("{name}: {}", finished.complaint()))),
    }
}

/// Parses the output of `--print-uris`: `'URI' FILE BYTES HASH`.
fn downloads(text: &str) -> Vec<Download> {
    let lines = text.lines().filter(|line| line.starts_with('\''));
    lines
        .filter_map(|line| {
            let mut words = line.rsplit(' ');
            let (_hash, bytes, file) = (words.next()?, words.next()?, words.next()?);
            Some(Download { file: file.to_owned(), bytes: bytes.parse().ok()? })
        })
        .collect()
}

/// Returns the package name in a file name `NAME_VERSION_ARCHITECTURE.deb`.
fn name_of(file: &str) -> &str {
    file.split('_').next().unwrap_or(file)
}

/// Returns the caller's mirror of Debian, or the mirror in the host's sources.
fn mirror(sources: &Sources, watch: &mut Watch) -> std::result::Result<String, Failure> {
    if let Some(mirror) = &sources.mirror {
        return Ok(mirror.clone());
    }
    let format = "$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)\t$(SIGNED_BY)";
    let mut command = tethered("apt-get");
    command.args(["indextargets", "--format", format, "Created-By: Packages"]);
    let listed = succeeded(run(command, watch, |watch| watch.look())?, "apt-get indextargets")?;
    mirror_among(&listed).ok_or(Failure::Why(
        "this machine's package sources have no mirror of Debian: specify one (--mirror URL)".to_owned(),
    ))
}

/// Finds Debian's mirror in apt's list of index targets. A line has URI, release, component and keys, separated by tabs. Third
/// parties use the names of Debian's releases too, so the archive must be signed with Debian's keys or be in a folder `debian`.
fn mirror_among(list: &str) -> Option<String> {
    let rank = |uri: &str, keys: &str| {
        (!keys.contains("debian-archive"), !uri.trim_end_matches('/').ends_with("/debian"))
    };
    let mut found: Vec<_> = list
        .lines()
        .filter_map(|line| {
            let mut fields = line.split('\t');
            let (uri, release, component) = (fields.next()?, fields.next()?, fields.next()?);
            let is_debian = component == "main" && RELEASES.contains(&release) && !uri.starts_with("cdrom:");
            let rank = rank(uri, fields.next().unwrap_or_default());
            (is_debian && rank != (true, true)).then_some((rank, uri))
        })
        .collect();
    // The first of the best, in the order of the sources.
    found.sort_by_key(|(rank, _)| *rank);
    found.first().map(|(_, uri)| (*uri).to_owned())
}

/// Returns the keyring of Debian's archive.
fn keyring(sources: &Sources) -> std::result::Result<PathBuf, Failure> {
    if let Some(keyring) = &sources.keyring {
        return match keyring.is_file() {
            true => {
                std::path::absolute(keyring).context(|| keyring.display().to_string()).map_err(Failure::Other)
            }
            false => Err(Failure::Why(format!("no keyring {}", keyring.display()))),
        };
    }
    let found = KEYRINGS.iter().map(PathBuf::from).find(|path| path.is_file());
    found.ok_or(Failure::Why(format!(
        "no keyring {} to verify packages: install the package debian-archive-keyring, or specify its file \
         (--keyring FILE)",
        KEYRINGS[0]
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_alternative_of_a_dependency_is_used() {
        let shown = "Package: linux-headers-6.12.117+deb13-amd64\nDepends: linux-base (>= 4.12~), linux-image-6.12.117+deb13-amd64 (= \
            6.12.117-1) | linux-image-6.12.117+deb13-amd64-unsigned (= 6.12.117-1), gcc-14, python3:any\nSize: 3\n";
        let expected = ["linux-base", "linux-image-6.12.117+deb13-amd64", "gcc-14", "python3"];
        assert_eq!(dependencies(shown), expected);
        assert!(dependencies("Package: none\n").is_empty());
    }

    #[test]
    fn parses_package_relations() {
        let shown = "Package: nvme-cli\nDepends: libc6 (>= 2.38), python3:any, awk | mawk (>= 1), uuid\nPre-Depends: debconf\n\
            Description: Depends: nothing\nProvides: nvme (= 2), nvme-tool\n";
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let expected = Package {
            name: "nvme-cli".to_owned(),
            needs: names(&["libc6", "python3", "awk", "mawk", "uuid", "debconf"]),
            provides: names(&["nvme", "nvme-tool"]),
        };
        assert_eq!(package(shown), expected);
        assert_eq!(package(""), Package::default());
    }

    #[test]
    fn finds_mirror_of_debian() {
        let debian =
            "http://mirror.example/debian/\ttrixie\tmain\t/usr/share/keyrings/debian-archive-keyring.gpg";
        for (list, expected) in [
            (debian, Some("http://mirror.example/debian/")),
            // A third party that uses Debian's names; signed with keys that apt trusts for all sources.
            ("https://apt.example/\ttrixie\tmain\t/usr/share/keyrings/other.gpg", None),
            ("https://apt.example/\ttrixie\tmain\t", None),
            ("http://mirror.example/debian\tstable\tmain\t", Some("http://mirror.example/debian")),
            // Security updates lack older kernels, and components other than main lack packages of the archive.
            ("http://mirror.example/debian-security/\ttrixie-security\tmain\tdebian-archive", None),
            ("http://mirror.example/debian/\ttrixie\tcontrib\tdebian-archive", None),
            ("http://mirror.example/ubuntu/\tnoble\tmain\t", None),
            ("cdrom:[Debian]/\ttrixie\tmain\tdebian-archive", None),
            (
                "mirror+file:/etc/apt/mirrors/debian.list\ttrixie\tmain\tdebian-archive",
                Some("mirror+file:/etc/apt/mirrors/debian.list"),
            ),
            ("", None),
            ("\t\t", None),
        ] {
            assert_eq!(mirror_among(list).as_deref(), expected, "{list}");
        }
        // The mirror with Debian's keys comes first, wherever it is in the list.
        let both = format!("http://other.example/debian\ttrixie\tmain\tother.gpg\n{debian}");
        assert_eq!(mirror_among(&both).as_deref(), Some("http://mirror.example/debian/"));
    }

    #[test]
    fn parses_uris_of_apt() {
        let text = "'http://m/p/a_1%3a2_amd64.deb' a_1%3a2_amd64.deb 123 SHA256:00\nReading\n'http://m/b.deb' b.deb x MD5Sum:1\n";
        let expected = [Download { file: "a_1%3a2_amd64.deb".to_owned(), bytes: 123 }];
        assert_eq!(downloads(text), expected);
        assert_eq!(name_of(&expected[0].file), "a");
    }
}
