// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures what a TLP costs in each part between a client and an adapter's memory, without sockets: requester, streams,
//! adapter. Prints medians over batches, in wall time, so that other load on the machine has little effect. `cargo
//! bench -p riser-nettlp --bench parts`

use riser_nettlp::adapter::{Adapter, AdapterSettings, Datagrams, Function, MemoryBackend, Registers};
use riser_nettlp::allow::{AllowList, Rule};
use riser_nettlp::auth::Key;
use riser_nettlp::carrier::SendError;
use riser_nettlp::completer::Image;
use riser_nettlp::requester::{self, Nowhere, Requester, Rest};
use riser_nettlp::stream::{Accepted, Acceptor, AcceptorOptions, Connector, HELLOS, Session};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tlp::{Bdf, Mps, Time};

const BATCH: u64 = 64;
const BATCHES: usize = 4000;
const WINDOW: u16 = 1024;
const LONGEST: u16 = 4200;
const MEMORY: u64 = 1 << 20;
const ID: Bdf = Bdf::from_bits(0x1a00);

/// Datagrams, stored one after the other.
#[derive(Default)]
struct Datagram {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Datagram {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn extend(&mut self, run: &[u8], segment: u16) {
        for datagram in run.chunks(usize::from(segment)) {
            self.bytes.extend_from_slice(datagram);
            self.ends.push(self.bytes.len());
        }
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(&0).chain(&self.ends);
        begins.zip(&self.ends).map(|(begin, end)| &self.bytes[*begin..*end])
    }
}

impl Datagrams for Datagram {
    fn room(&self, _: u16, _: SocketAddr) -> usize {
        usize::from(WINDOW)
    }

    fn send(
        &mut self,
        _: u16,
        _: SocketAddr,
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), SendError> {
        let begin = self.bytes.len();
        self.bytes.resize(begin + len, 0);
        fill(&mut self.bytes[begin..]);
        self.ends.push(self.bytes.len());
        Ok(())
    }

    fn has_session(&self, _: SocketAddr) -> bool {
        true
    }
}

fn peer() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 2], 5000))
}

/// Opens a session, sealed if there is a key. Returns the client's end, and the adapter's end with its index.
fn open(key: Option<&Key>) -> (Session, Acceptor, usize) {
    let options = AcceptorOptions {
        max_sessions: 1,
        max_per_peer: 1,
        window: WINDOW,
        longest: LONGEST,
        key: key.cloned(),
        manual_release: true,
    };
    let mut acceptor = Acceptor::new(options, Box::new(|| 77));
    let mut connector = Connector::new(Time::ZERO, 5, WINDOW, LONGEST, key, HELLOS).expect("randomness");
    let hello = connector.poll_transmit(Time::ZERO).expect("a first Hello").expect("at once");
    let Accepted::Reply(Some(answer)) = acceptor.handle(Time::ZERO, None, peer(), &hello) else {
        panic!("no answer to a Hello")
    };
    let mut client = connector.handle(Time::ZERO, &answer).expect("agreed").expect("a session");
    let confirm = client.poll_transmit(Time::ZERO, 1, 2000).expect("a Confirm").bytes.to_vec();
    let Accepted::Session(index) = acceptor.handle(Time::ZERO, None, peer(), &confirm) else {
        panic!("not confirmed")
    };
    let (_, server) = acceptor.session(index).expect("just opened");
    server.handle(Time::ZERO, &confirm, &mut Vec::new());
    (client, acceptor, index)
}

fn transmit(session: &mut Session, now: Time, wire: &mut Datagram) {
    session.prompt();
    while let Some(run) = session.poll_transmit(now, 64, 65_000) {
        wire.extend(run.bytes, run.segment);
    }
}

fn adapter() -> Adapter<MemoryBackend> {
    let allow = AllowList::new(["127.0.0.2,all,rw".parse::<Rule>().expect("a rule")]).expect("one rule");
    let image = Arc::new(Image::zeroes(MEMORY).expect("a size"));
    let function = Arc::new(Function::new(Registers::new(ID)).expect("a function"));
    let backend = MemoryBackend::new(image, function, Mps::new(256).expect("a size"));
    let scheme = capture::encap::PortScheme::Tagged;
    Adapter::new(AdapterSettings { allow, id: ID, device: None, scheme }, backend)
}

#[derive(Default)]
struct Times {
    parts: [Vec<u64>; 5],
}

const PARTS: [&str; 5] = ["requester out", "client stream", "adapter stream", "adapter", "requester in"];

struct Bench {
    requester: Requester,
    client: Session,
    acceptor: Acceptor,
    index: usize,
    adapter: Adapter<MemoryBackend>,
    now: Time,
    address: u64,
    there: Datagram,
    arrived: Datagram,
    back: Datagram,
    answers: Datagram,
    times: Times,
}

impl Bench {
    fn new(key: Option<&Key>) -> Bench {
        let (client, acceptor, index) = open(key);
        let settings = requester::RequesterSettings::unreliable(ID, 0..=1023, Rest::OFF);
        Bench {
            requester: Requester::new(settings),
            client,
            acceptor,
            index,
            adapter: adapter(),
            now: Time::ZERO,
            address: 0,
            there: Datagram::default(),
            arrived: Datagram::default(),
            back: Datagram::default(),
            answers: Datagram::default(),
            times: Times::default(),
        }
    }

    fn batch(&mut self, is_write: bool, len: u64) {
        self.now += tlp::Duration::from_us(20);
        let mut marks = [Instant::now(); 6];
        self.ask(is_write, len);
        marks[1] = Instant::now();
        self.there.clear();
        transmit(&mut self.client, self.now, &mut self.there);
        marks[2] = Instant::now();
        self.answers.clear();
        let adapting = self.serve();
        self.back.clear();
        self.answer();
        marks[3] = Instant::now();
        self.gather();
        marks[5] = Instant::now();
        let ns = |from: Instant, to: Instant| (to - from).as_nanos() as u64;
        let parts = [
            ns(marks[0], marks[1]),
            ns(marks[1], marks[2]),
            ns(marks[2], marks[3]).saturating_sub(adapting),
            adapting,
            ns(marks[3], marks[5]),
        ];
        self.times.parts.iter_mut().zip(parts).for_each(|(all, one)| all.push(one));
    }

    fn ask(&mut self, is_write: bool, len: u64) {
        for token in 0..BATCH {
            let address = self.address;
            self.address = (self.address + len) % MEMORY;
            let asked = match is_write {
                true => self.requester.write(address, len, token),
                false => self.requester.read(address, len, token),
            };
            asked.expect("room");
        }
        while let Some(out) = self.requester.poll_transmit() {
            let sent = self.client.send(out.tlp_len(), |slot| out.emit(&Nowhere, slot));
            sent.expect("room in the ring");
            self.requester.sent(self.now, &out);
        }
    }

    /// Serves one batch. Returns the time that the adapter took.
    fn serve(&mut self) -> u64 {
        let (mut scratch, mut known) = (Vec::new(), Some(self.index));
        self.arrived.clear();
        for datagram in self.there.iter() {
            let Accepted::Session(index) = self.acceptor.handle(self.now, known, peer(), datagram) else {
                continue;
            };
            known = Some(index);
            let (_, session) = self.acceptor.session(index).expect("open");
            if let Some(open) = session.handle(self.now, datagram, &mut scratch) {
                self.arrived.extend(open, open.len() as u16);
                session.release(1);
            }
        }
        let begun = Instant::now();
        for datagram in self.arrived.iter() {
            let port = capture::encap::PORT_SESSION;
            assert!(self.adapter.handle(self.now, port, peer(), datagram, &mut self.answers));
        }
        begun.elapsed().as_nanos() as u64
    }

    fn answer(&mut self) {
        let (_, session) = self.acceptor.session(self.index).expect("open");
        for answer in self.answers.iter() {
            session.send_framed(answer.len(), |slot| slot.copy_from_slice(answer)).expect("room");
        }
        transmit(session, self.now, &mut self.back);
    }

    fn gather(&mut self) {
        let mut scratch = Vec::new();
        for datagram in self.back.iter() {
            if let Some(tlp) = self.client.handle(self.now, datagram, &mut scratch) {
                self.requester.handle(self.now, &tlp[6..], &mut Nowhere);
            }
        }
        let mut done = 0;
        while let Some(one) = self.requester.poll_done() {
            assert!(one.result.is_ok());
            done += 1;
        }
        assert_eq!(done, BATCH);
    }
}

fn main() {
    let asked = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let key = Key::new([7; 32]);
    for (name, key, is_write, len) in [
        ("256 B writes", None, true, 256),
        ("256 B reads", None, false, 256),
        ("512 B reads", None, false, 512),
        ("sealed 256 B reads", Some(&key), false, 256),
    ] {
        if asked.as_ref().is_some_and(|asked| !name.contains(asked.as_str())) {
            continue;
        }
        let mut bench = Bench::new(key);
        (0..BATCHES).for_each(|_| bench.batch(is_write, len));
        let medians = bench.times.parts.map(|mut all| {
            all.sort_unstable();
            all[all.len() / 2] as f64 / BATCH as f64
        });
        println!("{name}: {:.0} ns", medians.iter().sum::<f64>());
        PARTS.iter().zip(medians).for_each(|(part, ns)| println!("  {part:16} {ns:6.1} ns"));
    }
}
