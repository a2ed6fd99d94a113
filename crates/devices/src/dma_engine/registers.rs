// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DMA engine, BAR 0: offsets and fields. Written by registers/generate.py from registers/dma_engine.rdl: change that.

use capture::DeviceRegister;
use plug::named;

/// Bytes of the BAR.
pub const BAR_BYTES: u64 = 0x10000;
/// Identification; u32.
pub const ID: u64 = 0x0;
/// What [`ID`] reads as.
pub const ID_VALUE: u32 = 0x414d4452;
/// Version; u32.
pub const VERSION: u64 = 0x4;
/// Fields of [`VERSION`].
pub mod version {
    /// Minor.
    pub const MINOR: u32 = 0xffff;
    /// Major.
    pub const MAJOR: u32 = 0xffff0000;
}
/// What [`VERSION`] reads as.
pub const VERSION_VALUE: u32 = 0x10000;
/// Engines; u32.
pub const ENGINES: u64 = 0x8;
/// Fields of [`ENGINES`].
pub mod engines {
    /// H2D engines.
    pub const H2D_ENGINES: u32 = 0xff;
    /// D2H engines.
    pub const D2H_ENGINES: u32 = 0xff00;
    /// Device entries.
    pub const DEVICE_ENTRIES: u32 = 0xffff0000;
}
/// Limits; u32.
pub const LIMITS: u64 = 0xc;
/// Fields of [`LIMITS`].
pub mod limits {
    /// Maximum payload.
    pub const PAYLOAD_BYTES: u32 = 0xffff;
    /// Maximum read.
    pub const READ_BYTES: u32 = 0xffff0000;
}
/// Window; u32.
pub const WINDOW: u64 = 0x10;
/// Fields of [`WINDOW`].
pub mod window {
    /// Places.
    pub const PLACES: u32 = 0xffff;
    /// Shared.
    pub const SHARED: u32 = 0x10000;
}
/// Function; u32.
pub const FUNCTION: u64 = 0x14;
/// Fields of [`FUNCTION`].
pub mod function {
    /// Number.
    pub const NUMBER: u32 = 0xffff;
    /// Functions.
    pub const FUNCTIONS: u32 = 0xffff0000;
}
/// Control; u32.
pub const CONTROL: u64 = 0x18;
/// Fields of [`CONTROL`].
pub mod control {
    /// Reset.
    pub const RESET: u32 = 0x1;
}
/// Interrupt status; u32.
pub const INTERRUPTS: u64 = 0x1c;
/// Fields of [`INTERRUPTS`].
pub mod interrupts {
    /// Engines.
    pub const PENDING: u32 = 0xffff;
}
/// Weight; u32.
pub const WEIGHT: u64 = 0x20;
/// Fields of [`WEIGHT`].
pub mod weight {
    /// Weight.
    pub const WEIGHT: u32 = 0xff;
}
/// Weights of virtual functions; u32.
pub const VF_WEIGHTS: u64 = 0x400;
/// How many there are, 4 B apart.
pub const VF_WEIGHTS_COUNT: u64 = 256;
/// Fields of [`VF_WEIGHTS`].
pub mod vf_weights {
    /// Weight.
    pub const WEIGHT: u32 = 0xff;
}
/// What software may write: offset of a DW, and its bits.
pub const WRITABLE: &[(u64, u32)] = &[(0x18, 0x1), (0x1c, 0xffff), (0x20, 0xff)];
/// MSI-X table; 256 B.
pub const MSIX_TABLE: u64 = 0x2000;
/// MSI-X Pending Bit Array; 8 B.
pub const MSIX_PENDING: u64 = 0x2800;
/// The first engine.
pub const ENGINE: u64 = 0x1000;
/// How many there are at most.
pub const ENGINE_COUNT: u64 = 16;
/// Bytes from one to the next.
pub const ENGINE_STRIDE: u64 = 0x80;
/// In one engine.
pub mod engine {
    /// Control; u32.
    pub const CONTROL: u64 = 0x0;
    /// Fields of [`CONTROL`].
    pub mod control {
        /// Enable.
        pub const ENABLE: u32 = 0x1;
        /// Host ring.
        pub const HOST_RING: u32 = 0x2;
        /// Abort.
        pub const ABORT: u32 = 0x4;
        /// Status.
        pub const WRITE_STATUS: u32 = 0x8;
        /// User logic.
        pub const LOGIC: u32 = 0xf00;
    }
    /// Status; u32.
    pub const STATUS: u64 = 0x4;
    /// Fields of [`STATUS`].
    pub mod status {
        /// Busy.
        pub const BUSY: u32 = 0x1;
        /// Error.
        pub const ERROR: u32 = 0xff00;
    }
    /// Ring; u64.
    pub const RING: u64 = 0x8;
    /// Entries; u32.
    pub const ENTRIES: u64 = 0x10;
    /// Posted (doorbell); u32.
    pub const POSTED: u64 = 0x14;
    /// Done; u32.
    pub const DONE: u64 = 0x18;
    /// Failed; u32.
    pub const FAILED: u64 = 0x1c;
    /// Write-back; u64.
    pub const WRITE_BACK: u64 = 0x20;
    /// Coalescing; u32.
    pub const COALESCING: u64 = 0x28;
    /// Fields of [`COALESCING`].
    pub mod coalescing {
        /// Count.
        pub const COUNT: u32 = 0xffff;
        /// Time.
        pub const TIME_US: u32 = 0xffff0000;
    }
    /// Kind; u32.
    pub const KIND: u64 = 0x2c;
    /// Fields of [`KIND`].
    pub mod kind {
        /// D2H.
        pub const D2H: u32 = 0x1;
        /// Vector.
        pub const VECTOR: u32 = 0xffff0000;
    }
    /// Seed; u64.
    pub const SEED: u64 = 0x30;
    /// Bytes moved; u64.
    pub const BYTES: u64 = 0x38;
    /// What software may write: offset of a DW, and its bits.
    pub const WRITABLE: &[(u64, u32)] = &[
        (0x0, 0xf0f),
        (0x8, 0xffffffff),
        (0xc, 0xffffffff),
        (0x10, 0xffffffff),
        (0x14, 0xffffffff),
        (0x20, 0xffffffff),
        (0x24, 0xffffffff),
        (0x28, 0xffffffff),
        (0x30, 0xffffffff),
        (0x34, 0xffffffff),
    ];
}
/// The first descriptor.
pub const DESCRIPTOR: u64 = 0x8000;
/// How many there are at most.
pub const DESCRIPTOR_COUNT: u64 = 1024;
/// Bytes from one to the next.
pub const DESCRIPTOR_STRIDE: u64 = 0x20;
/// In one descriptor.
pub mod descriptor {
    /// Address; u64.
    pub const ADDRESS: u64 = 0x0;
    /// Bytes; u64.
    pub const BYTES: u64 = 0x8;
    /// Flags; u32.
    pub const FLAGS: u64 = 0x10;
    /// Fields of [`FLAGS`].
    pub mod flags {
        /// Interrupt.
        pub const INTERRUPT: u32 = 0x1;
        /// More.
        pub const MORE: u32 = 0x2;
    }
    /// Status; u32.
    pub const STATUS: u64 = 0x14;
    /// Fields of [`STATUS`].
    pub mod status {
        /// Code.
        pub const CODE: u32 = 0xff;
    }
    /// Moved; u64.
    pub const MOVED: u64 = 0x18;
    /// What software may write: offset of a DW, and its bits.
    pub const WRITABLE: &[(u64, u32)] = &[
        (0x0, 0xffffffff),
        (0x4, 0xffffffff),
        (0x8, 0xffffffff),
        (0xc, 0xffffffff),
        (0x10, 0x3),
        (0x14, 0xff),
        (0x18, 0xffffffff),
        (0x1c, 0xffffffff),
    ];
}

/// Values of fields of the kind `logic_kind`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LogicKind {
    /// H2D: data are words of 8 bytes that count up from SEED; others are errors. D2H: makes such words.
    Integers = 0,
    /// H2D: takes all. D2H: gives zeros.
    Plain = 1,
    /// H2D: hands its data to the D2H engine of the same number. D2H: writes what comes from there.
    LoopBack = 2,
}

impl LogicKind {
    /// All, in the order of their values, which are those from zero on.
    pub const ALL: [LogicKind; 3] = [LogicKind::Integers, LogicKind::Plain, LogicKind::LoopBack];
}

/// Values of fields of the kind `error_code`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ErrorCode {
    /// No error.
    None = 0,
    /// Done: all bytes were moved.
    Ok = 1,
    /// BYTES is zero, or more than 2^40.
    Size = 2,
    /// The bytes cross 2^64.
    Range = 3,
    /// A reserved bit of FLAGS is set.
    Flags = 4,
    /// Host memory was not read: UR, CA, a poisoned completion or a completion timeout.
    Read = 5,
    /// Host memory was not written: Bus Master Enable is clear.
    Write = 6,
    /// The data were read, and are not those that the user logic expects.
    Data = 7,
    /// ABORT was written, or a piece before it in the same chain has failed.
    Aborted = 8,
    /// The descriptor itself could not be read from host memory.
    Fetch = 9,
    /// More descriptors are posted than the ring has, or ENTRIES is not legal. The engine stands still until it is enabled anew.
    Ring = 10,
}

impl ErrorCode {
    /// All, in the order of their values, which are those from zero on.
    pub const ALL: [ErrorCode; 11] = [
        ErrorCode::None,
        ErrorCode::Ok,
        ErrorCode::Size,
        ErrorCode::Range,
        ErrorCode::Flags,
        ErrorCode::Read,
        ErrorCode::Write,
        ErrorCode::Data,
        ErrorCode::Aborted,
        ErrorCode::Fetch,
        ErrorCode::Ring,
    ];
}

/// The registers by their names, as listings and captures show them.
pub(super) const NAMES: &[DeviceRegister] = &[
    named(Some(0), 0x0, 4, "Identification"),
    named(Some(0), 0x4, 4, "Version"),
    named(Some(0), 0x8, 4, "Engines"),
    named(Some(0), 0xc, 4, "Limits"),
    named(Some(0), 0x10, 4, "Window"),
    named(Some(0), 0x14, 4, "Function"),
    named(Some(0), 0x18, 4, "Control"),
    named(Some(0), 0x1c, 4, "Interrupt status"),
    named(Some(0), 0x20, 4, "Weight"),
    named(Some(0), 0x400, 1024, "Weights of virtual functions"),
    named(Some(0), 0x1000, 4, "Engine 0: Control"),
    named(Some(0), 0x1004, 4, "Engine 0: Status"),
    named(Some(0), 0x1008, 8, "Engine 0: Ring"),
    named(Some(0), 0x1010, 4, "Engine 0: Entries"),
    named(Some(0), 0x1014, 4, "Engine 0: Posted (doorbell)"),
    named(Some(0), 0x1018, 4, "Engine 0: Done"),
    named(Some(0), 0x101c, 4, "Engine 0: Failed"),
    named(Some(0), 0x1020, 8, "Engine 0: Write-back"),
    named(Some(0), 0x1028, 4, "Engine 0: Coalescing"),
    named(Some(0), 0x102c, 4, "Engine 0: Kind"),
    named(Some(0), 0x1030, 8, "Engine 0: Seed"),
    named(Some(0), 0x1038, 8, "Engine 0: Bytes moved"),
    named(Some(0), 0x1080, 4, "Engine 1: Control"),
    named(Some(0), 0x1084, 4, "Engine 1: Status"),
    named(Some(0), 0x1088, 8, "Engine 1: Ring"),
    named(Some(0), 0x1090, 4, "Engine 1: Entries"),
    named(Some(0), 0x1094, 4, "Engine 1: Posted (doorbell)"),
    named(Some(0), 0x1098, 4, "Engine 1: Done"),
    named(Some(0), 0x109c, 4, "Engine 1: Failed"),
    named(Some(0), 0x10a0, 8, "Engine 1: Write-back"),
    named(Some(0), 0x10a8, 4, "Engine 1: Coalescing"),
    named(Some(0), 0x10ac, 4, "Engine 1: Kind"),
    named(Some(0), 0x10b0, 8, "Engine 1: Seed"),
    named(Some(0), 0x10b8, 8, "Engine 1: Bytes moved"),
    named(Some(0), 0x1100, 4, "Engine 2: Control"),
    named(Some(0), 0x1104, 4, "Engine 2: Status"),
    named(Some(0), 0x1108, 8, "Engine 2: Ring"),
    named(Some(0), 0x1110, 4, "Engine 2: Entries"),
    named(Some(0), 0x1114, 4, "Engine 2: Posted (doorbell)"),
    named(Some(0), 0x1118, 4, "Engine 2: Done"),
    named(Some(0), 0x111c, 4, "Engine 2: Failed"),
    named(Some(0), 0x1120, 8, "Engine 2: Write-back"),
    named(Some(0), 0x1128, 4, "Engine 2: Coalescing"),
    named(Some(0), 0x112c, 4, "Engine 2: Kind"),
    named(Some(0), 0x1130, 8, "Engine 2: Seed"),
    named(Some(0), 0x1138, 8, "Engine 2: Bytes moved"),
    named(Some(0), 0x1180, 4, "Engine 3: Control"),
    named(Some(0), 0x1184, 4, "Engine 3: Status"),
    named(Some(0), 0x1188, 8, "Engine 3: Ring"),
    named(Some(0), 0x1190, 4, "Engine 3: Entries"),
    named(Some(0), 0x1194, 4, "Engine 3: Posted (doorbell)"),
    named(Some(0), 0x1198, 4, "Engine 3: Done"),
    named(Some(0), 0x119c, 4, "Engine 3: Failed"),
    named(Some(0), 0x11a0, 8, "Engine 3: Write-back"),
    named(Some(0), 0x11a8, 4, "Engine 3: Coalescing"),
    named(Some(0), 0x11ac, 4, "Engine 3: Kind"),
    named(Some(0), 0x11b0, 8, "Engine 3: Seed"),
    named(Some(0), 0x11b8, 8, "Engine 3: Bytes moved"),
    named(Some(0), 0x1200, 1536, "Engines 4 to 15"),
    named(Some(0), 0x2000, 256, "MSI-X table"),
    named(Some(0), 0x2800, 8, "MSI-X Pending Bit Array"),
    named(Some(0), 0x8000, 32768, "Descriptors"),
];
