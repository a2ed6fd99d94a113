// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cost of one access by a client: in the session alone, over a socket, and in memory. For comparison, the socket is
//! also measured with a server that only echoes. Reports medians over batches, in wall time. Run the benchmark with
//! `cargo bench -p riser-guest --bench parts`. Under `taskset -c 0` client and server share a core, which is best for a
//! machine with one virtual CPU.

use riser_guest::memory::GuestMemory;
use riser_guest::net::{Server, wait};
use riser_guest::vfio_user::{DmaAccess, Event, Region, Session, Shape};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Instant;

const BATCHES: usize = 200;
const MEMORY: u64 = 1 << 20;
/// Bytes of a reply to a read of four bytes.
const REPLY: usize = 36;

fn message(command: u16, flags: u32, payload: &[u8]) -> Vec<u8> {
    let words = [16 + payload.len() as u32, flags, 0].map(u32::to_ne_bytes).concat();
    [&[1, 0][..], &command.to_ne_bytes(), &words, payload].concat()
}

fn version() -> Vec<u8> {
    message(1, 0, &[0; 4])
}

/// Payload of an access: region 0, offset 16, four bytes.
fn access() -> Vec<u8> {
    [&16u64.to_ne_bytes()[..], &0u32.to_ne_bytes(), &4u32.to_ne_bytes()].concat()
}

fn shape() -> Shape {
    let mut shape = Shape::new();
    shape.regions[0] = Region::of(0x2000);
    shape
}

/// Returns the median over all batches, in nanoseconds per item; a batch has `count` items.
fn median(count: usize, mut batch: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let begin = Instant::now();
            batch();
            begin.elapsed().as_nanos() as f64 / count as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[BATCHES / 2]
}

fn session() {
    const COUNT: usize = 1000;
    let mut session = Session::new(&shape());
    let turn = |session: &mut Session, bytes: &[u8]| {
        session.receive(bytes, []);
        while let Some(event) = session.poll() {
            match event {
                Event::Read { token, .. } => session.complete(token, Ok(&[1, 2, 3, 4])),
                Event::Write { token, .. } => session.complete(token, Ok(&[])),
                _ => {}
            }
        }
        session.sent(session.outgoing().len());
    };
    turn(&mut session, &version());
    let read = message(9, 0, &access());
    let ns = median(COUNT, || (0..COUNT).for_each(|_| turn(&mut session, &read)));
    println!("session: a read                    {ns:8.0} ns");
    let writes = message(10, 0x10, &[access(), vec![1; 4]].concat()).repeat(COUNT);
    let ns = median(COUNT, || turn(&mut session, &writes));
    println!("session: a posted write            {ns:8.0} ns");
}

/// Answers reads at the maximum speed of a process that does nothing else.
fn echo(listener: &UnixListener) -> std::io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    let mut bytes = [0; 64];
    loop {
        let count = stream.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        let len = if bytes[2] == 1 { count } else { REPLY };
        (bytes[4], bytes[8]) = (len as u8, 1);
        stream.write_all(&bytes[..len])?;
    }
}

fn serve(mut server: Server) -> std::io::Result<()> {
    loop {
        wait([&server], [], None)?;
        server.turn()?;
        while let Some(event) = server.poll() {
            match event {
                Event::Read { token, .. } => server.complete(token, Ok(&[1, 2, 3, 4])),
                Event::HangUp(_) => return Ok(()),
                _ => {}
            }
        }
        server.flush();
    }
}

fn round_trip(path: &Path) -> f64 {
    const COUNT: usize = 200;
    let mut stream = UnixStream::connect(path).expect("a server");
    let mut reply = [0; REPLY];
    stream.write_all(&version()).expect("a socket");
    stream.read_exact(&mut reply[..20]).expect("a reply");
    let read = message(9, 0, &access());
    median(COUNT, || {
        for _ in 0..COUNT {
            stream.write_all(&read).expect("a socket");
            stream.read_exact(&mut reply).expect("a reply");
        }
    })
}

fn sockets() {
    let folder = tempfile::tempdir().expect("a folder");
    let [bare, ours] = ["bare", "ours"].map(|name| folder.path().join(name));
    let listener = UnixListener::bind(&bare).expect("a socket");
    let server = Server::bind(&ours, shape()).expect("a socket");
    let threads = [std::thread::spawn(move || echo(&listener)), std::thread::spawn(move || serve(server))];
    let [bare, ours] = [round_trip(&bare), round_trip(&ours)];
    println!("socket: a read, of a bare echo     {bare:8.0} ns");
    println!("socket: a read, of the server      {ours:8.0} ns, {:.2} times that", ours / bare);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic").expect("no error"));
}

fn memory(seals: SealFlags, name: &str) {
    const COUNT: usize = 1000;
    let file = memfd_create("memory", MemfdFlags::ALLOW_SEALING).expect("memory");
    ftruncate(&file, MEMORY).expect("memory");
    fcntl_add_seals(&file, seals).expect("seals");
    let memory = GuestMemory::new(file, 0, MEMORY, DmaAccess { read: true, write: true }).expect("memory");
    for bytes in [64, 4096] {
        let mut data = vec![1; bytes];
        let at = |n: usize| (n as u64 * 4096) % (MEMORY - 4096);
        let read = median(COUNT, || assert!((0..COUNT).all(|n| memory.read(at(n), &mut data))));
        let write = median(COUNT, || assert!((0..COUNT).all(|n| memory.write(at(n), &data))));
        println!("memory {name}: {bytes:4} bytes read {read:6.0} ns, written {write:6.0} ns");
    }
}

fn main() {
    session();
    sockets();
    memory(SealFlags::SHRINK, "mapped    ");
    memory(SealFlags::empty(), "not mapped");
}
