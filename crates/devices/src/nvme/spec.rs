// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Definitions of NVM Express: register fields, commands, status codes (NVMe 1.4; NVM Command Set). Data only.

/// Controller Configuration (NVMe 1.4 §3.1.5).
pub(super) mod cc {
    pub(in super::super) const EN: u32 = 1;
    pub(in super::super) const CSS: u32 = 0b111 << 4;
    pub(in super::super) const MPS: u32 = 0xf << 7;
    pub(in super::super) const AMS: u32 = 0b111 << 11;
    pub(in super::super) const SHN: u32 = 0b11 << 14;
    pub(in super::super) const IOSQES: u32 = 0xf << 16;
    pub(in super::super) const IOCQES: u32 = 0xf << 20;
}

/// Controller Status (NVMe 1.4 §3.1.6).
pub(super) mod csts {
    pub(in super::super) const RDY: u32 = 1;
    pub(in super::super) const CFS: u32 = 1 << 1;
    pub(in super::super) const SHST_COMPLETE: u32 = 0b10 << 2;
}

/// The NSID of all namespaces (NVMe 1.4 §6.1.2).
pub(super) const ALL_NAMESPACES: u32 = u32::MAX;

/// Size of an entry of a submission queue, and of a completion queue.
pub(super) const SQE_BYTES: u32 = 64;
pub(super) const CQE_BYTES: u32 = 16;

/// Admin commands (NVMe 1.4 §5).
pub(super) mod admin {
    pub(in super::super) const DELETE_SQ: u8 = 0x00;
    pub(in super::super) const CREATE_SQ: u8 = 0x01;
    pub(in super::super) const GET_LOG_PAGE: u8 = 0x02;
    pub(in super::super) const DELETE_CQ: u8 = 0x04;
    pub(in super::super) const CREATE_CQ: u8 = 0x05;
    pub(in super::super) const IDENTIFY: u8 = 0x06;
    pub(in super::super) const ABORT: u8 = 0x08;
    pub(in super::super) const SET_FEATURES: u8 = 0x09;
    pub(in super::super) const GET_FEATURES: u8 = 0x0a;
    pub(in super::super) const ASYNC_EVENT: u8 = 0x0c;
    pub(in super::super) const FORMAT: u8 = 0x80;
}

/// I/O commands (NVMe 1.4 §6).
pub(super) mod io {
    pub(in super::super) const FLUSH: u8 = 0x00;
    pub(in super::super) const WRITE: u8 = 0x01;
    pub(in super::super) const READ: u8 = 0x02;
    pub(in super::super) const WRITE_UNCORRECTABLE: u8 = 0x04;
    pub(in super::super) const COMPARE: u8 = 0x05;
    pub(in super::super) const WRITE_ZEROES: u8 = 0x08;
    pub(in super::super) const DATASET_MANAGEMENT: u8 = 0x09;
}

/// Status Code Type in bits 10:8, Status Code in bits 7:0 (NVMe 1.4 §4.6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Status(pub(super) u16);

impl Status {
    pub(super) const SUCCESS: Status = Status(0);
    pub(super) const INVALID_OPCODE: Status = Status(0x01);
    pub(super) const INVALID_FIELD: Status = Status(0x02);
    pub(super) const ID_CONFLICT: Status = Status(0x03);
    pub(super) const DATA_TRANSFER: Status = Status(0x04);
    pub(super) const INTERNAL: Status = Status(0x06);
    pub(super) const ABORT_REQUESTED: Status = Status(0x07);
    pub(super) const SQ_DELETED: Status = Status(0x08);
    pub(super) const INVALID_NAMESPACE: Status = Status(0x0b);
    pub(super) const SEQUENCE: Status = Status(0x0c);
    pub(super) const SGL_SEGMENT: Status = Status(0x0d);
    pub(super) const SGL_COUNT: Status = Status(0x0e);
    pub(super) const SGL_LENGTH: Status = Status(0x0f);
    pub(super) const SGL_TYPE: Status = Status(0x11);
    pub(super) const PRP_OFFSET: Status = Status(0x13);
    pub(super) const LBA_RANGE: Status = Status(0x80);
    pub(super) const CQ_INVALID: Status = Status(0x100);
    pub(super) const QUEUE_ID: Status = Status(0x101);
    pub(super) const QUEUE_SIZE: Status = Status(0x102);
    pub(super) const ASYNC_EVENT_LIMIT: Status = Status(0x105);
    pub(super) const INTERRUPT_VECTOR: Status = Status(0x108);
    pub(super) const LOG_PAGE: Status = Status(0x109);
    pub(super) const FORMAT: Status = Status(0x10a);
    pub(super) const QUEUE_DELETION: Status = Status(0x10c);
    pub(super) const NOT_SAVEABLE: Status = Status(0x10d);
    pub(super) const NOT_OF_NAMESPACE: Status = Status(0x10f);
    pub(super) const WRITE_FAULT: Status = Status(0x280);
    pub(super) const UNRECOVERED_READ: Status = Status(0x281);
    pub(super) const COMPARE_FAILURE: Status = Status(0x285);

    /// Statuses after which the same command may succeed, because the cause may pass. All others mean that the command itself is wrong,
    /// or that blocks are permanently unreadable.
    const TRANSIENT: [Status; 8] = [
        Status::ID_CONFLICT,
        Status::DATA_TRANSFER,
        Status::INTERNAL,
        Status::ABORT_REQUESTED,
        Status::SQ_DELETED,
        Status::ASYNC_EVENT_LIMIT,
        Status::QUEUE_DELETION,
        Status::WRITE_FAULT,
    ];

    /// Returns the Status Field of a completion without its phase. Do Not Retry is set if a retry is expected to fail (NVMe 1.4
    /// §4.6.1).
    pub(super) fn field(self) -> u16 {
        let may_retry = self == Status::SUCCESS || Status::TRANSIENT.contains(&self);
        self.0 | if may_retry { 0 } else { 1 << 14 }
    }
}

/// A command in a submission queue (NVMe 1.4 §4.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct Command([u32; 16]);

impl Command {
    /// `None` if `bytes` does not have the size of an entry.
    pub(super) fn parse(bytes: &[u8]) -> Option<Command> {
        let bytes: &[u8; SQE_BYTES as usize] = bytes.try_into().ok()?;
        let mut words = [0; 16];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Some(Command(words))
    }

    pub(super) fn opcode(&self) -> u8 {
        self.0[0] as u8
    }

    /// Bits 9:8 tell whether it is fused.
    pub(super) fn is_fused(&self) -> bool {
        self.0[0] & 0b11 << 8 != 0
    }

    /// PRP or SGL for Data Transfer.
    pub(super) fn psdt(&self) -> u32 {
        self.0[0] >> 14 & 0b11
    }

    pub(super) fn cid(&self) -> u16 {
        (self.0[0] >> 16) as u16
    }

    pub(super) fn nsid(&self) -> u32 {
        self.0[1]
    }

    /// Command DW 10 to 15.
    pub(super) fn dw(&self, n: usize) -> u32 {
        self.0[n]
    }

    /// Data Pointer: PRP Entry 1 and 2, or an SGL descriptor.
    pub(super) fn pointer(&self) -> [u64; 2] {
        [self.u64_at(6), self.u64_at(8)]
    }

    /// Whether an I/O command has a Starting LBA.
    pub(super) fn has_lba(&self) -> bool {
        !matches!(self.opcode(), io::FLUSH | io::DATASET_MANAGEMENT)
    }

    /// Starting LBA of an I/O command.
    pub(super) fn lba(&self) -> u64 {
        self.u64_at(10)
    }

    fn u64_at(&self, dw: usize) -> u64 {
        u64::from(self.0[dw + 1]) << 32 | u64::from(self.0[dw])
    }
}

/// The result of a command: DW 0 of its completion.
pub(super) type Outcome = Result<u32, Status>;
