// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab with one card, served to clients at sockets by a thread.

use lab::{LabFile, parse_in};
use riser_worlds::machine::{
    AssignedMachine, LinkSocket, Pace, Supervisor, VmCounters, VmEvent, VmHost, VmOptions, serve,
};
use session::Session;
use session::external::{Clock, Driver};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tlp::Time;

const LAB: &str =
    "version = 1\n[[slot]]\nname = \"card\"\ndevice = \"dma-engine\"\n[slot.dma-engine]\nvfs = 0\n";

pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("riser-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A lab whose card a client gets, with a socket for commands to its links, served by a thread.
pub(crate) struct Served {
    pub(crate) folder: PathBuf,
    is_over: Arc<AtomicBool>,
    /// Returns the counters, the number of clients that have gone, and the number of lost writes.
    server: JoinHandle<(VmCounters, u64, u64)>,
}

impl Served {
    /// A card that one client has.
    pub(crate) fn start(name: &str) -> Served {
        Served::start_with(name, LAB.to_owned(), |lab, file, folder| {
            let options = VmOptions { direct: true, ..VmOptions::default() };
            VmHost::open(lab, file, "root", options, folder, &[]).unwrap()
        })
    }

    /// A card below the VMD of one client. Its two virtual functions belong to the clients `a` and `b`. Client `b` also has a virtual
    /// function of a second card, `other`.
    pub(crate) fn start_assigned(name: &str) -> Served {
        let card = LAB.replace("vfs = 0", "vfs = 2");
        let other = LAB.replace("version = 1", "").replace("card", "other").replace("vfs = 0", "vfs = 1");
        Served::start_with(name, card + &other, |lab, file, folder| {
            let machine = |name: &str, functions: &[&str]| AssignedMachine {
                name: name.to_owned(),
                functions: functions.iter().copied().map(str::to_owned).collect(),
                folder: folder.to_owned(),
            };
            let machines =
                [machine("b", &["card.virtfn1", "other.virtfn0"]), machine("a", &["card.virtfn0"])];
            below_vmd(lab, file, folder, &machines)
        })
    }

    /// A card below the VMD of one client, in a lab with these additional keys.
    pub(crate) fn start_vmd(name: &str, keys: &str) -> Served {
        Served::start_with(name, format!("{LAB}{keys}"), |lab, file, folder| {
            below_vmd(lab, file, folder, &[])
        })
    }

    fn start_with(
        name: &str,
        lab: String,
        open: impl FnOnce(&mut Driver, &LabFile, &Path) -> VmHost + Send + 'static,
    ) -> Served {
        let (folder, is_over) = (folder(name), Arc::new(AtomicBool::new(false)));
        let (there, stop) = (folder.clone(), Arc::clone(&is_over));
        let server = std::thread::spawn(move || serve_until(&lab, open, &there, &stop));
        Served { folder, is_over, server }
    }

    pub(crate) fn end(self) -> (VmCounters, u64, u64) {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.server.join().unwrap();
        std::fs::remove_dir_all(self.folder).unwrap();
        ended
    }
}

fn below_vmd(lab: &mut Driver, file: &LabFile, folder: &Path, assigned: &[AssignedMachine]) -> VmHost {
    VmHost::open(lab, file, "root", VmOptions::default(), &folder.join("vmd"), assigned).unwrap()
}

fn serve_until(
    text: &str,
    open: impl FnOnce(&mut Driver, &LabFile, &Path) -> VmHost,
    folder: &Path,
    stop: &AtomicBool,
) -> (VmCounters, u64, u64) {
    let mut file = parse_in(&devices::models(), Path::new("lab.toml"), text, "".into()).unwrap();
    file.lab.host.outside = true;
    let mut lab = Driver::new(Session::new(&file).unwrap(), Clock::Virtual);
    let mut guest = open(&mut lab, &file, folder);
    let links = LinkSocket::bind(&lab, &folder.join("links")).unwrap();
    let begin = Instant::now();
    let clock = || Time::from_ps(begin.elapsed().as_nanos() as u64 * 1000);
    let mut counts = Counts { gone: 0, lost: 0, stop };
    serve(
        &mut lab,
        std::iter::once(&mut guest),
        &mut [links],
        &mut [],
        (Pace::Clock { slow: 1, own_processor: false }, clock),
        &mut counts,
    )
    .unwrap();
    (guest.counters(), counts.gone, counts.lost)
}

struct Counts<'s> {
    gone: u64,
    lost: u64,
    stop: &'s AtomicBool,
}

impl Supervisor for Counts<'_> {
    fn notify(&mut self, _: &mut Driver, _: usize, _: &str, what: VmEvent) {
        match what {
            VmEvent::Gone(_) => self.gone += 1,
            VmEvent::WritesLost(count) => self.lost += count,
            VmEvent::Misplaced(why) => eprintln!("{why}"),
            _ => {}
        }
    }

    fn goes_on(&mut self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Connects as soon as the socket is there.
pub(crate) fn connect(path: &Path) -> UnixStream {
    let begin = Instant::now();
    let stream = loop {
        match UnixStream::connect(path) {
            Ok(stream) => break stream,
            Err(e) => assert!(begin.elapsed() < Duration::from_secs(20), "nobody listens: {e}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// A client of the socket of links.
pub(crate) struct Links(pub(crate) BufReader<UnixStream>);

impl Links {
    pub(crate) fn join(served: &Served) -> Links {
        Links(BufReader::new(connect(&served.folder.join("links"))))
    }

    pub(crate) fn hear(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.0.get_mut().write_all(line.as_bytes()).unwrap();
        self.hear()
    }

    pub(crate) fn time_ps(&mut self) -> u64 {
        self.ask("time\n").trim().strip_prefix("ok ").unwrap().parse().unwrap()
    }
}
