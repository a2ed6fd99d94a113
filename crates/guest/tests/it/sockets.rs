// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The socket, with a client in its own thread that passes descriptors.

use crate::client;
use crate::client::{QEMU, command, cut, longs, version, words};
use riser_guest::memory::GuestMemory;
use riser_guest::net::{ListenError, Server, wait};
use riser_guest::vfio_user::{Event, HangUp, Irq, IrqChange, Region, Shape};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

fn shape() -> Shape {
    let mut shape = Shape::new();
    shape.regions[0] = Region::of(0x2000);
    shape.irqs = [1, 0, 4, 1, 1];
    shape
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vmd.sock");
    (folder, path)
}

/// Runs the server until there is an event.
fn next(server: &mut Server) -> Event {
    for _ in 0..100 {
        if let Some(event) = server.poll() {
            return event;
        }
        wait([&*server], [], Some(Duration::from_millis(100))).unwrap();
        server.turn().unwrap();
    }
    panic!("no event in 10 s");
}

fn send_with(stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(40))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)));
    let sent = sendmsg(stream, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::empty()).unwrap();
    assert_eq!(sent, bytes.len());
}

fn reply(stream: &mut UnixStream) -> client::Wire {
    let mut head = [0; 16];
    stream.read_exact(&mut head).unwrap();
    let size = u32::from_le_bytes(head[4..8].try_into().unwrap()) as usize;
    let mut all = head.to_vec();
    all.resize(size, 0);
    stream.read_exact(&mut all[16..]).unwrap();
    cut(&all).remove(0)
}

fn connect(server: &mut Server) -> UnixStream {
    let mut stream = UnixStream::connect(server.path()).unwrap();
    stream.write_all(&version(0, 0, QEMU)).unwrap();
    assert!(matches!(next(server), Event::Joined));
    assert!(server.arrival().is_some_and(|peer| peer.is_served && peer.process == std::process::id()));
    server.flush();
    assert_eq!(reply(&mut stream).command, 1);
    stream
}

fn map(id: u16, address: u64, offset: u64) -> Vec<u8> {
    command(id, 2, &[words(&[32, 3]), longs(&[offset, address, 0x1000])].concat())
}

/// QEMU shuts down its receiving half after an answer that arrived too late, and stays connected.
#[test]
fn disconnects_client_that_stops_receiving() {
    for has_answer in [false, true] {
        let (_folder, path) = place();
        let mut server = Server::bind(&path, shape()).unwrap();
        let mut stream = connect(&mut server);
        if has_answer {
            stream.write_all(&command(5, 4, &words(&[16, 0, 0, 0]))).unwrap();
        }
        stream.shutdown(std::net::Shutdown::Read).unwrap();
        let Event::HangUp(why) = next(&mut server) else { panic!() };
        assert!(why == HangUp::Deaf && why.leaves_peer(), "{why:?}");
    }
}

#[test]
fn shares_memory_and_interrupts_by_descriptors() {
    let (_folder, path) = place();
    let mut server = Server::bind(&path, shape()).unwrap();
    let mut stream = connect(&mut server);
    let file = memfd_create("guest", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, 0x2000).unwrap();
    fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();

    // Messages without descriptors before and after the message with a descriptor. QEMU sends such messages for its
    // ROMs. All are sent before the server reads.
    stream.write_all(&map(1, 0x10000, 0)).unwrap();
    send_with(&stream, &map(2, 0x20000, 0x1000), &[file.as_fd()]);
    stream.write_all(&map(3, 0x30000, 0)).unwrap();
    let mut memory = None;
    for address in [0x10000, 0x20000, 0x30000] {
        let Event::Map { token, map, fd, fd_offset } = next(&mut server) else { panic!() };
        assert_eq!((map.address, fd.is_some()), (address, address == 0x20000));
        if let Some(fd) = fd {
            memory = Some(GuestMemory::new(fd, fd_offset, map.size, map.access).unwrap());
        }
        server.complete(token, Ok(&[]));
    }
    server.flush();
    assert_eq!([1, 2, 3].map(|_| reply(&mut stream).id), [1, 2, 3]);
    let memory = memory.unwrap();
    assert!(memory.is_mapped() && memory.write(8, b"by DMA"));
    let mut seen = [0; 6];
    rustix::io::pread(&file, &mut seen, 0x1008).unwrap();
    assert_eq!(&seen, b"by DMA");

    let events = [(); 2].map(|()| eventfd(0, EventfdFlags::empty()).unwrap());
    let set = command(4, 8, &words(&[20, 0x24, 2, 1, 2]));
    send_with(&stream, &set, &events.each_ref().map(AsFd::as_fd));
    let Event::Irqs(irqs) = next(&mut server) else { panic!() };
    assert_eq!((irqs.irq, irqs.first, irqs.count, irqs.change), (Irq::Msix, 1, 2, IrqChange::Assigned));
    server.flush();
    assert_eq!((reply(&mut stream).id, reply_is_none(&stream)), (4, true));
    assert!(server.signal(Irq::Msix, 2) && server.signal(Irq::Msix, 2));
    assert!(!server.signal(Irq::Msix, 0) && !server.signal(Irq::Msix, 4) && !server.signal(Irq::Msi, 0));
    let mut count = [0; 8];
    assert_eq!(rustix::io::read(&events[1], &mut count), Ok(8));
    assert_eq!(u64::from_le_bytes(count), 2);
}

fn reply_is_none(stream: &UnixStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let is_none = (&mut &*stream).read(&mut [0]).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
    is_none
}

#[test]
fn never_writes_to_other_descriptors_than_eventfds() {
    let (_folder, path) = place();
    let mut server = Server::bind(&path, shape()).unwrap();
    let mut stream = connect(&mut server);
    let (one, _other) = UnixStream::pair().unwrap();
    send_with(&stream, &command(4, 8, &words(&[20, 0x24, 2, 0, 1])), &[one.as_fd()]);
    assert!(matches!(next(&mut server), Event::HangUp(HangUp::NotAnEvent)));
    assert!(!server.signal(Irq::Msix, 0));
    server.turn().unwrap();
    server.turn().unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
}

/// A blocking event descriptor with a full counter.
#[test]
fn full_counter_does_not_block() {
    let (_folder, path) = place();
    let mut server = Server::bind(&path, shape()).unwrap();
    let stream = connect(&mut server);
    let full = eventfd(0, EventfdFlags::empty()).unwrap();
    rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    send_with(&stream, &command(4, 8, &words(&[20, 0x24, 2, 0, 1])), &[full.as_fd()]);
    assert!(matches!(next(&mut server), Event::Irqs(_)));
    assert!(server.signal(Irq::Msix, 0));
}

#[test]
fn rejects_too_many_descriptors() {
    let (_folder, path) = place();
    let mut server = Server::bind(&path, shape()).unwrap();
    let stream = connect(&mut server);
    let events: Vec<_> = (0..40).map(|_| eventfd(0, EventfdFlags::empty()).unwrap()).collect();
    let fds: Vec<_> = events.iter().map(AsFd::as_fd).collect();
    send_with(&stream, &command(4, 8, &words(&[20, 0x24, 2, 0, 17])), &fds);
    assert!(matches!(next(&mut server), Event::HangUp(HangUp::Truncated)));
    // The descriptors are in two send calls for one message.
    let stream = connect(&mut server);
    let set = command(4, 8, &words(&[20, 0x24, 2, 0, 17]));
    send_with(&stream, &set[..20], &fds[..16]);
    send_with(&stream, &set[20..], &fds[..1]);
    assert!(matches!(next(&mut server), Event::HangUp(HangUp::Descriptors { command: 8 })));
}

#[test]
fn serves_one_client_after_another() {
    let (_folder, path) = place();
    let mut server = Server::bind(&path, shape()).unwrap();
    for _ in 0..3 {
        let stream = connect(&mut server);
        // Waits until the first client has left.
        let mut second = UnixStream::connect(&path).unwrap();
        second.write_all(&version(0, 0, QEMU)).unwrap();
        drop(stream);
        assert!(matches!(next(&mut server), Event::HangUp(HangUp::Closed)));
        assert!(matches!(next(&mut server), Event::Joined));
        server.flush();
        assert_eq!(reply(&mut second).command, 1);
        drop(second);
        assert!(matches!(next(&mut server), Event::HangUp(HangUp::Closed)));
        server.arrival();
    }
}

/// A client that connects and sends nothing does not block the next one.
#[test]
fn silent_client_does_not_block_the_next() {
    let (_folder, path) = place();
    let mut server = Server::bind(&path, shape()).unwrap();
    let mut silent = UnixStream::connect(&path).unwrap();
    server.turn().unwrap();
    assert!(server.arrival().is_some() && server.session().is_some());
    let _next = connect(&mut server);
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
}

/// A peer that dies after each byte of a message; the next client is served.
#[test]
fn serves_next_client_after_one_dies() {
    let (_folder, path) = place();
    let mut server = Server::bind(&path, shape()).unwrap();
    let message = map(1, 0x1000, 0);
    for cut in 0..=message.len() {
        let mut stream = connect(&mut server);
        stream.write_all(&message[..cut]).unwrap();
        drop(stream);
        let mut event = next(&mut server);
        if cut == message.len() {
            assert!(matches!(event, Event::Map { .. }));
            event = next(&mut server);
        }
        let within = 0 < cut && cut < message.len();
        let expected = if within { HangUp::ClosedWithin } else { HangUp::Closed };
        assert!(matches!(event, Event::HangUp(why) if why == expected), "{cut}");
    }
}

/// A client that is disconnected but stays and does not read: the next one is served.
#[test]
fn serves_next_client_after_hang_up() {
    let (_folder, path) = place();
    let mut server = Server::bind(&path, shape()).unwrap();
    let mut stream = connect(&mut server);
    let read = [longs(&[0]), words(&[0, 0x2000])].concat();
    stream.write_all(&command(1, 9, &read).repeat(100)).unwrap();
    stream.write_all(&[0xff; 16]).unwrap();
    loop {
        match next(&mut server) {
            Event::Read { token, len, .. } => server.complete(token, Ok(&vec![0; len])),
            Event::HangUp(HangUp::Size { .. }) => break,
            other => panic!("{other:?}"),
        }
    }
    // More bytes than the socket buffer has room for.
    server.flush();
    assert!(!server.session().unwrap().outgoing().is_empty());
    let _next = connect(&mut server);
    assert!(stream.write_all(&[0; 16]).is_err());
}

/// More replies than a socket has room for, to a client that does not read yet. All arrive later, and memory stays
/// bounded.
#[test]
fn slow_client_loses_no_replies() {
    const READS: usize = 4096;
    let (_folder, path) = place();
    let mut server = Server::bind(&path, shape()).unwrap();
    let stream = connect(&mut server);
    let mut writer = stream.try_clone().unwrap();
    let client = std::thread::spawn(move || {
        for id in 0..READS {
            let read = [longs(&[0]), words(&[0, 0x2000])].concat();
            writer.write_all(&command(id as u16, 9, &read)).unwrap();
        }
    });
    let mut reader = None;
    let (mut events, mut idle) = (0, 0);
    while events < READS {
        while let Some(event) = server.poll() {
            let Event::Read { token, len, .. } = event else { panic!("{event:?}") };
            server.complete(token, Ok(&vec![events as u8; len]));
            events += 1;
            idle = 0;
        }
        idle += 1;
        if idle == 3 && reader.is_none() {
            let mut stream = stream.try_clone().unwrap();
            reader = Some(std::thread::spawn(move || {
                for id in 0..READS {
                    let reply = reply(&mut stream);
                    assert_eq!((usize::from(reply.id), reply.payload.len()), (id, 16 + 0x2000));
                    assert!(reply.payload[16..].iter().all(|byte| *byte == id as u8));
                }
            }));
            assert!(events < READS, "all at once: the bound was not met");
        }
        wait([&server], [], Some(Duration::from_millis(50))).unwrap();
        server.turn().unwrap();
    }
    while server.session().is_some_and(|session| !session.outgoing().is_empty()) {
        wait([&server], [], Some(Duration::from_millis(50))).unwrap();
        server.turn().unwrap();
    }
    client.join().unwrap();
    reader.unwrap().join().unwrap();
}

/// Part of the next test, as a separate process of another user: connects, and is not served.
#[test]
#[ignore = "a part of another_user_is_not_served"]
fn child_process_connects_as_another_user() {
    let mut stream = UnixStream::connect(std::env::var("RISER_TEST_SOCKET").unwrap()).unwrap();
    // The server may already have closed the connection.
    let _ = stream.write_all(&version(0, 0, QEMU));
    assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "was answered");
}

/// A client of another user that connects in spite of the file's mode. Only root can become another user, so the test needs root.
#[test]
fn another_user_is_not_served() {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (folder, path) = place();
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let program = folder.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut server = Server::bind(&path, shape()).unwrap();
    [(folder.path(), 0o755), (&program, 0o755), (&path, 0o666)]
        .into_iter()
        .for_each(|(path, mode)| open(path, mode));
    let mut other = Command::new(&program);
    other
        .args(["--exact", "sockets::child_process_connects_as_another_user", "--ignored"])
        .env("RISER_TEST_SOCKET", &path)
        .uid(NOBODY)
        .gid(NOBODY);
    let mut other = other.current_dir("/").spawn().unwrap();
    assert!(wait([&server], [], Some(Duration::from_secs(20))).unwrap().servers);
    assert!(!server.turn().unwrap());
    let peer = server.arrival().unwrap();
    assert_eq!((peer.user, peer.process, peer.is_served), (NOBODY, other.id(), false));
    assert!(server.session().is_none());
    assert!(other.wait().unwrap().success());
    let _ours = connect(&mut server);
}

#[test]
fn replaces_and_removes_the_socket_file() {
    let (folder, path) = place();
    let server = Server::bind(&path, shape()).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(matches!(Server::bind(&path, shape()), Err(ListenError::InUse { .. })));
    assert!(path.exists(), "the socket of another stays");
    drop(server);
    assert!(!path.exists());

    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "one that nobody listens to");
    let server = Server::bind(&path, shape()).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "another's").unwrap();
    drop(server);
    assert_eq!(std::fs::read(&path).unwrap(), b"another's");
    assert!(matches!(Server::bind(&path, shape()), Err(ListenError::NotASocket { .. })));

    let long = folder.path().join("x".repeat(120));
    assert!(matches!(Server::bind(&long, shape()), Err(ListenError::Path { .. })));
    let nowhere = folder.path().join("nowhere/vmd.sock");
    assert!(matches!(Server::bind(&nowhere, shape()), Err(ListenError::System { .. })));
}
