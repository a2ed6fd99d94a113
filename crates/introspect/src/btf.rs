// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BTF, the kernel's type information. Only the parts that give the offsets of structure members are decoded.
//! Source: Linux, `Documentation/bpf/btf.rst` and `include/uapi/linux/btf.h`.

use crate::half;
use thiserror::Error;

/// First bytes of a kernel's BTF: `BTF_MAGIC`, version 1, no flags, and the header's length.
pub(crate) const BEGIN: [u8; 8] = [0x9f, 0xeb, 1, 0, HEADER_BYTES as u8, 0, 0, 0];
const HEADER_BYTES: usize = 24;
/// Upper limit on the size of BTF: Debian's kernels have 5 to 7 MB.
pub(crate) const MAX_BYTES: usize = 64 << 20;
/// `struct btf_type`.
const TYPE_BYTES: usize = 12;
/// `struct btf_member`.
const MEMBER_BYTES: usize = 12;
/// Maximum nesting of anonymous structures and qualifiers.
const MAX_DEPTH: u32 = 32;
/// Maximum number of members examined in one lookup, over all nested structures.
const MAX_MEMBERS: u32 = 1 << 16;

/// Error in BTF bytes.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BtfError {
    /// The header does not have version 1.
    #[error("no BTF: expected it to start with 9f eb 01 00 and a header of 24 bytes")]
    NoHeader,
    /// A section ends after the last byte.
    #[error("BTF of {have_bytes} bytes, expected {says_bytes} by its header")]
    Short {
        /// Bytes available.
        have_bytes: usize,
        /// Bytes according to the header.
        says_bytes: usize,
    },
    /// The type section ends within a type, or a type has an unknown kind.
    #[error("BTF type {id} is cut off or of unknown kind {kind}")]
    Type {
        /// Number of the type.
        id: usize,
        /// `BTF_KIND_*`.
        kind: u32,
    },
    /// No structure or enumerator has the requested name.
    #[error("BTF has no complete `{0}`")]
    NoType(&'static str),
    /// The structure has no such member, or the member is not byte-aligned.
    #[error("BTF has no byte-aligned member `{member}` of `struct {structure}`")]
    NoMember {
        /// The structure.
        structure: &'static str,
        /// Name of the member.
        member: &'static str,
    },
}

/// Kinds: `BTF_KIND_*`.
mod kind {
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const VOLATILE: u32 = 9;
    pub(super) const CONST: u32 = 10;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const TYPE_TAG: u32 = 18;
}

/// Types of a kernel.
pub struct Btf {
    types: Vec<u8>,
    strings: Vec<u8>,
    /// Offset of each type in `types`; type 1 is the first.
    starts: Vec<u32>,
}

/// `struct btf_type`, decoded.
struct Type {
    name: u32,
    kind: u32,
    /// Number of members, enumerators or parameters.
    count: u32,
    /// True if member offsets also contain bit-field sizes.
    has_bit_fields: bool,
    /// Size of the type, or number of the type to which it refers.
    size_or_type: u32,
}

impl Type {
    fn decode(bytes: &[u8]) -> Type {
        let info = half(bytes, 4);
        Type {
            name: half(bytes, 0),
            kind: info >> 24 & 0x1f,
            count: info & 0xffff,
            has_bit_fields: info >> 31 == 1,
            size_or_type: half(bytes, 8),
        }
    }

    /// Returns the size of the data after `struct btf_type`, or `None` for an unknown kind.
    fn more_bytes(&self) -> Option<usize> {
        let each = match self.kind {
            1 | 14 | 17 => return Some(4),
            3 => return Some(12),
            kind::STRUCT | kind::UNION | 15 | 19 => 12,
            kind::ENUM | 13 => 8,
            2 | 7..=12 | 16 | kind::TYPE_TAG => 0,
            _ => return None,
        };
        Some(each * self.count as usize)
    }
}

/// Returns the size of BTF in bytes, from its header. The header must start with [`BEGIN`].
pub(crate) fn len(header: &[u8]) -> Result<usize, BtfError> {
    if header.len() < HEADER_BYTES || header[..8] != BEGIN {
        return Err(BtfError::NoHeader);
    }
    let end = |at| u64::from(half(header, at)) + u64::from(half(header, at + 4));
    let len = HEADER_BYTES as u64 + end(8).max(end(16));
    usize::try_from(len).ok().filter(|len| *len <= MAX_BYTES).ok_or(BtfError::NoHeader)
}

impl Btf {
    /// Parses the contents of `/sys/kernel/btf/vmlinux`. Ignores bytes after the end that the header states.
    ///
    /// # Errors
    /// [`BtfError`] if a section or type is out of bounds or unknown.
    pub fn parse(bytes: &[u8]) -> Result<Btf, BtfError> {
        let says_bytes = len(bytes)?;
        let section = |at| {
            let start = HEADER_BYTES + half(bytes, at) as usize;
            bytes.get(start..start + half(bytes, at + 4) as usize)
        };
        let short = || BtfError::Short { have_bytes: bytes.len(), says_bytes };
        let types = section(8).ok_or_else(short)?.to_vec();
        let strings = section(16).ok_or_else(short)?.to_vec();
        let starts = starts(&types)?;
        Ok(Btf { types, strings, starts })
    }

    /// Returns the byte offset of a member in a structure. Searches anonymous structures and unions too.
    ///
    /// # Errors
    /// [`BtfError::NoMember`]
    pub fn offset_bytes(&self, structure: &'static str, member: &'static str) -> Result<u64, BtfError> {
        let mut left = MAX_MEMBERS;
        let bits = self
            .named(kind::STRUCT, structure)
            .filter_map(|(id, _)| self.find(id, member, MAX_DEPTH, &mut left))
            .next();
        bits.filter(|bits| bits % 8 == 0).map(|bits| bits / 8).ok_or(BtfError::NoMember { structure, member })
    }

    /// Returns the size of a structure in bytes.
    ///
    /// # Errors
    /// [`BtfError::NoType`]
    pub fn size_bytes(&self, structure: &'static str) -> Result<u64, BtfError> {
        let mut structures = self.named(kind::STRUCT, structure);
        structures.next().map(|(_, t)| u64::from(t.size_or_type)).ok_or(BtfError::NoType(structure))
    }

    /// Returns the value of an enumerator.
    ///
    /// # Errors
    /// [`BtfError::NoType`]
    pub fn value(&self, enumeration: &'static str, name: &'static str) -> Result<u32, BtfError> {
        let all = self.named(kind::ENUM, enumeration).flat_map(|(id, t)| {
            let first = self.starts[id as usize - 1] as usize + TYPE_BYTES;
            self.types[first..first + t.count as usize * 8].chunks_exact(8)
        });
        let found = all.into_iter().find(|value| self.is_named(half(value, 0), name));
        found.map(|value| half(value, 4)).ok_or(BtfError::NoType(enumeration))
    }

    fn named<'a>(&'a self, kind: u32, name: &'a str) -> impl Iterator<Item = (u32, Type)> + 'a {
        let all = (1..=self.starts.len() as u32).filter_map(|id| Some((id, self.get(id)?)));
        all.filter(move |(_, t)| t.kind == kind && self.is_named(t.name, name))
    }

    /// Returns the offset of a member in this type, in bits.
    fn find(&self, id: u32, member: &str, depth: u32, left: &mut u32) -> Option<u64> {
        let owner = self.get(id)?;
        let depth = depth.checked_sub(1)?;
        match owner.kind {
            kind::STRUCT | kind::UNION => {}
            kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                return self.find(owner.size_or_type, member, depth, left);
            }
            _ => return None,
        }
        let first = self.starts[id as usize - 1] as usize + TYPE_BYTES;
        for place in 0..owner.count as usize {
            *left = left.checked_sub(1)?;
            let bytes = &self.types[first + place * MEMBER_BYTES..][..MEMBER_BYTES];
            let (name, offset) = (half(bytes, 0), half(bytes, 8));
            let bits = u64::from(if owner.has_bit_fields { offset & 0xff_ffff } else { offset });
            if self.is_named(name, member) {
                return (!owner.has_bit_fields || offset >> 24 == 0).then_some(bits);
            }
            if self.is_named(name, "")
                && let Some(inner) = self.find(half(bytes, 4), member, depth, left)
            {
                return Some(bits + inner);
            }
        }
        None
    }

    fn get(&self, id: u32) -> Option<Type> {
        let start = *self.starts.get((id as usize).checked_sub(1)?)?;
        Some(Type::decode(&self.types[start as usize..]))
    }

    fn is_named(&self, at: u32, name: &str) -> bool {
        let rest = self.strings.get(at as usize..).unwrap_or(&[]);
        rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    }
}

/// Returns the offset of each type.
fn starts(types: &[u8]) -> Result<Vec<u32>, BtfError> {
    let (mut starts, mut at) = (Vec::new(), 0);
    while at < types.len() {
        let rest = &types[at..];
        let decoded = (rest.len() >= TYPE_BYTES).then(|| Type::decode(rest));
        let kind = decoded.as_ref().map_or(0, |t| t.kind);
        let len = decoded.and_then(|t| t.more_bytes()).map(|more| TYPE_BYTES + more);
        let len = len.filter(|len| *len <= rest.len());
        let len = len.ok_or(BtfError::Type { id: starts.len() + 1, kind })?;
        starts.push(at as u32);
        at += len;
    }
    Ok(starts)
}
