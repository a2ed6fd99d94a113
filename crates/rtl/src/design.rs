// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file of a design: its sources, its top module, its clocks, and the settings of the vendor's block, as in the vendor's tool.

use crate::block::{BlockKind, Shape};
use plug::Fault;
use plug::file::{FileError, FileErrors, Overrides, Source};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum size of a design's file in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A design in Verilog or SystemVerilog with a PCI Express block. Paths are relative to the file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Design {
    /// Version of this format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// Name of the top module.
    pub top: String,
    /// Sources, at least one: Verilog or SystemVerilog, and C or C++ for functions that the design calls. Leave out the
    /// sources of the vendor's block and primitives.
    pub sources: Vec<String>,
    /// Folders with include files, and with files that the design reads. The design runs in the first of them, or in
    /// the folder of this file if the list is empty.
    #[serde(default)]
    pub includes: Vec<String>,
    /// Parameters of the top module, each with a Verilog value.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// Verilog macros.
    #[serde(default)]
    pub defines: BTreeMap<String, String>,
    /// Further arguments of Verilator.
    #[serde(default)]
    pub verilator: Vec<String>,
    /// Inputs of the top module with a constant value in Verilog, or connected to one of its outputs, given by name.
    #[serde(default)]
    pub ties: BTreeMap<String, String>,
    /// Inputs of the top module that carry the slot's reset (PERST#).
    #[serde(default)]
    pub reset: Reset,
    /// Clocks in addition to the block's, at most 15.
    #[serde(default, rename = "clock")]
    pub clocks: Vec<Clock>,
    /// The block.
    pub block: Block,
    /// Function 0: the settings of its configuration space in the vendor's tool.
    #[serde(default)]
    pub function: Function,
    /// The other physical functions, from number 1.
    #[serde(default, rename = "other_function")]
    pub other_functions: Vec<Function>,
}

/// Inputs that carry the slot's reset.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Reset {
    /// Inputs that are low in reset.
    pub active_low: Vec<String>,
    /// Inputs that are high in reset.
    pub active_high: Vec<String>,
}

/// A clock of the board.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// Inputs of the top module that this clock drives. A clock without any is an output of a clock manager.
    #[serde(default)]
    pub ports: Vec<String>,
    /// Its frequency in Hz.
    #[schemars(range(min = 1_000, max = 2_000_000_000))]
    pub frequency_hz: u64,
}

/// The block.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Kind of the block.
    pub kind: BlockKind,
    /// Name of the block's module, if it is not the default of this kind of block.
    #[serde(default)]
    pub module: Option<String>,
    /// Data width of the streams in bits: 64 or 128; also 256, except for 7-series; also 512 for UltraScale+ and TLP streams.
    #[schemars(range(min = 64, max = 512), extend("powerOfTwo" = true))]
    pub data_width_bits: u16,
    /// Number of lanes of the block's link. The slot must not have more lanes. At most 8, or 16 for UltraScale+ and TLP
    /// streams.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 16), extend("powerOfTwo" = true))]
    pub lanes: u16,
    /// Number of downstream ports. For switches.
    #[schemars(range(min = 1, max = 31))]
    pub downstream_ports: Option<u16>,
    /// Frequency of its user clock in Hz.
    #[schemars(range(min = 1_000, max = 2_000_000_000))]
    pub user_clock_hz: u64,
    /// Latency of a packet through the block in cycles, in each direction.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10_000))]
    pub latency_cycles: u32,
    /// True if the design chooses the tags of its requests (AXISTEN_IF_ENABLE_CLIENT_TAG), false if the block does. For descriptor streams.
    #[serde(default = "yes")]
    pub client_tags: bool,
    /// Position of data in a beat. For descriptor streams.
    #[serde(default)]
    pub alignment: Alignment,
    /// Maximum number of packets that begin in a beat. For descriptor streams.
    #[serde(default)]
    pub straddle: Straddle,
    /// True if the block holds the MSI-X tables, false if the design does.
    #[serde(default)]
    pub msix_inside: bool,
}

/// Position of data in a beat.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Alignment {
    /// Directly after the descriptor.
    #[default]
    Dword,
    /// In the lane of its address.
    Address,
}

/// Maximum number of packets that begin in a beat of each stream. 1 means no straddling, as required with data in the lane of its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Straddle {
    /// Requests of the design: 2 with 512 bits.
    #[schemars(range(min = 1, max = 2))]
    pub rq: u8,
    /// Completions for the design: 2 with 256 bits, 2 or 4 with 512.
    #[schemars(range(min = 1, max = 4), extend("powerOfTwo" = true))]
    pub rc: u8,
    /// Requests to the design: 2 with 512 bits.
    #[schemars(range(min = 1, max = 2))]
    pub cq: u8,
    /// Completions of the design: 2 with 512 bits.
    #[schemars(range(min = 1, max = 2))]
    pub cc: u8,
}

impl Default for Straddle {
    fn default() -> Straddle {
        Straddle { rq: 1, rc: 1, cq: 1, cc: 1 }
    }
}

/// Settings of a physical function.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Function {
    /// Vendor ID.
    #[schemars(range(min = 0, max = 65534))]
    pub vendor_id: u16,
    /// Device ID.
    pub device_id: u16,
    /// Subsystem Vendor ID.
    pub subsystem_vendor_id: u16,
    /// Subsystem ID.
    pub subsystem_id: u16,
    /// Revision ID.
    pub revision: u8,
    /// Class: base class, sub-class and programming interface, 8 bits each.
    #[schemars(range(min = 0, max = 16_777_215))]
    pub class: u32,
    /// BARs. Default: one BAR of 4 KiB, in memory below 4 GiB.
    pub bars: Vec<native::BarSettings>,
    /// Number of MSI vectors: a power of two up to 32, or 0.
    #[schemars(extend("enum" = [0, 1, 2, 4, 8, 16, 32]))]
    pub msi_vectors: u8,
    /// MSI-X. The table is in the design, or in the block with `msix_inside`.
    pub msix: Option<Msix>,
    /// True for INTx: INTA of function 0, INTB of function 1, and so on.
    pub intx: bool,
    /// Virtual functions of this function.
    pub sriov: Option<Sriov>,
    /// True for Function Level Reset. Vendors' blocks have this only if it is enabled in the vendor's tool.
    pub function_level_reset: bool,
}

/// Virtual functions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sriov {
    /// Number of virtual functions; over all physical functions at most 6, or 252 for UltraScale+.
    #[schemars(range(min = 1, max = 252))]
    pub vfs: u16,
    /// VF Device ID.
    pub device_id: u16,
    /// BARs of each virtual function.
    #[serde(default)]
    pub bars: Vec<native::BarSettings>,
    /// MSI-X of each virtual function.
    #[serde(default)]
    pub msix: Option<Msix>,
}

/// Position of the MSI-X table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Msix {
    /// Number of vectors.
    #[schemars(range(min = 1, max = 2048))]
    pub vectors: u16,
    /// BAR of the table and of the pending bits.
    #[schemars(range(min = 0, max = 5))]
    pub bar: u8,
    /// Offset of the table: a multiple of 8.
    pub table: u32,
    /// Offset of the pending bits: a multiple of 8, outside the table.
    pub pending: u32,
}

fn one() -> u16 {
    1
}

fn yes() -> bool {
    true
}

impl Default for Function {
    fn default() -> Function {
        Function {
            vendor_id: 0x10ee,
            device_id: 0x7021,
            subsystem_vendor_id: 0x10ee,
            subsystem_id: 7,
            revision: 0,
            class: 0x058000,
            bars: vec![native::BarSettings::default()],
            msi_vectors: 1,
            msix: None,
            intx: true,
            sriov: None,
            function_level_reset: false,
        }
    }
}

impl Function {
    fn check(&self, key: &str) -> Result<(), Fault> {
        if self.msi_vectors > 0 && (!self.msi_vectors.is_power_of_two() || self.msi_vectors > 32) {
            return Err(Fault::at(
                &format!("{key}.msi_vectors"),
                format!("{key}.msi_vectors: expected a power of two up to 32, or 0"),
            ));
        }
        if let Some(msix) = &self.msix {
            msix.check(&format!("{key}.msix"), &self.bars)?;
        }
        if let Some(Sriov { bars, msix: Some(msix), .. }) = &self.sriov {
            msix.check(&format!("{key}.sriov.msix"), bars)?;
        }
        Ok(())
    }
}

impl Msix {
    /// Checks that table and pending bits are in a memory BAR, do not overlap, and are aligned to 8 bytes (`PCIe 5.0 §7.7.2`).
    fn check(&self, key: &str, bars: &[native::BarSettings]) -> Result<(), Fault> {
        let is_its = |bar: &&native::BarSettings| bar.bar == self.bar && bar.kind != native::BarKind::Io;
        let Some(bar) = bars.iter().find(is_its) else {
            return Err(Fault::at(
                &format!("{key}.bar"),
                format!("{key}.bar = {}: expected an existing memory BAR", self.bar),
            ));
        };
        let [table, pending] = [self.table, self.pending].map(u64::from);
        let vectors = u64::from(self.vectors);
        let (table_end, pending_end) = (table + vectors * 16, pending + vectors.div_ceil(64) * 8);
        for (name, at, end) in [("table", table, table_end), ("pending", pending, pending_end)] {
            if at % 8 != 0 || end > bar.size_bytes {
                let most = (bar.size_bytes + at).saturating_sub(end);
                return Err(Fault::at(
                    &format!("{key}.{name}"),
                    format!("{key}.{name} = {at}: expected a multiple of 8 up to {most}"),
                ));
            }
        }
        if table < pending_end && pending < table_end {
            return Err(Fault::at(
                &format!("{key}.pending"),
                format!("{key}.pending = {pending}: overlaps the table, which ends at {table_end}"),
            ));
        }
        Ok(())
    }
}

impl Design {
    /// Reads a file.
    ///
    /// # Errors
    /// All errors of the file, each with its location.
    pub fn read(path: &Path) -> Result<Design, FileErrors> {
        let whole = |why: String| FileErrors::from(FileError::whole(path, why));
        let bytes = read_file(path, MAX_BYTES).map_err(|e| whole(e.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|e| whole(e.to_string()))?;
        let overrides = Overrides::default();
        let source = Source { path, text: &text, overrides: &overrides };
        let design: Design = source
            .read_within(source.tree()?)
            .map_err(|errors| errors.into_iter().collect::<FileErrors>())?;
        design.checked().map_err(|fault| whole(fault.message))
    }

    fn checked(self) -> Result<Design, Fault> {
        let words = [("top", &self.top), ("block.module", &self.module())].map(|(k, v)| (k, v.clone()));
        for (key, word) in words {
            if !is_name(&word) {
                return Err(Fault::at(key, format!("{key} = `{word}`: expected a Verilog name")));
            }
        }
        if self.top.starts_with("riser_") {
            return Err(Fault::at(
                "top",
                format!("top = `{}`: names that begin with riser_ are reserved", self.top),
            ));
        }
        for (table, keys) in
            [("parameters", &self.parameters), ("ties", &self.ties), ("defines", &self.defines)]
        {
            if let Some(key) = keys.keys().find(|key| !is_name(key)) {
                return Err(Fault::at(
                    &format!("{table}.{key}"),
                    format!("{table}.{key}: expected a Verilog name"),
                ));
            }
        }
        let ports = self.clocks.iter().flat_map(|clock| &clock.ports);
        let ports =
            ports.chain(&self.reset.active_low).chain(&self.reset.active_high).chain(self.ties.keys());
        let mut seen = std::collections::BTreeSet::new();
        for port in ports {
            if !is_name(port) {
                return Err(Fault::from(format!("port `{port}`: expected a Verilog name")));
            }
            if !seen.insert(port) {
                return Err(Fault::from(format!("port `{port}` is connected twice")));
            }
        }
        if self.sources.is_empty() {
            return Err(Fault::at("sources", "sources: empty list; expected at least one file"));
        }
        if self.clocks.len() > MAX_CLOCKS {
            return Err(Fault::at(
                "clocks",
                format!("{} clocks; expected at most {MAX_CLOCKS}", self.clocks.len()),
            ));
        }
        for (n, function) in self.functions().enumerate() {
            let key = if n == 0 { "function".to_owned() } else { format!("other_function.{}", n - 1) };
            function.check(&key)?;
        }
        self.check_block()?;
        Ok(self)
    }

    /// Checks the limits of this kind of block.
    fn check_block(&self) -> Result<(), Fault> {
        let Block { kind, data_width_bits: bits, straddle, .. } = self.block;
        let name = serde_json::to_string(&kind).unwrap_or_default();
        if bits > kind.widest() {
            return Err(Fault::at(
                "block.data_width_bits",
                format!("block.data_width_bits = {bits}: expected 64 to {} for {name}", kind.widest()),
            ));
        }
        if self.block.lanes > kind.most_lanes() {
            return Err(Fault::at(
                "block.lanes",
                format!("block.lanes = {}: expected 1 to {} for {name}", self.block.lanes, kind.most_lanes()),
            ));
        }
        if self.block.downstream_ports.is_some() != (kind == BlockKind::Switch) {
            return Err(Fault::at(
                "block.downstream_ports",
                format!(
                    "block.downstream_ports: expected for \"switch\" only, which needs it; block.kind = {name}"
                ),
            ));
        }
        let is_stream = matches!(
            kind,
            BlockKind::TlpStream | BlockKind::LinkFrames | BlockKind::RootComplex | BlockKind::Switch
        );
        if is_stream && self.block.msix_inside {
            return Err(Fault::at(
                "block.msix_inside",
                format!(
                    "block.msix_inside = true: expected false for {name}, because the table is in the design"
                ),
            ));
        }
        let may_straddle = self.block.alignment != Alignment::Address && !is_stream;
        let most = |rc: bool| match (bits, rc) {
            _ if !may_straddle => 1,
            (512, true) => 4,
            (512, false) | (256, true) => 2,
            _ => 1,
        };
        let Straddle { rq, rc, cq, cc } = straddle;
        for (key, value, most) in [
            ("rq", rq, most(false)),
            ("rc", rc, most(true)),
            ("cq", cq, most(false)),
            ("cc", cc, most(false)),
        ] {
            if value > most {
                return Err(Fault::at(
                    &format!("block.straddle.{key}"),
                    format!(
                        "block.straddle.{key} = {value}: expected 1 to {most} for {name} with {bits} bits and this alignment"
                    ),
                ));
            }
        }
        let (physical, virtuals) = (self.functions().count(), self.virtual_functions().iter().sum::<u16>());
        let [most_physical, most_virtual] = kind.legal_functions();
        if physical > most_physical.into() {
            return Err(Fault::from(format!(
                "{physical} functions; expected at most {most_physical} for {name}"
            )));
        }
        if virtuals > most_virtual {
            return Err(Fault::from(format!(
                "{virtuals} virtual functions (sriov.vfs); expected at most {most_virtual} for {name}"
            )));
        }
        Ok(())
    }

    /// Returns all physical functions.
    pub(crate) fn functions(&self) -> impl Iterator<Item = &Function> {
        std::iter::once(&self.function).chain(&self.other_functions)
    }

    /// Returns the number of virtual functions of each physical function.
    pub(crate) fn virtual_functions(&self) -> Vec<u16> {
        self.functions().map(|function| function.sriov.as_ref().map_or(0, |sriov| sriov.vfs)).collect()
    }

    /// Returns the name of the block's module.
    pub fn module(&self) -> String {
        self.block.module.clone().unwrap_or_else(|| self.block.kind.module().to_owned())
    }

    /// Returns the number of interrupt vectors of function 0.
    pub(crate) fn vectors(&self) -> u16 {
        self.function.msix.map_or(self.function.msi_vectors.into(), |msix| msix.vectors)
    }

    pub(crate) fn shape(&self) -> Shape {
        let Block { kind, data_width_bits, lanes, downstream_ports, .. } = self.block;
        Shape { kind, data_bits: data_width_bits, lanes, links: downstream_ports.unwrap_or(0) + 1 }
    }

    /// Returns the folder in which the design runs. `base` is the folder of its file.
    pub(crate) fn working_folder(&self, base: &Path) -> PathBuf {
        self.includes.first().map_or_else(|| base.to_owned(), |include| base.join(include))
    }

    /// Returns the frequencies of all clocks in Hz, the block's first.
    pub(crate) fn frequencies(&self) -> Vec<u64> {
        let others = self.clocks.iter().map(|clock| clock.frequency_hz);
        std::iter::once(self.block.user_clock_hz).chain(others).collect()
    }
}

/// Reads a regular file of at most `most_bytes` bytes.
pub(crate) fn read_file(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let data = std::fs::metadata(path)?;
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    match data.len() {
        _ if !data.is_file() => Err(wrong("it is not a regular file".to_owned())),
        bytes if bytes > most_bytes => Err(wrong(format!("{bytes} bytes; expected at most {most_bytes}"))),
        _ => std::fs::read(path),
    }
}

/// Maximum number of clocks in addition to the block's.
const MAX_CLOCKS: usize = 15;

pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$')
}

/// Returns the default build folder of a design: a folder with the file's name in `riser-rtl`, next to the file.
pub fn folder(file: &Path) -> PathBuf {
    let name = file.file_stem().unwrap_or_default();
    file.parent().unwrap_or(Path::new("")).join("riser-rtl").join(name)
}
