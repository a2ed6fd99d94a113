// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Output of `riser completions` and `riser man`, read by the installed shells and `man`. The contents of pages are those of the help, and
//! are not tested here.

use crate::common::{riser, riser_ok};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shells").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Returns the output of a program; `None` if it is not installed.
fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let Ok(output) = output else {
        eprintln!("skipped: no {program}");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{program} {args:?}: {said}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn scripts_of_all_shells_contain_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = riser_ok(&["completions", shell]);
        for part in ["bench", "lspci", "inflight", "--transactions-json", "pcie-bench"] {
            assert!(script.contains(part.trim_start_matches("--")), "`{part}` for {shell}");
        }
        let path = scratch(shell).join("script");
        fs::write(&path, script).unwrap();
        let path = path.to_str().unwrap();
        match shell {
            "bash" => _ = output("bash", &["-n", path]),
            "zsh" => _ = output("zsh", &["-n", path]),
            "fish" => _ = output("fish", &["--no-execute", path]),
            _ => {}
        }
    }
}

/// Returns bash's completions after some words.
#[test]
fn bash_completes_commands_flags_and_values() {
    let path = scratch("completed").join("riser.bash");
    fs::write(&path, riser_ok(&["completions", "bash"])).unwrap();
    for (words, offered) in [
        ("riser ru", "run rules"),
        ("riser model in", "inflight"),
        ("riser run --trans", "--transactions-json"),
        ("riser run --capture-at r", "root"),
        ("riser completions el", "elvish"),
    ] {
        let last = words.split(' ').next_back().unwrap();
        let before = words.split(' ').nth_back(1).unwrap();
        let line = format!(
            "source '{}'; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); _riser riser '{last}' '{before}'; \
             echo \"${{COMPREPLY[*]}}\"",
            path.display()
        );
        let Some(found) = output("bash", &["-c", &line]) else { return };
        assert_eq!(found.trim(), offered, "{words}");
    }
}

#[test]
fn man_displays_page_of_every_command() {
    let folder = scratch("man");
    let path = folder.to_str().unwrap();
    assert_eq!(riser_ok(&["man", "-o", path]), "");
    let mut pages: Vec<String> =
        fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    pages.sort();
    for page in ["riser.1", "riser-run.1", "riser-model-bw.1", "riser-nettlp-cfg-read.1", "riser-man.1"] {
        assert!(pages.contains(&page.to_owned()), "{page} in {pages:?}");
    }
    assert!(pages.iter().all(|page| page.ends_with(".1") && !page.contains("help")), "{pages:?}");
    for (words, page) in [(&["man"][..], "riser.1"), (&["man", "model", "bw"], "riser-model-bw.1")] {
        assert_eq!(riser_ok(words).trim_end(), fs::read_to_string(folder.join(page)).unwrap().trim_end());
    }
    let again = riser(&["man", "-o", path]);
    assert!(again.code == 1 && again.stderr.contains("--force overwrites it"), "{}", again.stderr);
    assert_eq!(riser_ok(&["man", "-o", path, "--force"]), "");
    for page in &pages {
        let file = folder.join(page);
        let Some(text) = output("man", &["--warnings", "-l", file.to_str().unwrap()]) else { return };
        let name = page.trim_end_matches(".1");
        assert!(text.contains("NAME") && text.contains(name), "{page}:\n{text}");
        // An example stays on its own line.
        let example =
            format!("riser {}", name.trim_start_matches("riser").trim_start_matches('-').replace('-', " "));
        assert!(
            text.lines().any(|line| line.trim_start().starts_with(example.trim_end())),
            "`{example}`:\n{text}"
        );
    }
}
