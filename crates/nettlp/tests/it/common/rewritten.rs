// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An adapter whose memory is rewritten all the time: in every turn of the loop, the next pages get a new version.
//! Every 8 bytes hold their address and their version.

use riser_nettlp::adapter::{Adapter, AdapterSettings, Function, MemoryBackend, Registers};
use riser_nettlp::allow::{AllowList, Rule};
use riser_nettlp::completer::{CompleterMemory, Image};
use riser_nettlp::net::{AdapterOptions, AdapterSockets, Clock, serve};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use tlp::{Bdf, Mps};

const PAGE: usize = 4096;
pub(crate) const PAGES: usize = 256;
/// Pages that get a new version per turn.
const PAGES_A_TURN: usize = 4;

/// Versions of each page: that of the last write that has begun, and that of the last write that has finished.
struct Versions {
    begun: Vec<AtomicU32>,
    ended: Vec<AtomicU32>,
}

pub(crate) struct Rewritten {
    versions: Arc<Versions>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Rewritten {
    pub(crate) const BYTES: u64 = (PAGE * PAGES) as u64;

    /// Starts the adapter at `address`. It serves `peer`.
    pub(crate) fn start(address: IpAddr, peer: IpAddr, last_tag: u16) -> Rewritten {
        let allow = AllowList::new([format!("{peer},all,rw").parse::<Rule>().unwrap()]).unwrap();
        let options = AdapterOptions { tags: Some(0..=last_tag), ..AdapterOptions::new(address) };
        let mut sockets = AdapterSockets::bind(&options).unwrap();
        let mut image = Arc::new(Image::zeroes(Rewritten::BYTES).unwrap());
        let none = || (0..PAGES).map(|_| AtomicU32::new(0)).collect();
        let versions = Arc::new(Versions { begun: none(), ended: none() });
        (0..PAGES).for_each(|page| rewrite(&mut image, &versions, page));
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, shared) = (Arc::clone(&stop), Arc::clone(&versions));
        let thread = std::thread::spawn(move || {
            let id = Bdf::from_bits(0x1b00);
            let function = Arc::new(Function::new(Registers::new(id)).unwrap());
            let backend = MemoryBackend::new(Arc::clone(&image), function, Mps::new(256).unwrap());
            let scheme = capture::encap::PortScheme::Tagged;
            let mut adapter = Adapter::new(AdapterSettings { allow, id, device: None, scheme }, backend);
            let mut turns = 0;
            let go_on = |_: &mut Adapter<MemoryBackend>, _: &AdapterSockets, _| {
                for page in (0..PAGES_A_TURN).map(|n| (turns * PAGES_A_TURN + n) % PAGES) {
                    rewrite(&mut image, &shared, page);
                }
                turns += 1;
                !stopped.load(Ordering::Relaxed)
            };
            serve(&mut sockets, &mut adapter, Clock::new(), false, go_on).unwrap();
        });
        Rewritten { versions, stop, thread: Some(thread) }
    }

    /// Returns the oldest versions that a read started now may return, for each page from `address`.
    pub(crate) fn oldest(&self, address: u64, len: usize) -> [u32; 2] {
        pages(address, len).map(|page| self.versions.ended[page].load(Ordering::SeqCst))
    }

    /// Returns true if each word holds its own address, and a version from `oldest` up to the version of the last
    /// write that has begun.
    pub(crate) fn is_current(&self, address: u64, data: &[u8], oldest: [u32; 2]) -> bool {
        let newest = pages(address, data.len()).map(|page| self.versions.begun[page].load(Ordering::SeqCst));
        let mut done = 0;
        while done < data.len() {
            let at = address + done as u64;
            let lead = (at % 8) as usize;
            let len = (8 - lead).min(data.len() - done);
            let page = usize::from(at / PAGE as u64 != address / PAGE as u64);
            let found = &data[done..done + len];
            let mut versions = oldest[page]..=newest[page];
            if !versions.any(|version| word(at / 8, version)[lead..lead + len] == *found) {
                return false;
            }
            done += len;
        }
        true
    }
}

impl Drop for Rewritten {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

// Each read of these tests covers at most two pages.
fn pages(address: u64, len: usize) -> [usize; 2] {
    [address, address + len as u64 - 1].map(|address| address as usize / PAGE)
}

fn word(word: u64, version: u32) -> [u8; 8] {
    (u64::from(version) << 32 | word).to_le_bytes()
}

fn rewrite(image: &mut Arc<Image>, versions: &Versions, page: usize) {
    let version = versions.begun[page].load(Ordering::SeqCst) + 1;
    versions.begun[page].store(version, Ordering::SeqCst);
    let first = (page * PAGE / 8) as u64;
    let bytes: Vec<u8> = (0..PAGE as u64 / 8).flat_map(|n| word(first + n, version)).collect();
    image.write(page as u64 * PAGE as u64, &bytes).unwrap();
    versions.ended[page].store(version, Ordering::SeqCst);
}
