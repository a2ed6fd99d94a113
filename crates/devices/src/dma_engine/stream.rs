// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Test data of the engine: integers that count up (ReConFig'15, §IV-E). Independent of addresses.

/// A stream of little-endian words of 8 B: the first is the seed, each next one is greater by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    seed: u64,
    /// Bytes that have passed.
    offset: u64,
}

impl Stream {
    /// Creates a stream at its first word.
    pub const fn new(seed: u64) -> Stream {
        Stream { seed, offset: 0 }
    }

    /// Returns the same stream at byte `offset`.
    #[must_use]
    pub const fn at(self, offset: u64) -> Stream {
        Stream { offset, ..self }
    }

    fn word(&self) -> [u8; 8] {
        self.seed.wrapping_add(self.offset / 8).to_le_bytes()
    }

    /// Calls `part` with consecutive parts of words, and their offsets.
    fn each(&mut self, len: usize, mut part: impl FnMut(usize, &[u8])) {
        let mut done = 0;
        while done < len {
            let (word, from) = (self.word(), (self.offset % 8) as usize);
            let to = (from + len - done).min(8);
            part(done, &word[from..to]);
            done += to - from;
            self.offset += (to - from) as u64;
        }
    }

    /// Writes the next bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let (head, rest) = bytes.split_at_mut(self.to_word(bytes.len()));
        self.each(head.len(), |at, part| head[at..at + part.len()].copy_from_slice(part));
        let (words, tail) = rest.as_chunks_mut::<8>();
        let first = self.seed.wrapping_add(self.offset / 8);
        for (word, n) in words.iter_mut().zip(0..) {
            *word = first.wrapping_add(n).to_le_bytes();
        }
        self.offset += 8 * words.len() as u64;
        self.each(tail.len(), |at, part| tail[at..at + part.len()].copy_from_slice(part));
    }

    /// Returns whether these are the next bytes. Advances in either case.
    pub fn check(&mut self, bytes: &[u8]) -> bool {
        let (head, rest) = bytes.split_at(self.to_word(bytes.len()));
        let mut same = true;
        self.each(head.len(), |at, part| same &= head[at..at + part.len()] == *part);
        let (words, tail) = rest.as_chunks::<8>();
        let first = self.seed.wrapping_add(self.offset / 8);
        for (word, n) in words.iter().zip(0..) {
            same &= u64::from_le_bytes(*word) == first.wrapping_add(n);
        }
        self.offset += 8 * words.len() as u64;
        self.each(tail.len(), |at, part| same &= tail[at..at + part.len()] == *part);
        same
    }

    /// Returns how many of `len` bytes complete the current word.
    fn to_word(self, len: usize) -> usize {
        ((8 - self.offset % 8) % 8).min(len as u64) as usize
    }

    /// Skips bytes.
    pub fn skip(&mut self, len: u64) {
        self.offset += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_count_up_for_any_split() {
        let mut whole = [0; 24];
        Stream::new(0xfffe).fill(&mut whole);
        assert_eq!(whole[..8], [0xfe, 0xff, 0, 0, 0, 0, 0, 0]);
        assert_eq!(whole[16..], [0, 0, 1, 0, 0, 0, 0, 0]);
        for cut in 0..=24 {
            let mut stream = Stream::new(0xfffe);
            assert!(stream.check(&whole[..cut]) && stream.check(&whole[cut..]), "{cut}");
            assert_eq!(stream, Stream::new(0xfffe).at(24));
        }
        let mut wrong = whole;
        wrong[17] ^= 1;
        let mut stream = Stream::new(0xfffe);
        stream.skip(3);
        assert!(!stream.check(&wrong[3..]) && stream == Stream::new(0xfffe).at(24));
    }
}
