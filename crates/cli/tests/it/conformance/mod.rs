// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same device code behaves the same on every host: on the simulated host, over NetTLP, and below a real kernel with a user space
//! program. Each runs the same script ([`script`]), and the transcripts must be equal.

mod loads;
mod pair;
mod script;

use crate::common::{built_design, command, has_verilator};
use devices::{dma_engine, memory};
use fabric::{Limits, Stop};
use lab::LabFile;
use nettlp::adapter::{Adapter, AdapterSettings};
use nettlp::allow::{AllowList, Rule};
use nettlp::net::{AdapterOptions, AdapterSockets, Clock, serve};
use plug::site::NativeCode;
use plug::{Fault, Model, Models, Plugged, Site, Task};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use session::Session;
use std::cell::RefCell;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tlp::{Bdf, Duration, Time};
use worlds::adapter::{LabBackend, Timing};

/// Devices: name, script, and table in a lab.
const DEVICES: [(&str, &str, &str); 3] = [
    ("memory", include_str!("memory.txt"), ""),
    ("dma-engine", include_str!("dma-engine.txt"), "vfs = 0\n"),
    ("native", include_str!("scrambler.txt"), SCRAMBLER),
];
const SCRAMBLER: &str = "library = 'scrambler.so'\nsettings = 'piece=512'\nclass = 0x108000\nvectors = 1\n\
    bars = [{ bar = 0, kind = 'memory64', size_bytes = 4096 }]\n";
/// Block of the DMA engine in RTL.
const ENGINE: &str = "pcie3_ultrascale";
/// Script lines whose result depends on the parameters of the engine or the settings of the model: entries of the
/// device's rings, and the presence of a virtual function.
const PARAMETERS: [&str; 2] = ["r32 0 0x8", "capabilities"];
/// Number of random accesses of the memory before the accesses of its script.
const RANDOM: u32 = 300;
/// Verbs for configuration space. Over NetTLP, this is the adapter's configuration space.
const OF_CONFIGURATION: [&str; 4] = ["config", "set", "writable", "capabilities"];

thread_local! {
    /// Transcript of the script that runs on this thread.
    static TRANSCRIPT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A device of another model, with a driver that runs a script.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Scripted {
    device: String,
    /// Text of the script.
    script: String,
}

impl Model for Scripted {
    const NAME: &'static str = "scripted";

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let mut plugged = match self.device.as_str() {
            "memory" => memory::Settings::default().plug(site)?,
            "dma-engine" => dma_engine::Settings { vfs: 0, ..Default::default() }.plug(site)?,
            "rtl" => rtl::Settings { design: engine_file(ENGINE), ..Default::default() }.plug(site)?,
            _ => toml::from_str::<native::Settings>(SCRAMBLER).unwrap().plug(site)?,
        };
        let script = self.script.clone();
        plugged.task = Task::Driver(Box::new(move |cpu, found| {
            let script = script.clone();
            Box::pin(async move {
                let said = script::run(cpu, found, &script).await?;
                TRANSCRIPT.set(said);
                Ok(())
            })
        }));
        Ok(plugged)
    }
}

fn models() -> Models {
    riser_cli::models().with::<Scripted>()
}

/// A folder with the library of the C example, and the agent.
struct Programs(tempfile::TempDir);

impl Programs {
    fn compile() -> Programs {
        let folder = tempfile::tempdir().unwrap();
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let native = here.join("../native");
        let cc = |arguments: &[&str], source: PathBuf, out: &str| {
            let mut cc = Command::new("cc");
            cc.args(arguments).arg("-I").arg(native.join("include")).arg(source);
            assert!(cc.arg("-o").arg(folder.path().join(out)).status().unwrap().success(), "{out}");
        };
        cc(&["-shared", "-fPIC"], native.join("examples/scrambler.c"), "scrambler.so");
        cc(&["-static", "-O1"], here.join("tests/it/conformance/agent.c"), "agent");
        Programs(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn lab(&self, device: &str, script: &str, slot: &str) -> LabFile {
        let script = serde_json::to_string(script).unwrap();
        let text = format!(
            "version = 1\n[[slot]]\nname = 'x'\n{slot}\n[slot.scripted]\ndevice = '{device}'\nscript = {script}\n"
        );
        let path = self.path("lab.toml");
        let folder = lab::Folder::of(&path);
        lab::parse_in(&models(), &path, &text, folder).unwrap()
    }

    fn session(&self, file: &LabFile) -> Session {
        Session::with(file, lab::BuildOptions::native(NativeCode::Allowed)).unwrap()
    }

    fn simulated(&self, device: &str, script: &str) -> String {
        let mut lab = self.session(&self.lab(device, script, "device = 'scripted'"));
        assert_eq!(lab.run(Limits::default()), Stop::Finished, "{device}");
        TRANSCRIPT.take()
    }

    /// Runs a script over NetTLP: the device is `riser nettlp device`, the host a lab with an adapter.
    fn over_nettlp(&self, n: u8, device: &str, settings: &str, script: &str) -> String {
        let [there, here] = [1, 2].map(|x| IpAddr::from(Ipv4Addr::new(127, 16, n, x)));
        let file = self.lab(device, script, "device = 'nettlp-adapter'\ndriver = 'scripted'");
        let backend = LabBackend::new(self.session(&file), Timing::On).unwrap();
        let mut sockets = AdapterSockets::bind(&AdapterOptions::new(there)).unwrap();
        let allow = AllowList::new([format!("{here},all,rw").parse::<Rule>().unwrap()]).unwrap();
        let scheme = capture::encap::PortScheme::Tagged;
        let wanted = AdapterSettings { allow, id: Bdf::default(), device: Some(here), scheme };
        let mut adapter = Adapter::new(wanted, backend);
        fs::write(self.path("settings.toml"), settings).unwrap();
        let _device = self.device(device, there, here);
        serve(&mut sockets, &mut adapter, Clock::new(), false, |adapter, _, now| {
            adapter.backend().host_outcome().is_none() && now < Time::ZERO + Duration::from_ms(60_000)
        })
        .unwrap();
        assert_eq!(adapter.backend().host_outcome(), Some(&Ok(())), "{device}");
        TRANSCRIPT.take()
    }

    fn device(&self, model: &str, remote: IpAddr, local: IpAddr) -> Running {
        let mut riser = command(&["nettlp", "device", model, "--allow-native", "--settings"]);
        riser.arg(self.path("settings.toml")).arg("--remote").arg(remote.to_string());
        riser.arg("--local").arg(local.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
        Running(riser.spawn().unwrap())
    }

    /// Runs the scripts of all devices below a kernel. Returns the agent's transcript for each.
    fn below_a_kernel(&self, scripts: &[String]) -> Vec<String> {
        let mut lab = "version = 1\n".to_owned();
        let mut commands = String::new();
        for (n, ((device, _, settings), script)) in (1..).zip(DEVICES.iter().zip(scripts)) {
            lab += &format!("[[slot]]\nname = '{device}'\ndevice = '{device}'\n[slot.{device}]\n{settings}");
            fs::write(self.path(&format!("script{n}")), script).unwrap();
            commands += &format!("echo == {device}; /share/agent 10000:0{n}:00.0 /share/script{n} || exit\n");
        }
        let file = self.path("guest.toml");
        fs::write(&file, lab).unwrap();
        let mut riser = command(&["guest", "run", "--allow-native", "--time-limit", "120"]);
        riser.arg(&file).arg("--share").arg(self.0.path()).args(["--", "sh", "-c", &commands]);
        let output = riser.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said.split("== ").skip(1).map(|part| part.split_once('\n').unwrap().1.to_owned()).collect()
    }
}

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns random reads and writes in the first 512 bytes of the memory, of all widths at aligned addresses.
fn random_accesses(seed: u64) -> String {
    let mut state = seed;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut access = || {
        let bytes = 1 << next(4);
        // The range is small, so that many accesses use the same bytes.
        let (offset, value) = (next(512) / bytes * bytes, next(u64::MAX) & (u64::MAX >> (64 - 8 * bytes)));
        match next(2) {
            0 => format!("w{} 0 {offset:#x} {value:#x}\n", 8 * bytes),
            _ => format!("r{} 0 {offset:#x}\n", 8 * bytes),
        }
    };
    (0..RANDOM).map(|_| access()).collect()
}

fn script(device: &str, text: &str) -> String {
    if device == "memory" { random_accesses(0x9e37_79b9) + text } else { text.to_owned() }
}

/// Returns the part of a script before a reset, which leaves different registers, without accesses to configuration space.
fn without_configuration(script: &str) -> String {
    let is_of_bars = |line: &&str| !OF_CONFIGURATION.contains(&line.split(' ').next().unwrap_or_default());
    script
        .lines()
        .take_while(|line| *line != "reset")
        .filter(is_of_bars)
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Returns the lines that differ, from both texts.
fn differences<'a>(one: &'a str, other: &'a str) -> Vec<(&'a str, &'a str)> {
    assert_eq!(one.lines().count(), other.lines().count());
    one.lines().zip(other.lines()).filter(|(a, b)| a != b).collect()
}

#[test]
fn nettlp_and_simulated_host_get_same_results() {
    let programs = Programs::compile();
    for (n, (device, text, settings)) in (1..).zip(DEVICES) {
        let script = without_configuration(&script(device, text));
        let simulated = programs.simulated(device, &script);
        assert!(!simulated.contains("late"), "{simulated}");
        let remote = programs.over_nettlp(n, device, settings, &script);
        assert_eq!(differences(&simulated, &remote), [], "{device}");
    }
}

#[test]
#[ignore = "of .ci/long guest"]
fn kernel_and_simulated_host_get_same_results() {
    let programs = Programs::compile();
    let scripts = DEVICES.map(|(device, text, _)| script(device, text));
    let kernel = programs.below_a_kernel(&scripts);
    for ((device, ..), (script, kernel)) in DEVICES.iter().zip(scripts.iter().zip(&kernel)) {
        let simulated = programs.simulated(device, script);
        assert!(!simulated.contains("late"), "{simulated}");
        assert_eq!(differences(&simulated, kernel), [], "{device}");
    }
}

/// Design file of the RTL engine with this block.
fn engine_file(block: &str) -> String {
    format!("{}/../../rtl/dma_engine/{block}.toml", env!("CARGO_MANIFEST_DIR"))
}

/// Design file of the RTL engine, built once per run.
fn built(block: &str) -> String {
    built_design(engine_file(block))
}

/// The RTL engine behaves like the model, including its configuration space and resets.
#[test]
#[ignore = "of .ci/long rtl"]
fn rtl_engine_matches_model() {
    if !has_verilator() {
        return;
    }
    built(ENGINE);
    let programs = Programs::compile();
    let (_, text, _) = DEVICES[1];
    let of_both = text.lines().filter(|line| !PARAMETERS.contains(line));
    let script: String = of_both.map(|line| format!("{line}\n")).collect();
    let [model, rtl] = ["dma-engine", "rtl"].map(|device| programs.simulated(device, &script));
    assert!(model.lines().count() > 40 && !model.contains("late"), "{model}");
    assert_eq!(differences(&model, &rtl), []);
}
