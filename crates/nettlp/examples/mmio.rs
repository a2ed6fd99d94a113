// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Acts as a host that reads a BAR: keeps reads outstanding over upstream's 16 ports, and prints how many are answered
//! per second. Measures pseudo memory: `riser nettlp psmem`, or the mode `serve`, which runs only the loop of that
//! command. Never writes.
//!
//! ```text
//! mmio serve 127.0.0.1 127.0.0.2 0xfe000000 1000000 &     # or riser nettlp psmem -r 127.0.0.1 -l 127.0.0.2 --base ...
//! mmio host 127.0.0.2 127.0.0.1 0xfe000000 1000000
//! ```

use nettlp::carrier::{Carrier, Wait};
use nettlp::completer::Image;
use nettlp::net::{TaggedCarrier, TaggedOptions};
use nettlp::psmem::{self, Psmem, Window};
use riser_nettlp as nettlp;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use tlp::{Bdf, Body, Duration, MemoryOp, MemoryRequest, Mps, Repr, Span, Tag};

/// Number of outstanding reads, each under its own tag.
const OUTSTANDING: u16 = 64;
/// Bytes of each read, as much as a core reads at once.
const BYTES: u32 = 64;
/// Timeout of an answer. After it, the answer counts as lost, and the run ends.
const PATIENCE: Duration = Duration::from_ms(1000);

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, what, remote, local, base, reads] = &args[..] else {
        eprintln!("usage: mmio host|serve OTHER OWN BASE READS");
        std::process::exit(2);
    };
    #[expect(clippy::reversed_empty_ranges, reason = "no requests of a device")]
    let none = 1..=0;
    let local: IpAddr = local.parse().unwrap();
    let options =
        TaggedOptions { local: Some(local), host: true, ..TaggedOptions::new(remote.parse().unwrap(), none) };
    let carrier = TaggedCarrier::connect(&options).unwrap();
    let base = u64::from_str_radix(base.trim_start_matches("0x"), 16).unwrap();
    let reads: u64 = reads.parse().unwrap();
    if what == "serve" { serve(carrier, base, reads) } else { host(carrier, base, reads) }
}

/// Answers `reads` reads.
fn serve(mut carrier: TaggedCarrier, base: u64, reads: u64) {
    let image = Arc::new(Image::zeroes(1 << 20).unwrap());
    let mut psmem = Psmem::new(Bdf::default(), Mps::new(256).unwrap(), Window { base, image });
    let go_on = |psmem: &Psmem<Window>| psmem.completer_counters().reads < reads;
    psmem::serve(&mut carrier, &mut psmem, false, go_on).unwrap();
}

fn host(mut carrier: TaggedCarrier, base: u64, reads: u64) {
    let began = Instant::now();
    let (mut sent, mut done, mut bytes) = (0, 0, 0);
    for tag in 0..OUTSTANDING {
        read(&mut carrier, base, tag, &mut sent);
    }
    let mut free = Vec::with_capacity(usize::from(Tag::COUNT));
    while done < reads {
        carrier.flush().unwrap();
        free.clear();
        let came = carrier.receive(Wait::AtMost(PATIENCE), |arrival| {
            let parsed = Repr::parse(arrival.tlp).unwrap();
            let Body::Completion(c) = parsed.repr.body else { panic!("{:?}", parsed.repr) };
            assert_eq!(c.byte_count, BYTES as u16, "one completion a read");
            bytes += parsed.data.len();
            free.push(c.tag.bits());
        });
        if came.unwrap() == 0 {
            eprintln!("{} of {sent} reads were not answered", sent - done);
            std::process::exit(1);
        }
        done += free.len() as u64;
        for tag in &free {
            if sent < reads {
                read(&mut carrier, base, *tag, &mut sent);
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{done} reads of {BYTES} B, {OUTSTANDING} outstanding: {:.0} reads/s", done as f64 / seconds);
    assert_eq!(bytes as u64, done * u64::from(BYTES));
}

fn read(carrier: &mut TaggedCarrier, base: u64, tag: u16, sent: &mut u64) {
    let span = Span::covering(base + *sent % 1024 * u64::from(BYTES), BYTES).unwrap();
    let tag = Tag::from_bits(tag);
    let request = MemoryRequest { op: MemoryOp::Read, requester: Bdf::default(), tag, span };
    let repr = Repr::new(Body::Memory(request));
    carrier
        .send(capture::Origin::Host, tag, repr.tlp_len(), |bytes| {
            repr.emit(bytes);
        })
        .unwrap();
    *sent += 1;
}
