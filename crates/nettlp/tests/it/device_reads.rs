// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A hosted device reads memory over a carrier that loses, duplicates and delays datagrams, in virtual time. Every byte of the
//! memory changes each ms, so the test detects data of another address, and data from before the read. Never sleeps.

use capture::encap::Origin;
use device::{AsyncDevice, DmaError, Io};
use endpoint::FunctionConfig;
use riser_nettlp::carrier::{Arrival, Carrier, SendError, Wait};
use riser_nettlp::completer::{Completer, CompleterMemory, Completions, Fault};
use riser_nettlp::device_host::{DeviceHost, DeviceLocation, HostedSettings};
use riser_nettlp::requester::{Counters, Rest};
use riser_nettlp::wire::messaging::MsixEntry;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::rc::Rc;
use tlp::{Bdf, Body, Duration, Mps, PayloadPool, Rcb, Repr, Tag, Time};

const READERS: u64 = 8;
const READS: u64 = 400;
const LEN: u32 = 304;
/// Pause before each read. It limits the number of lost reads per second to the number of tags that can rest.
const PAUSE: Duration = Duration::from_ms(20);

/// Random numbers, equal on every run: SplitMix64 (Steele, Lea and Flood, OOPSLA'14).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % end
    }
}

/// Returns the byte at an address in a given millisecond.
fn byte(address: u64, ms: u64) -> u8 {
    Random(address << 32 | ms).below(256) as u8
}

fn ms(time: Time) -> u64 {
    time.as_ps() / 1_000_000_000
}

/// Memory with its content at a given time.
struct Stamped(Time);

impl CompleterMemory for Stamped {
    fn check(&self, address: u64, _: u64, _: bool) -> Result<(), Fault> {
        // Higher addresses are not assigned, so the answer is UR.
        if address < 1 << 30 { Ok(()) } else { Err(Fault::OutOfRange) }
    }

    fn read(&mut self, address: u64, out: &mut [u8]) {
        for (at, byte) in (address..).zip(out) {
            *byte = self::byte(at, ms(self.0));
        }
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Fault> {
        Ok(())
    }
}

#[derive(Default)]
struct Answers(Vec<Vec<u8>>);

impl Completions for Answers {
    fn room(&self) -> usize {
        64
    }

    fn send(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8])) {
        let mut bytes = vec![0; len];
        fill(&mut bytes);
        self.0.push(bytes);
    }
}

/// The path in both directions, and the adapter at its end.
struct Net {
    now: Time,
    random: Random,
    /// Datagrams per thousand that are lost, duplicated, and delayed by 12 ms. A read does not wait that long.
    lost: u64,
    doubled: u64,
    late: u64,
    requests: BTreeMap<(Time, u64), Vec<u8>>,
    completions: BTreeMap<(Time, u64), Vec<u8>>,
    count: u64,
    adapter: Completer,
}

impl Net {
    /// Returns when copies of a datagram arrive.
    fn fate(&mut self) -> Vec<Time> {
        let Net { random, now, lost, doubled, late, .. } = self;
        let mut fate = Vec::new();
        if random.below(1000) >= *lost {
            let held = if random.below(1000) < *late { Duration::from_ms(12) } else { Duration::ZERO };
            fate.push(*now + held + Duration::from_us(10 + random.below(40)));
            if random.below(1000) < *doubled {
                fate.push(*now + held + Duration::from_us(50 + random.below(300)));
            }
        }
        fate
    }

    fn request(&mut self, bytes: &[u8]) {
        for at in self.fate() {
            self.count += 1;
            self.requests.insert((at, self.count), bytes.to_vec());
        }
    }

    /// Answers the requests that have arrived at the adapter by now.
    fn answer(&mut self) {
        while let Some(((at, _), bytes)) = self.requests.first_key_value().map(|(k, v)| (*k, v.clone()))
            && at <= self.now
        {
            self.requests.pop_first();
            let parsed = Repr::parse(&bytes).unwrap();
            assert!(matches!(parsed.repr.body, Body::Memory(_)));
            let mut answers = Answers::default();
            self.adapter.handle(&parsed.repr, &[], &mut Stamped(at), &mut answers).unwrap();
            for completion in answers.0 {
                for at in self.fate() {
                    self.count += 1;
                    self.completions.insert((at, self.count), completion.clone());
                }
            }
        }
    }

    fn next(&self) -> Option<Time> {
        let first = |queue: &BTreeMap<(Time, u64), Vec<u8>>| queue.keys().next().map(|key| key.0);
        [first(&self.requests), first(&self.completions)].into_iter().flatten().min()
    }
}

/// The carrier at the device software's end, with the highest tag.
struct Lossy(Rc<RefCell<Net>>, u16);

impl Carrier for Lossy {
    fn is_reliable(&self) -> bool {
        false
    }

    fn tags(&self) -> RangeInclusive<u16> {
        0..=self.1
    }

    fn room(&self) -> usize {
        64
    }

    fn send(
        &mut self,
        origin: Origin,
        _: Tag,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError> {
        assert_eq!(origin, Origin::Device);
        let mut bytes = vec![0; len];
        fill(&mut bytes);
        self.0.borrow_mut().request(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, _: Wait, mut take: impl FnMut(Arrival<'_>)) -> io::Result<usize> {
        let net = &mut *self.0.borrow_mut();
        net.answer();
        let mut taken = 0;
        while let Some(entry) = net.completions.first_entry()
            && entry.key().0 <= net.now
        {
            let tlp = entry.remove();
            take(Arrival { origin: Origin::Device, tlp: &tlp, sequence: 0, timestamp: 0 });
            taken += 1;
        }
        Ok(taken)
    }

    fn is_idle(&self) -> bool {
        true
    }
}

/// Counters of the readers.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    read: u64,
    timed_out: u64,
    refused: u64,
    /// Number of bytes of another address, or of a time outside the read.
    stale: u64,
}

async fn reader(io: Io, number: u64, pause: Duration, seen: Rc<Cell<Seen>>) {
    for n in 0..READS {
        io.sleep(pause).await;
        // Lower Address and Byte Count equal those of every other read.
        let address = (n * READERS + number) * 512 % (1 << 24);
        let since = ms(io.now());
        let result = io.dma_read(address, LEN).await;
        let mut sums = seen.get();
        match result {
            Ok(bytes) => {
                sums.read += 1;
                let current = |at: u64, found: u8| (since..=ms(io.now())).any(|ms| byte(at, ms) == found);
                let stale = (address..).zip(bytes.iter()).filter(|(at, found)| !current(*at, **found));
                sums.stale += stale.count() as u64;
            }
            Err(DmaError::CompletionTimeout) => sums.timed_out += 1,
            Err(error) => panic!("{error}"),
        }
        seen.set(sums);
    }
    loop {
        match io.dma_read(1 << 31, 8).await {
            Err(DmaError::UnsupportedRequest) => break,
            Err(DmaError::CompletionTimeout) => {}
            other => panic!("{other:?} at an unassigned address"),
        }
    }
    let mut sums = seen.get();
    sums.refused += 1;
    seen.set(sums);
}

/// Runs all reads of all readers, with a pause before each read and with tags up to `last`. The path has the given
/// faults per thousand datagrams. Returns the readers' and the host's counters.
fn run(rest: Rest, last: u16, pause: Duration, [lost, doubled, late]: [u64; 3]) -> (Seen, Counters) {
    let pool = PayloadPool::new();
    let seen = Rc::new(Cell::new(Seen::default()));
    let told = seen.clone();
    let device = AsyncDevice::with_pool(pool.clone(), move |io: Io| {
        let seen = told.clone();
        async move {
            let sizes = (io.mps().bytes(), io.mrrs().bytes());
            assert_eq!(
                sizes,
                (256, 512),
                "the sizes of the adapter's path reach the device inside its interrupts"
            );
            let tasks: Vec<_> =
                (0..READERS).map(|n| io.spawn(reader(io.clone(), n, pause, seen.clone()))).collect();
            for task in tasks {
                task.await.unwrap();
            }
        }
    });
    let memory = devices::memory::function(Default::default(), config::PcieLayout::default()).unwrap();
    let function = FunctionConfig { device: Box::new(device), ..memory };
    let net = Rc::new(RefCell::new(Net {
        now: Time::ZERO,
        random: Random(7),
        lost,
        doubled,
        late,
        requests: BTreeMap::new(),
        completions: BTreeMap::new(),
        count: 0,
        adapter: Completer::new(Bdf::default(), Mps::new(256).unwrap(), Rcb::default()),
    }));
    let place = DeviceLocation {
        id: Bdf::from_bits(0x1a00),
        address: 0x8000_0000,
        vectors: [MsixEntry::default(); 16],
    };
    let settings = HostedSettings { rest, ..HostedSettings::new(0) };
    let mut host = DeviceHost::new(Lossy(net.clone(), last), function, &place, settings, &pool).unwrap();
    let mut now = Time::ZERO;
    loop {
        host.receive(Wait::Never).unwrap();
        host.advance(now).unwrap();
        if seen.get().refused == READERS {
            break;
        }
        let next = [host.poll_timeout(), net.borrow().next()].into_iter().flatten().min();
        now = next
            .unwrap_or_else(|| panic!("nobody waits: {:?}, {:?}", seen.get(), host.read_counters()))
            .max(now);
        net.borrow_mut().now = now;
        assert!(now < Time::ZERO + Duration::from_ms(60_000), "{:?}", seen.get());
    }
    (seen.get(), *host.read_counters().unwrap())
}

#[test]
fn reads_are_not_retried_if_nothing_is_lost() {
    let (seen, counters) = run(Rest::LOOPBACK, 15, Duration::ZERO, [0; 3]);
    assert_eq!((seen.read, seen.timed_out, seen.stale), (READERS * READS, 0, 0));
    assert_eq!((counters.retried, counters.late, counters.strays.total()), (0, 0, 0));
}

/// The path loses 2 % of all datagrams, duplicates 2 %, and delays 1 % beyond any timeout. All reads succeed,
/// without stale data.
#[test]
fn lost_reads_are_retried_and_never_return_stale_data() {
    let (seen, counters) = run(Rest::NETWORK, 255, PAUSE, [20, 20, 10]);
    assert_eq!((seen.read, seen.timed_out, seen.stale), (READERS * READS, 0, 0), "{counters:?}");
    assert!(counters.retried > 100 && counters.late > 10, "{counters:?}");
}

/// Shows that the rest times prevent stale data.
#[test]
fn stale_data_appears_if_tags_do_not_rest() {
    let (seen, _) = run(Rest::OFF, 15, Duration::ZERO, [20, 20, 10]);
    assert!(seen.stale > 0, "{seen:?}");
}

/// If every attempt is lost, a read ends with the completion timeout, like with a completer that does not answer.
#[test]
fn lost_read_ends_with_the_completion_timeout() {
    let (seen, counters) = run(Rest::NETWORK, 255, PAUSE, [200, 0, 0]);
    assert_eq!((seen.read + seen.timed_out, seen.stale), (READERS * READS, 0));
    assert!(seen.timed_out > 0 && counters.timed_out >= seen.timed_out, "{seen:?} {counters:?}");
}
