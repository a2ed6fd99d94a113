// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands to the links of a lab, on a Unix socket. Each line is a command. The answer is one line: `ok`, or `error:`
//! with the reason. [`Commands`] has the commands. `time` returns the fabric's time in picoseconds, `help` lists the
//! commands.

use super::cable;
use super::error::{CABLE_FORM, VmCommandError};
use super::event::Supervisor;
use files::Error;
use guest::listener::Listener;
use session::external::{COMMAND_FORMS, Commands, Driver, Handle, LINKS, MAX_COMMAND_BYTES};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use tlp::Time;

/// Maximum number of clients; further clients are refused.
const MAX_CLIENTS: usize = 16;
/// Number of bytes that are read from one client before the lab continues.
const MOST_OF_CLIENT: usize = MAX_COMMAND_BYTES;

/// The socket and its clients.
pub struct LinkSocket {
    handle: Handle<Commands>,
    listener: Listener,
    clients: Vec<Client>,
}

struct Client {
    stream: UnixStream,
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    /// Answers that the client has not read yet. Its commands wait until then.
    answers: Vec<u8>,
}

impl LinkSocket {
    /// Listens at `path` for commands to a lab, only for the user that runs riser and root.
    ///
    /// # Errors
    /// As [`Listener::bind`], or the lab takes no commands.
    pub fn bind(driver: &Driver, path: &Path) -> files::Result<LinkSocket> {
        let no_place = || format!("the lab takes no commands for links: it has no place `{LINKS}`");
        let handle = driver.handle_named(LINKS).ok_or_else(|| Error::File(no_place()))?;
        let listener = Listener::bind(path).map_err(|error| Error::File(error.to_string()))?;
        Ok(LinkSocket { handle, listener, clients: Vec::new() })
    }

    /// Returns the descriptors to wait for.
    pub(super) fn interest(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let ready = self.clients.iter().filter(|client| client.answers.is_empty());
        std::iter::once(self.listener.as_fd()).chain(ready.map(|client| client.stream.as_fd()))
    }

    /// Sends answers, as many as the clients accept.
    pub(super) fn flush(&mut self) {
        self.clients.retain_mut(|client| client.flush().is_ok());
    }

    /// Executes received commands, and accepts clients.
    pub(super) fn turn(&mut self, lab: &mut Driver, now: Time, supervisor: &mut impl Supervisor) {
        // The places of clients that have left are free for new clients.
        self.clients.retain_mut(|client| client.turn(&self.handle, lab, now, supervisor).is_ok());
        for _ in 0..MAX_CLIENTS {
            let Ok(Some((socket, peer))) = self.listener.accept() else { break };
            let mut stream = UnixStream::from(socket);
            if !peer.is_served {
                continue;
            }
            if self.clients.len() == MAX_CLIENTS {
                // The client is refused, even if it does not read the reason.
                let _ = writeln!(stream, "error: {MAX_CLIENTS} clients are already connected");
                continue;
            }
            self.clients.push(Client { stream, line: Vec::new(), answers: Vec::new() });
        }
    }
}

impl Client {
    /// # Errors
    /// The client has gone.
    fn turn(
        &mut self,
        handle: &Handle<Commands>,
        lab: &mut Driver,
        now: Time,
        supervisor: &mut impl Supervisor,
    ) -> io::Result<()> {
        if !self.answers.is_empty() {
            return Ok(());
        }
        let mut bytes = [0; MOST_OF_CLIENT];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => self.line.extend_from_slice(&bytes[..n]),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(e) => return Err(e),
        }
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let result = supervisor.command(line.trim());
            let result = result.unwrap_or_else(|| carry_out(handle, lab, now, &line, supervisor.commands()));
            let answer = match result {
                Ok(text) if text.is_empty() => "ok".to_owned(),
                Ok(text) => format!("ok {text}"),
                Err(why) => format!("error: {}", why.to_string().replace('\n', " ")),
            };
            self.answers.extend_from_slice(format!("{answer}\n").as_bytes());
        }
        // A line that is too long is refused at its end. Its beginning is enough for that.
        self.line.truncate(MAX_COMMAND_BYTES + 1);
        self.flush()
    }

    /// # Errors
    /// The client has gone.
    fn flush(&mut self) -> io::Result<()> {
        while !self.answers.is_empty() {
            match self.stream.write(&self.answers) {
                Ok(count) => _ = self.answers.drain(..count),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// Executes a command to the lab. `more` are the forms of further commands.
///
/// # Errors
/// The command is invalid.
fn carry_out(
    handle: &Handle<Commands>,
    lab: &mut Driver,
    now: Time,
    line: &str,
    more: &[&str],
) -> Result<String, VmCommandError> {
    let legal = || [&COMMAND_FORMS[..], &[CABLE_FORM, "time", "help"], more].concat().join("; ");
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.first().copied().unwrap_or("") {
        "cable" => return cable::plug(lab, now, &words[1..]).map(|()| String::new()),
        "time" => return Ok(lab.now().as_ps().to_string()),
        "help" => return Ok(legal()),
        verb if line.len() <= MAX_COMMAND_BYTES
            && !COMMAND_FORMS.iter().any(|form| form.split(' ').next() == Some(verb)) =>
        {
            return Err(VmCommandError::Unknown { verb: verb.to_owned(), forms: legal() });
        }
        _ => {}
    }
    let command = handle.place.parse(line)?;
    lab.inject(now, handle, command);
    Ok(String::new())
}
