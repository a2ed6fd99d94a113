// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands to the links of a lab, by a Unix socket: each line is one, and is answered by a line, `ok` or `error: WHY`. What they are
//! says [`Commands`]; `time` is answered by the fabric's picoseconds.

use crate::external::{Commands, Door, Driver, MAX_COMMAND_BYTES};
use guest::listener::{ListenError, Listener};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use tlp::Time;

/// The socket, and who is connected to it: one at a time.
pub struct LinkSocket {
    door: Door<Commands>,
    listener: Listener,
    client: Option<Client>,
}

struct Client {
    stream: UnixStream,
    /// What has come of a line that is not whole.
    line: Vec<u8>,
}

impl LinkSocket {
    /// Listens at `path`, for our own user or root alone.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub fn bind(door: Door<Commands>, path: &Path) -> Result<LinkSocket, ListenError> {
        Ok(LinkSocket { door, listener: Listener::bind(path)?, client: None })
    }

    /// What is to be waited for.
    pub(super) fn interest(&self) -> BorrowedFd<'_> {
        self.client.as_ref().map_or(self.listener.as_fd(), |client| client.stream.as_fd())
    }

    /// Does what has come.
    pub(super) fn turn(&mut self, lab: &mut Driver, now: Time) {
        if self.client.is_none()
            && let Ok(Some((socket, peer))) = self.listener.accept()
            && peer.is_served
        {
            self.client = Some(Client { stream: socket.into(), line: Vec::new() });
        }
        if let Some(client) = &mut self.client
            && client.turn(&self.door, lab, now).is_err()
        {
            self.client = None;
        }
    }
}

impl Client {
    /// # Errors
    /// It has gone, or does not read what it is told.
    fn turn(&mut self, door: &Door<Commands>, lab: &mut Driver, now: Time) -> io::Result<()> {
        let mut bytes = [0; 512];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.line.extend_from_slice(&bytes[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
            while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.line.drain(..=end).collect();
                let answer = obey(door, lab, now, &String::from_utf8_lossy(&line));
                // An answer is shorter than what a socket holds.
                self.stream.write_all(format!("{answer}\n").as_bytes())?;
            }
            // What is too long is refused at its end, by its beginning.
            self.line.truncate(MAX_COMMAND_BYTES + 1);
        }
    }
}

fn obey(door: &Door<Commands>, lab: &mut Driver, now: Time, line: &str) -> String {
    if line.trim() == "time" {
        return format!("ok {}", lab.now().as_ps());
    }
    match door.place.parse(line) {
        Ok(command) => {
            lab.inject(now, door, command);
            "ok".to_owned()
        }
        Err(why) => format!("error: {}", why.replace('\n', " ")),
    }
}
