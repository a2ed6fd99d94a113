// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Assembles the data of a read. Pieces that are adjacent in one buffer are not copied.

use tlp::{Data, Payload, PayloadPool};

/// The received pieces of one read, by offset. Pieces that are adjacent in one buffer are joined.
#[derive(Default)]
pub(crate) struct Assembly {
    pieces: Vec<(u32, Payload)>,
    counted: bool,
}

impl Assembly {
    /// Adds a piece that begins `offset` bytes into the read.
    pub(crate) fn add(&mut self, offset: u32, data: Data) {
        match data {
            Data::Carried(payload) => self.insert(offset, payload),
            Data::Counted(_) => self.counted = true,
        }
    }

    fn insert(&mut self, offset: u32, payload: Payload) {
        let at = match self.pieces.last() {
            Some(last) if last.0 > offset => self.pieces.partition_point(|p| p.0 < offset),
            _ => self.pieces.len(),
        };
        let before = at.checked_sub(1).map(|i| (i, &self.pieces[i].1));
        let joined = before.and_then(|(i, b)| Some((i, b.join(&payload)?)));
        if let Some((i, joined)) = joined {
            self.pieces[i].1 = joined;
            return self.join_following(i);
        }
        self.pieces.insert(at, (offset, payload));
        self.join_following(at);
    }

    fn join_following(&mut self, at: usize) {
        let Some((_, next)) = self.pieces.get(at + 1) else { return };
        if let Some(joined) = self.pieces[at].1.join(next) {
            self.pieces[at].1 = joined;
            self.pieces.remove(at + 1);
        }
    }

    /// Returns the `len` bytes of the read if all have arrived. If any piece was only counted, returns only their number.
    pub(crate) fn finish(&mut self, len: u32, pool: &PayloadPool) -> Data {
        let counted = std::mem::take(&mut self.counted);
        let data = match &mut self.pieces[..] {
            _ if counted => Data::Counted(len),
            [] => Data::Counted(len),
            [(0, whole)] if whole.len() == len as usize => Data::Carried(whole.clone()),
            pieces => Data::Carried(pool.fill(len as usize, |out| gather(pieces, out))),
        };
        self.pieces.clear();
        data
    }

    /// Forgets all pieces.
    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
        self.counted = false;
    }
}

fn gather(pieces: &[(u32, Payload)], out: &mut [u8]) {
    for (offset, payload) in pieces {
        out[*offset as usize..][..payload.len()].copy_from_slice(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_pieces_are_joined_without_a_copy() {
        let pool = PayloadPool::new();
        let whole = pool.copy(&[7; 256]);
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let mut assembly = Assembly::default();
            for i in order {
                assembly.add(i * 64, Data::Carried(whole.slice(i as usize * 64..i as usize * 64 + 64)));
            }
            assert_eq!(assembly.finish(256, &pool), Data::Carried(whole.clone()));
        }
        assert_eq!(pool.buffers_made(), 1);
    }

    #[test]
    fn pieces_of_different_buffers_are_copied_once() {
        let pool = PayloadPool::new();
        let mut assembly = Assembly::default();
        assembly.add(2, Data::Carried(pool.copy(b"cd")));
        assembly.add(0, Data::Carried(pool.copy(b"ab")));
        assert_eq!(assembly.finish(4, &pool).bytes(), Some(&b"abcd"[..]));
        assert_eq!(pool.buffers_made(), 3);
    }
}
