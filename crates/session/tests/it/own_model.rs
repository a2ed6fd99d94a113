// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A model from another crate, in a lab. It is read, checked, run and reported like the models of riser.

use capture::DeviceRegister;
use config::{Bar, Builder, Identity, MsiLayout};
use device::AsyncDevice;
use device::io::{Io, Request};
use endpoint::FunctionConfig;
use host::Cpu;
use host::firmware::FoundFunction;
use lab::{LabFile, file_schema, parse};
use plug::{
    Fault, FunctionRegisters, Model, ModelError, Models, Plugged, Report, Shared, Shown, Site, named,
};
use riser_session::Session;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use tlp::Time;

/// Writing adds to the sum.
const SUM: DeviceRegister = named(Some(0), 0, 4, "sum");

/// Adds up the values written to it. Its driver writes and checks.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Adder {
    /// Number of values that the driver writes.
    #[schemars(range(min = 1, max = 100))]
    numbers: u32,
    /// Each value is a multiple of this.
    #[schemars(range(min = 2, max = 64), extend("powerOfTwo" = true))]
    step: u32,
    /// Form of its report.
    report: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// Names and values.
    Good,
    /// A map whose keys are not strings.
    Bad,
}

impl Default for Adder {
    fn default() -> Adder {
        Adder { numbers: 10, step: 2, report: Kind::Good }
    }
}

#[derive(Default)]
struct Sum {
    sum: u64,
    bad: bool,
    /// Values that it rejects.
    large: Vec<u32>,
}

impl Report for Sum {
    fn shown(&self, _: Time) -> Shown {
        match self.bad {
            true => Shown::of(&BTreeMap::from([((1, 2), 3)])),
            false => Shown::of(&BTreeMap::from([("sum", self.sum)])),
        }
    }

    fn findings(&self, told: usize) -> Vec<String> {
        self.large.iter().skip(told).map(|number| format!("{number} is large")).collect()
    }

    fn wrong(&self) -> Option<String> {
        (!self.large.is_empty()).then(|| format!("{} large numbers", self.large.len()))
    }
}

async fn device(io: Io, sum: Shared<Sum>) {
    while let Some(request) = io.next_request().await {
        match request {
            Request::Write(write) => sum.change(|s| {
                s.sum += u64::from(write.u32());
                s.large.extend((write.u32() > 16).then_some(write.u32()));
            }),
            Request::Read(read) => read.complete(sum.get().sum as u32),
            _ => {}
        }
    }
}

async fn driver(cpu: Cpu, found: FoundFunction, settings: Adder) -> Result<(), String> {
    let register = found.address(0, 0)?;
    for n in 0..settings.numbers {
        cpu.write_u32(register, n * settings.step).await.map_err(|e| e.to_string())?;
    }
    let expected = settings.step * (0..settings.numbers).sum::<u32>();
    match cpu.read_u32(register).await.map_err(|e| e.to_string())? {
        sum if sum == expected => Ok(()),
        sum => Err(format!("the sum is {sum}: expected was {expected}")),
    }
}

impl Model for Adder {
    const NAME: &'static str = "adder";
    const REGISTERS: &'static [FunctionRegisters] =
        &[FunctionRegisters { vendor: 0x7269, device: 0x7fff, registers: &[SUM] }];

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let identity = Identity {
            vendor: 0x7269,
            device: 0x7fff,
            revision: 0,
            class: 0xff_0000,
            subsystem_vendor: 0,
            subsystem: 0,
        };
        let config = Builder::type0(identity)
            .bar(0, Bar::memory32(4096))
            .msi(MsiLayout { vectors: 1 })
            .pcie(site.pcie)
            .usual()
            .build()?;
        let sum = Shared::new(Sum { bad: self.report == Kind::Bad, ..Sum::default() });
        let told = sum.clone();
        let device = Box::new(AsyncDevice::new(move |io| device(io, told.clone())));
        let settings = self.clone();
        let plugged = Plugged::new(FunctionConfig { config, device }, move |cpu, found| {
            driver(cpu, found, settings.clone())
        });
        Ok(plugged.reporting(&sum))
    }

    fn check_together(&self) -> Result<(), Fault> {
        match self.numbers > self.step * 8 {
            true => {
                Err(Fault::at("numbers", format!("numbers of {}: at most 8 for each step", self.numbers)))
            }
            false => Ok(()),
        }
    }
}

fn models() -> Models {
    devices::models().with::<Adder>()
}

fn lab(settings: &str) -> String {
    format!("version = 1\n[[slot]]\nname = \"a\"\ndevice = \"adder\"\n[slot.adder]\n{settings}")
}

#[test]
fn user_model_runs_and_reports() {
    for (settings, name, value) in [
        ("numbers = 4\nstep = 8\n", "sum", serde_json::json!(48)),
        ("report = \"bad\"\n", "report_error", serde_json::json!("key must be a string")),
    ] {
        let lab = parse(&models(), Path::new("own.toml"), &lab(settings)).unwrap_or_else(|e| panic!("{e}"));
        let mut session = Session::new(&LabFile { lab, base: ".".into() }).unwrap();
        let stop = session.fabric.run(fabric::Limits::default());
        assert_eq!(stop, fabric::Stop::Finished);
        let report = session.report("own.toml", &stop, 0.0);
        assert_eq!(report.devices[0].model, "adder");
        assert_eq!(report.devices[0].counters[name], value);
        assert!(session.report_of::<Sum>().is_some_and(|s| s.get().sum > 0));
    }
}

#[test]
fn reports_each_finding_once() {
    let lab = parse(&models(), Path::new("own.toml"), &lab("numbers = 4\nstep = 8\n")).unwrap();
    let mut session = Session::new(&LabFile { lab, base: ".".into() }).unwrap();
    let mut told = Vec::new();
    assert_eq!(session.new_findings(&mut told), [""; 0]);
    session.fabric.run(fabric::Limits::default());
    assert_eq!(session.new_findings(&mut told), ["slot `a`: 24 is large"]);
    assert_eq!(session.new_findings(&mut told), [""; 0]);
    assert_eq!(session.wrong(), ["slot `a`: 1 large numbers"]);
}

#[test]
fn reports_errors_at_their_place() {
    for (settings, place, says) in [
        ("numbers = 0\n", "6:11", "numbers of 0, expected 1 to 100"),
        ("step = 6\n", "6:8", "step of 6, expected powers of two, 2 to 64"),
        ("numbers = 17\n", "6:11", "slot `a`: numbers of 17: at most 8 for each step"),
        ("numbers = \"x\"\n", "6:11", "numbers is string \"x\", expected 1 to 100"),
        ("report = \"x\"\n", "6:10", "unknown variant `x`, expected `good` or `bad`"),
        ("nmbers = 1\n", "6:1", "unknown field `nmbers`, expected one of `numbers`, `step`, `report`"),
        ("[slot.memory]\n", "6:1", "slot `a` has settings of `memory`: its device is `adder`"),
        ("[slot.addr]\n", "6:7", "unknown field `addr`, expected one of"),
    ] {
        let error = parse(&models(), Path::new("own.toml"), &lab(settings)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("own.toml:{place}: ")) && error.contains(says), "{error}");
    }
    let error = parse(&devices::models(), Path::new("own.toml"), &lab("")).unwrap_err().to_string();
    assert!(error.contains("unknown device `adder`, expected one of `clock`, `counter`"), "{error}");
}

#[test]
fn reference_lists_user_model() {
    let page: String = lab::reference::lab(&models()).into_iter().map(|(_, text)| text).collect();
    assert!(page.contains("- `adder`: Adds up the values written to it.\n"), "{page}");
    assert!(
        page.contains(
            "| `step` | integer | `2` | powers of two, 2 to 64 | Each value is a multiple of this. |"
        )
    );
    assert_eq!(
        file_schema(&models()).legal(&["slot", "adder", "numbers"].map(str::to_owned)).as_deref(),
        Some("1 to 100")
    );
}

/// A table keeps its models if a second model has the same name.
#[test]
fn rejects_duplicate_and_illegal_names() {
    #[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
    struct Named<const N: usize> {}
    const NAMES: [&str; 4] = ["memory", "link", "My", ""];
    impl<const N: usize> Model for Named<N> {
        const NAME: &'static str = NAMES[N];
        fn plug(&self, _: &mut Site<'_>) -> Result<Plugged, Fault> {
            Err("never".to_owned().into())
        }
    }
    let mut all = models();
    assert_eq!(all.add::<Named<0>>(), Err(ModelError::Second("memory")));
    assert_eq!(all.add::<Named<1>>(), Err(ModelError::Name("link")));
    assert_eq!(all.add::<Named<2>>(), Err(ModelError::Name("My")));
    assert_eq!(all.add::<Named<3>>(), Err(ModelError::Name("")));
    assert_eq!(all.add::<Adder>(), Err(ModelError::Second("adder")));
    assert_eq!(all.names().count(), 16);
    assert_eq!(all.registers().of(0x7269, 0x7fff), [SUM]);
    parse(&all, Path::new("own.toml"), "version = 1\n[[slot]]\nname = \"m\"\ndevice = \"memory\"\n")
        .unwrap_or_else(|e| panic!("{e}"));
}

/// A capture could not distinguish these registers: the table keeps its models.
#[test]
fn rejects_overlapping_registers() {
    const NIC: u16 = devices::device_id::SIMPLE_NIC;
    const fn of(device: u16, registers: &'static [DeviceRegister]) -> [FunctionRegisters; 1] {
        [FunctionRegisters { vendor: devices::VENDOR, device, registers }]
    }
    const A: DeviceRegister = named(Some(0), 0, 8, "a");
    const TABLES: [[FunctionRegisters; 1]; 6] = [
        of(NIC, &[A]),
        of(1, &[A, named(Some(0), 4, 4, "within a")]),
        of(1, &[named(Some(6), 0, 4, "no BAR")]),
        of(1, &[named(Some(0), 0, 0, "no bytes")]),
        of(1, &[named(Some(0), u64::MAX, 2, "beyond all")]),
        of(1, &[A, named(Some(0), 8, 4, "b"), named(Some(1), 0, 4, "c")]),
    ];
    const NAMES: [&str; 6] = ["a-nic", "overlaps", "off", "empty", "far", "good"];
    #[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
    struct Odd<const N: usize> {}
    impl<const N: usize> Model for Odd<N> {
        const NAME: &'static str = NAMES[N];
        const REGISTERS: &'static [FunctionRegisters] = &TABLES[N];
        fn plug(&self, _: &mut Site<'_>) -> Result<Plugged, Fault> {
            Err("never".to_owned().into())
        }
    }
    let mut all = models();
    let clash = ModelError::Ids { model: "a-nic", other: "simple-nic", vendor: devices::VENDOR, device: NIC };
    assert_eq!(all.add::<Odd<0>>(), Err(clash));
    let odd = |model, register| Err(ModelError::Register { model, register });
    assert_eq!(all.add::<Odd<1>>(), odd("overlaps", "within a"));
    assert_eq!(all.add::<Odd<2>>(), odd("off", "no BAR"));
    assert_eq!(all.add::<Odd<3>>(), odd("empty", "no bytes"));
    assert_eq!(all.add::<Odd<4>>(), odd("far", "beyond all"));
    assert_eq!(all.names().count(), 16);
    assert_eq!(all.add::<Odd<5>>(), Ok(()));
    assert_eq!(all.registers().of(devices::VENDOR, 1).len(), 3);
    assert!(all.registers().of(devices::VENDOR, NIC).len() > 1);
}
