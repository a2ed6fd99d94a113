// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Authenticated sessions: a pre-shared key, and datagrams that are sealed (encrypted and authenticated). Sessions are
//! authenticated only if both ends are given the same key.
//!
//! The handshake is Noise NNpsk0 with Curve25519, ChaCha20-Poly1305 and BLAKE2s (Noise Protocol Framework, revision 34).
//! Its two messages travel in Hello and HelloAck, and it also authenticates their other fields. So every session
//! has its own keys, and a later loss of the pre-shared key does not disclose them. After the handshake every
//! datagram is sealed. Its six-byte number is not encrypted and is the nonce. A datagram that was altered, given
//! another number, or taken from another session cannot be opened. Streams reject numbers that they have already
//! received, so a replayed datagram has no effect.
//!
//! Never falls back to a weaker mode than requested, and never logs a key. The time to compare secrets never
//! depends on them, and this also holds for the library.

use snow::{Builder, HandshakeState, StatelessTransportState};
use std::io::Read;
use std::path::Path;
use std::{fmt, fs, io};

/// Bytes that sealing adds to a datagram.
pub const SEAL_BYTES: usize = 16;
/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// Maximum number of bytes read from a key file: a key, and room for white space.
const MAX_FILE_BYTES: u64 = 1024;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Bytes of each handshake message: an ephemeral key, and the seal of an empty payload.
const MESSAGE_BYTES: usize = 32 + SEAL_BYTES;

/// A pre-shared key.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Reason why no key could be loaded.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("key file {path}: {source}")]
    File {
        /// Path of the file.
        path: String,
        /// Error of the file system.
        source: io::Error,
    },
    /// The content is not a key.
    #[error("invalid key: {0}; expected 64 hexadecimal digits (`openssl rand -hex 32` makes one)")]
    Format(String),
}

impl Key {
    /// Creates a key from these bytes.
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Key {
        Key(bytes)
    }

    /// Reads a key from a file of 64 hexadecimal digits. White space around them is ignored.
    ///
    /// # Errors
    /// If the file cannot be read, or its content is not a key.
    pub fn from_file(path: &Path) -> Result<Key, KeyError> {
        let mut text = String::new();
        fs::File::open(path)
            .and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text))
            .map_err(|source| KeyError::File { path: path.display().to_string(), source })?;
        Key::from_hex(&text).map_err(|error| match error {
            KeyError::Format(what) => KeyError::Format(format!("{}: {what}", path.display())),
            other => other,
        })
    }

    /// Parses a key of 64 hexadecimal digits. Errors never repeat the text.
    ///
    /// # Errors
    /// If the text is not 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Result<Key, KeyError> {
        let digits = text.trim().as_bytes();
        if digits.len() != 2 * KEY_BYTES {
            return Err(KeyError::Format(format!("it has {} characters", digits.len())));
        }
        let mut key = [0; KEY_BYTES];
        for (index, (byte, pair)) in key.iter_mut().zip(digits.chunks_exact(2)).enumerate() {
            let digit = |d: u8| char::from(d).to_digit(16);
            let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
                return Err(KeyError::Format(format!(
                    "character {} or the next is not a digit",
                    2 * index + 1
                )));
            };
            *byte = (high << 4 | low) as u8;
        }
        Ok(Key(key))
    }

    fn builder<'a>(&'a self, prologue: &'a [u8]) -> Result<Builder<'a>, snow::Error> {
        Builder::new(PATTERN.parse()?).psk(0, &self.0)?.prologue(prologue)
    }
}

/// Client side of a handshake.
#[derive(Debug)]
pub struct Handshake {
    state: HandshakeState,
    message: Vec<u8>,
}

impl Handshake {
    /// Begins a handshake. Both ends must use the same `prologue`. Returns `None` only if the system has no randomness.
    pub fn begin(key: &Key, prologue: &[u8]) -> Option<Handshake> {
        let mut state = key.builder(prologue).ok()?.build_initiator().ok()?;
        let message = write(&mut state)?;
        Some(Handshake { state, message })
    }

    /// Returns the first message, to be sent in a Hello.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// Reads the answer. Returns `None` if the peer does not have the same key. The handshake cannot continue then.
    #[must_use]
    pub fn finish(mut self, answer: &[u8]) -> Option<Seal> {
        self.state.read_message(answer, &mut [0; MESSAGE_BYTES]).ok()?;
        Seal::of(self.state)
    }
}

/// Answers the first message of a handshake: returns the second message and the keys. Returns `None` if the sender does
/// not have the same key and prologue.
pub fn answer(key: &Key, prologue: &[u8], message: &[u8]) -> Option<(Vec<u8>, Seal)> {
    let mut state = key.builder(prologue).ok()?.build_responder().ok()?;
    state.read_message(message, &mut [0; MESSAGE_BYTES]).ok()?;
    Some((write(&mut state)?, Seal::of(state)?))
}

/// Writes the next message of a handshake.
fn write(state: &mut HandshakeState) -> Option<Vec<u8>> {
    let mut message = vec![0; MESSAGE_BYTES];
    let len = state.write_message(&[], &mut message).ok()?;
    message.truncate(len);
    Some(message)
}

/// The keys of a session, one per direction.
#[derive(Debug)]
pub struct Seal(StatelessTransportState);

impl Seal {
    fn of(state: HandshakeState) -> Option<Seal> {
        state.into_stateless_transport_mode().ok().map(Seal)
    }

    /// Seals `plain` into `out`, which is [`SEAL_BYTES`] longer. Never use one number for two texts.
    ///
    /// # Panics
    /// If `out` has another length.
    pub fn seal(&self, number: u64, plain: &[u8], out: &mut [u8]) {
        assert_eq!(out.len(), plain.len() + SEAL_BYTES, "sealing adds SEAL_BYTES");
        self.0
            .write_message(number, plain, out)
            .expect("sealing needs only a number below 2^48 and room in `out`");
    }

    /// Opens `sealed` into `out`, and returns the length of the plain text. Returns `None` if the peer did not seal it
    /// under this number.
    pub fn open(&self, number: u64, sealed: &[u8], out: &mut [u8]) -> Option<usize> {
        if sealed.len() < SEAL_BYTES || out.len() < sealed.len() - SEAL_BYTES {
            return None;
        }
        self.0.read_message(number, sealed, out).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair() -> (Seal, Seal) {
        let key = Key::new([7; 32]);
        let client = Handshake::begin(&key, b"p").unwrap();
        let (message, server) = answer(&key, b"p", client.message()).unwrap();
        (client.finish(&message).unwrap(), server)
    }

    #[test]
    fn only_the_peer_opens_a_sealed_datagram() {
        let (client, server) = pair();
        let (other, _) = pair();
        let (mut sealed, mut out) = ([0; 20], [0; 64]);
        client.seal(9, &[1, 2, 3, 4], &mut sealed);
        assert_eq!(server.open(9, &sealed, &mut out), Some(4));
        assert_eq!(out[..4], [1, 2, 3, 4]);
        assert_eq!(server.open(10, &sealed, &mut out), None, "under another number");
        assert_eq!(client.open(9, &sealed, &mut out), None, "reflected to its sender");
        assert_eq!(other.open(9, &sealed, &mut out), None, "in another session of the same key");
    }

    #[test]
    fn handshake_fails_with_another_key_or_prologue() {
        let client = Handshake::begin(&Key::new([7; 32]), b"p").unwrap();
        assert!(answer(&Key::new([8; 32]), b"p", client.message()).is_none());
        assert!(answer(&Key::new([7; 32]), b"q", client.message()).is_none());
        let (mut message, _) = answer(&Key::new([7; 32]), b"p", client.message()).unwrap();
        message[40] ^= 1;
        assert!(client.finish(&message).is_none());
    }

    #[test]
    fn key_file_must_hold_64_hexadecimal_digits() {
        let digits = "00ff".repeat(16);
        assert_eq!(
            Key::from_hex(&format!(" {digits}\n")).unwrap(),
            Key::new([[0, 0xff]; 16].concat().try_into().unwrap())
        );
        for (text, says) in [
            ("", "it has 0 characters"),
            (&digits[1..], "it has 63 characters"),
            (&digits.replacen("ff", "fx", 1), "character 3 or the next is not a digit"),
        ] {
            let error = Key::from_hex(text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(format!("{:?}", Key::from_hex(&digits).unwrap()), "Key(..)");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn altered_datagram_does_not_open(text in proptest::collection::vec(any::<u8>(), 0..40), at in 0usize..56, flip in 1u8..) {
            let (client, server) = pair();
            let mut sealed = vec![0; text.len() + SEAL_BYTES];
            client.seal(1, &text, &mut sealed);
            let at = at % sealed.len();
            sealed[at] ^= flip;
            prop_assert_eq!(server.open(1, &sealed, &mut [0; 64]), None);
            prop_assert_eq!(server.open(1, &sealed[..at], &mut [0; 64]), None);
        }
    }
}
