// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scripts of accesses to a device, and the host program that runs them. `agent.c` runs the same scripts in user space of a real kernel.
//!
//! Each line is a verb with up to four numbers. The transcript has each line with its number and result:
//!
//! ```text
//! w8 w16 w32 w64 BAR OFFSET VALUE     writes a register          done
//! r8 r16 r32 r64 BAR OFFSET           reads one                  its value; all ones if it is refused
//! until BAR OFFSET MASK VALUE         reads one until it matches ok or late
//! fill PAGE OFFSET BYTES SEED         host memory                done
//! put PAGE OFFSET WIDTH VALUE         host memory                done
//! sum PAGE OFFSET BYTES               host memory                its FNV-1a hash
//! await PAGE OFFSET VALUE             host memory, 4 bytes       ok or late
//! irq VECTOR                          waits for an interrupt     ok or late
//! config REGISTER BYTES               reads configuration space  its value
//! set REGISTER BYTES VALUE            writes it                  done
//! writable REGISTER                   finds its writable bits    these bits
//! capabilities                        lists capabilities         all IDs and offsets
//! reset                               function-level reset       Command after it; then all is set up again
//! ```
//!
//! There are eight pages of host memory, 4 KiB each. A value `@PAGE+OFFSET` is the address of that byte for the device.

use config::header;
use host::Cpu;
use host::firmware::FoundFunction;
use std::fmt::Write;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use tlp::Duration;

const PAGES: usize = 8;
const PAGE_BYTES: u64 = 4096;
const PATIENCE: Duration = Duration::from_ms(3000);
const LOOK: Duration = Duration::from_us(20);
/// PCI Express capability: its ID, the offset of Device Control in it, and Initiate Function Level Reset in that (`PCIe 5.0 §7.5.3.4`).
const PCI_EXPRESS: u8 = 0x10;
const DEVICE_CONTROL: u64 = 8;
const INITIATE_FLR: u32 = 0x8000;
/// IDs of the interrupt capabilities (`PCIe 5.0 §7.7`).
const MSI: u8 = 0x05;
const MSIX: u8 = 0x11;
/// Number of DWs in the header up to the last BAR.
const HEADER_REGISTERS: u64 = 10;

/// Runs a script on a simulated host.
struct Runner {
    cpu: Cpu,
    found: FoundFunction,
    pages: [u64; PAGES],
    transcript: String,
}

/// Runs `script` on this function, and returns the transcript.
pub(crate) async fn run(cpu: Cpu, found: FoundFunction, script: &str) -> Result<String, String> {
    let mut pages = [0; PAGES];
    for page in &mut pages {
        *page = cpu.memory().alloc_high(PAGE_BYTES, PAGE_BYTES).map_err(|e| e.to_string())?;
    }
    let mut runner = Runner { cpu, found, pages, transcript: String::new() };
    for (n, line) in (1..).zip(script.lines()).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
    {
        let result = runner.line(line).await.map_err(|e| format!("{n} {line}: {e}"))?;
        let _ = writeln!(runner.transcript, "{n} {line}: {result}");
    }
    Ok(runner.transcript)
}

impl Runner {
    async fn line(&mut self, line: &str) -> Result<String, String> {
        let mut words = line.split(' ');
        let verb = words.next().unwrap_or_default();
        let mut v = [0; 4];
        for (value, word) in v.iter_mut().zip(words) {
            *value = self.value(word)?;
        }
        let [a, b, c, d] = v;
        let memory = self.cpu.memory().clone();
        let at = self.pages[a as usize % PAGES] + b;
        Ok(match verb {
            "fill" => {
                memory.write(at, &pattern(c, d)).map_err(|e| e.to_string())?;
                "done".to_owned()
            }
            "put" => {
                memory.write(at, &d.to_le_bytes()[..c as usize]).map_err(|e| e.to_string())?;
                "done".to_owned()
            }
            "sum" => {
                let mut bytes = vec![0; c as usize];
                memory.read(at, &mut bytes).map_err(|e| e.to_string())?;
                format!("{:016x}", hash(&bytes))
            }
            "await" => self.late_or_ok(async |_| memory.read_u32(at).ok() == Some(c as u32)).await,
            "until" => {
                let at = self.found.address(a as u8, b)?;
                self.late_or_ok(async |cpu| cpu.read_u32(at).await.is_ok_and(|v| v & c as u32 == d as u32))
                    .await
            }
            "irq" => self.interrupt(a as u16).await,
            "config" => format!("{:0width$x}", self.get(a, b).await?, width = b as usize * 2),
            "set" => {
                self.set(a, b, c as u32).await?;
                "done".to_owned()
            }
            "writable" => format!("{:08x}", self.writable(a).await?),
            "capabilities" => self.capabilities().await?,
            "reset" => self.reset().await?,
            _ => self.register(verb, v).await?,
        })
    }

    /// Parses a number, or an address.
    fn value(&self, word: &str) -> Result<u64, String> {
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => text.parse(),
        };
        let value = match word.strip_prefix('@').and_then(|at| at.split_once('+')) {
            Some((page, offset)) => u64::from_str_radix(offset, 16)
                .map(|offset| self.pages[page.parse::<usize>().unwrap()] + offset),
            None => number(word),
        };
        value.map_err(|e| format!("{word}: {e}"))
    }

    async fn register(&self, verb: &str, [bar, offset, value, _]: [u64; 4]) -> Result<String, String> {
        let bits = verb[1..].parse::<u32>().map_err(|_| format!("no verb `{verb}`"))?;
        let (bytes, at) = (bits / 8, self.found.address(bar as u8, offset)?);
        if verb.starts_with('w') {
            let value = &value.to_le_bytes()[..bytes as usize];
            self.cpu.write(at, value).await.map_err(|e| e.to_string())?;
            return Ok("done".to_owned());
        }
        let mut value = [0xff; 8];
        if let Ok(data) = self.cpu.read(at, bytes).await {
            value[..bytes as usize].copy_from_slice(&data);
        }
        value[bytes as usize..].fill(0);
        Ok(format!("{:0width$x}", u64::from_le_bytes(value), width = bytes as usize * 2))
    }

    async fn late_or_ok(&self, is_so: impl AsyncFn(&Cpu) -> bool) -> String {
        let end = self.cpu.now() + PATIENCE;
        while !is_so(&self.cpu).await {
            if self.cpu.now() >= end {
                return "late".to_owned();
            }
            self.cpu.sleep(LOOK).await;
        }
        "ok".to_owned()
    }

    async fn interrupt(&self, vector: u16) -> String {
        let mut came = pin!(self.cpu.interrupt(self.found.vector(vector)));
        let mut late = pin!(self.cpu.sleep(PATIENCE));
        let first = poll_fn(|context| match came.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready("ok"),
            Poll::Pending => late.as_mut().poll(context).map(|_| "late"),
        });
        first.await.to_owned()
    }

    async fn get(&self, register: u64, bytes: u64) -> Result<u32, String> {
        let dw =
            self.cpu.config_read(self.found.bdf, (register / 4) as u16).await.map_err(|e| e.to_string())?;
        Ok(dw >> (8 * (register % 4)) & mask(bytes))
    }

    async fn set(&self, register: u64, bytes: u64, value: u32) -> Result<(), String> {
        let (lane, enables) = (register % 4, (1u8 << bytes) - 1);
        let (function, dw) = (self.found.bdf, (register / 4) as u16);
        let write = self.cpu.config_write(function, dw, enables << lane, value << (8 * lane));
        write.await.map_err(|e| e.to_string())
    }

    async fn writable(&self, register: u64) -> Result<u32, String> {
        let before = self.get(register, 4).await?;
        let mut seen = [0; 2];
        for (seen, value) in seen.iter_mut().zip([u32::MAX, 0]) {
            self.set(register, 4, value).await?;
            *seen = self.get(register, 4).await?;
        }
        self.set(register, 4, before).await?;
        Ok(seen[0] ^ seen[1])
    }

    async fn capabilities(&self) -> Result<String, String> {
        let (mut all, mut at) =
            (String::new(), self.get(u64::from(header::CAPABILITIES_POINTER) * 4, 1).await?);
        while at != 0 {
            let _ = write!(all, " {:02x}@{at:02x}", self.get(at.into(), 1).await?);
            at = self.get(u64::from(at) + 1, 1).await?;
        }
        at = 0x100;
        while at != 0 && self.get(at.into(), 4).await? != 0 {
            let _ = write!(all, " {:04x}@{at:03x}", self.get(at.into(), 2).await?);
            at = self.get(at.into(), 4).await? >> 20;
        }
        Ok(all)
    }

    async fn capability(&self, id: u8) -> Result<u64, String> {
        let mut at = self.get(u64::from(header::CAPABILITIES_POINTER) * 4, 1).await?;
        while at != 0 && self.get(at.into(), 1).await? != u32::from(id) {
            at = self.get(u64::from(at) + 1, 1).await?;
        }
        Ok(at.into())
    }

    async fn reset(&self) -> Result<String, String> {
        let control = self.capability(PCI_EXPRESS).await? + DEVICE_CONTROL;
        let (interrupts, table) = (self.interrupts().await?, self.table().await?);
        let mut header = Vec::new();
        for register in 1..HEADER_REGISTERS {
            header.push((4 * register, self.get(4 * register, 4).await?));
        }
        let before = self.get(control, 2).await?;
        self.set(control, 2, before | INITIATE_FLR).await?;
        self.cpu.sleep(Duration::from_ms(100)).await;
        let said = format!("command {:04x}", self.get(4, 2).await?);
        // BARs are written before Command, and addresses before their enable bits.
        for (register, value) in header.into_iter().rev().chain(interrupts.into_iter().rev()) {
            self.set(register, 4, value).await?;
        }
        for (address, dw) in table {
            self.cpu.write_u32(address, dw).await.map_err(|e| e.to_string())?;
        }
        Ok(said)
    }

    /// Registers of MSI and MSI-X, with the values that firmware has written.
    async fn interrupts(&self) -> Result<Vec<(u64, u32)>, String> {
        let mut registers = Vec::new();
        for (id, dws) in [(MSI, 4), (MSIX, 1)] {
            let at = self.capability(id).await?;
            for register in (0..dws).map(|n| at + 4 * n).filter(|_| at != 0) {
                registers.push((register, self.get(register, 4).await?));
            }
        }
        Ok(registers)
    }

    /// DWs of the MSI-X table, with their addresses.
    async fn table(&self) -> Result<Vec<(u64, u32)>, String> {
        let (at, mut table) = (self.capability(MSIX).await?, Vec::new());
        if at == 0 {
            return Ok(table);
        }
        let (place, vectors) = (self.get(at + 4, 4).await?, (self.get(at + 2, 2).await? & 0x7ff) + 1);
        for n in 0..u64::from(vectors) * 4 {
            let address = self.found.address((place & 7) as u8, u64::from(place & !7) + 4 * n)?;
            table.push((address, self.cpu.read_u32(address).await.map_err(|e| e.to_string())?));
        }
        Ok(table)
    }
}

fn mask(bytes: u64) -> u32 {
    u32::MAX >> (32 - 8 * bytes)
}

fn pattern(bytes: u64, mut seed: u64) -> Vec<u8> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
