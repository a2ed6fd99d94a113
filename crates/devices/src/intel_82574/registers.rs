// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers of an 82574L: addresses, writable bits and reset values (Intel 82574 GbE Controller Family Datasheet, chapter
//! 10). Effects are in other modules.

use device::io::RegisterFile;

/// Size of the register BAR in bytes.
pub const BAR_BYTES: u64 = 128 << 10;

/// A register, or `count` registers, `stride` bytes apart.
struct Row {
    at: u64,
    count: u64,
    stride: u64,
    /// Bits that software may write.
    writable: u32,
    reset: u32,
}

macro_rules! rows {
    ($($NAME:ident $at:literal $(x $count:literal / $stride:literal)? , $writable:expr, $reset:expr, $name:literal;)*) => {
        $(#[doc = $name] #[allow(dead_code)] pub(super) const $NAME: u64 = $at;)*
        const ROWS: &[Row] = &[$(Row {
            at: $at,
            count: 1 $(- 1 + $count)?,
            stride: 4 $(- 4 + $stride)?,
            writable: $writable,
            reset: $reset,
        }),*];
        /// The registers and their names. An array has only its first register here.
        pub(super) const NAMES: &[capture::DeviceRegister] = &[$(plug::named(Some(0), $at, 4, $name)),*];
    };
}

const ALL: u32 = u32::MAX;
const LOW_16: u32 = 0xffff;

rows! {
    CTRL 0x0, 0x7bff_3fff, 0x0000_0201, "CTRL";
    STATUS 0x8, 0, 0x0008_0000, "STATUS";
    EECD 0x10, 0x1cf, 0x0000_1300, "EECD";
    EERD 0x14, 0, 0x2, "EERD";
    CTRL_EXT 0x18, ALL, 0, "CTRL_EXT";
    FLA 0x1c, 0, 0, "FLA";
    MDIC 0x20, 0x2fff_ffff, 0x1000_0000, "MDIC";
    FCAL 0x28, ALL, 0x00c2_8001, "FCAL";
    FCAH 0x2c, LOW_16, 0x100, "FCAH";
    FCT 0x30, LOW_16, 0x8808, "FCT";
    VET 0x38, LOW_16, 0x8100, "VET";
    ICR 0xc0, 0, 0, "ICR";
    ITR 0xc4, LOW_16, 0, "ITR";
    ICS 0xc8, 0, 0, "ICS";
    IMS 0xd0, 0, 0, "IMS";
    IMC 0xd8, 0, 0, "IMC";
    EIAC 0xdc, 0x01f0_0000, 0, "EIAC";
    IAM 0xe0, ALL, 0, "IAM";
    IVAR 0xe4, 0x800f_ffff, 0, "IVAR";
    EITR 0xe8 x 5 / 4, LOW_16, 0, "EITR";
    RCTL 0x100, 0x07df_ffff, 0, "RCTL";
    FCTTV 0x170, LOW_16, 0, "FCTTV";
    TXCW 0x178, 0xc000_ffff, 0, "TXCW";
    RXCW 0x180, 0, 0, "RXCW";
    TCTL 0x400, 0x1fff_fffa, 0x8, "TCTL";
    TIPG 0x410, 0x3fff_ffff, 0x0060_200a, "TIPG";
    AIT 0x458, LOW_16, 0, "AIT";
    LEDCTL 0xe00, 0x00ff_cfcf, 0x0007_0602, "LEDCTL";
    EXTCNF_CTRL 0xf00, 0x20, 0, "EXTCNF_CTRL";
    EXTCNF_SIZE 0xf08, 0, 0, "EXTCNF_SIZE";
    PBA 0x1000, 0x3f, 0x0014_0014, "PBA";
    EEMNGCTL 0x1010, 0, 0x0004_0000, "EEMNGCTL";
    EEARBC 0x1024, ALL, 0, "EEARBC";
    EEWR 0x102c, 0, 0x2, "EEWR";
    FCRTL 0x2160, 0x8000_fff8, 0, "FCRTL";
    FCRTH 0x2168, 0xfff8, 0, "FCRTH";
    PSRCTL 0x2170, 0x3f3f_3f7f, 0x0004_0402, "PSRCTL";
    RDBAL 0x2800 x 2 / 0x100, 0xffff_fff0, 0, "RDBAL";
    RDBAH 0x2804 x 2 / 0x100, ALL, 0, "RDBAH";
    RDLEN 0x2808 x 2 / 0x100, 0xf_ff80, 0, "RDLEN";
    RDH 0x2810 x 2 / 0x100, LOW_16, 0, "RDH";
    RDT 0x2818 x 2 / 0x100, LOW_16, 0, "RDT (doorbell)";
    RDTR 0x2820, LOW_16, 0, "RDTR";
    RXDCTL 0x2828 x 2 / 0x100, 0x013f_3f3f, 0x0001_0000, "RXDCTL";
    RADV 0x282c, LOW_16, 0, "RADV";
    RSRPD 0x2c00, 0xfff, 0, "RSRPD";
    RAID 0x2c08, LOW_16, 0, "RAID";
    TDBAL 0x3800 x 2 / 0x100, 0xffff_fff0, 0, "TDBAL";
    TDBAH 0x3804 x 2 / 0x100, ALL, 0, "TDBAH";
    TDLEN 0x3808 x 2 / 0x100, 0xf_ff80, 0, "TDLEN";
    TDH 0x3810 x 2 / 0x100, LOW_16, 0, "TDH";
    TDT 0x3818 x 2 / 0x100, LOW_16, 0, "TDT (doorbell)";
    TIDV 0x3820, LOW_16, 0, "TIDV";
    TXDCTL 0x3828 x 2 / 0x100, 0xff3f_3f3f, 0x0040_0000, "TXDCTL";
    TADV 0x382c, LOW_16, 0, "TADV";
    TARC 0x3840 x 2 / 0x100, ALL, 0x3, "TARC";
    STATISTICS 0x4000 x 74 / 4, 0, 0, "Statistics";
    RXCSUM 0x5000, 0x33ff, 0x300, "RXCSUM";
    RFCTL 0x5008, ALL, 0, "RFCTL";
    MTA 0x5200 x 128 / 4, ALL, 0, "MTA";
    RAL 0x5400 x 16 / 8, ALL, 0, "RAL";
    RAH 0x5404 x 16 / 8, 0x8003_ffff, 0, "RAH";
    VFTA 0x5600 x 128 / 4, ALL, 0, "VFTA";
    WUC 0x5800, 0x3, 0, "WUC";
    WUFC 0x5808, 0x000f_80ff, 0, "WUFC";
    WUS 0x5810, 0, 0, "WUS";
    MRQC 0x5818, 0xffff_0003, 0, "MRQC";
    MANC 0x5820, 0x3f06_2000, 0, "MANC";
    IPAV 0x5838, 0xffff_ffff, 0, "IPAV";
    GCR 0x5b00, ALL, 0, "GCR";
    FUNCTAG 0x5b08, ALL, 0, "FUNCTAG";
    SWSM 0x5b50, 0xa, 0, "SWSM";
    FWSM 0x5b54, 0, 0, "FWSM";
    GCR2 0x5b64, ALL, 0, "GCR2";
    RETA 0x5c00 x 32 / 4, ALL, 0, "RETA";
    RSSRK 0x5c80 x 10 / 4, ALL, 0, "RSSRK";
}

/// CTRL.
pub(super) mod ctrl {
    pub(crate) const MASTER_DISABLE: u32 = 1 << 2;
    pub(crate) const SLU: u32 = 1 << 6;
    pub(crate) const RST: u32 = 1 << 26;
    pub(crate) const VME: u32 = 1 << 30;
    pub(crate) const PHY_RST: u32 = 1 << 31;
}

/// STATUS.
pub(super) mod status {
    pub(crate) const LU: u32 = 1 << 1;
    /// Shift of the speed.
    pub(crate) const SPEED_SHIFT: u32 = 6;
    pub(crate) const MASTER_ENABLE: u32 = 1 << 19;
}

/// CTRL_EXT.
pub(super) mod ctrl_ext {
    pub(crate) const EIAME: u32 = 1 << 24;
    pub(crate) const IAME: u32 = 1 << 27;
}

/// RCTL.
pub(super) mod rctl {
    pub(crate) const EN: u32 = 1 << 1;
    pub(crate) const UPE: u32 = 1 << 3;
    pub(crate) const MPE: u32 = 1 << 4;
    pub(crate) const LPE: u32 = 1 << 5;
    pub(crate) const LBM_MAC: u32 = 1 << 6;
    pub(crate) const DTYP: u32 = 0b11 << 10;
    pub(crate) const DTYP_SPLIT: u32 = 0b01 << 10;
    pub(crate) const BAM: u32 = 1 << 15;
    pub(crate) const VFE: u32 = 1 << 18;
    pub(crate) const BSEX: u32 = 1 << 25;
    pub(crate) const SECRC: u32 = 1 << 26;
}

/// TCTL.
pub(super) mod tctl {
    pub(crate) const EN: u32 = 1 << 1;
    pub(crate) const PSP: u32 = 1 << 3;
}

/// Causes, in ICR, ICS, IMS and IMC.
pub(super) mod cause {
    pub(crate) const TXDW: u32 = 1;
    pub(crate) const LSC: u32 = 1 << 2;
    pub(crate) const RXO: u32 = 1 << 6;
    pub(crate) const RXT0: u32 = 1 << 7;
    pub(crate) const MDAC: u32 = 1 << 9;
    pub(crate) const RXQ0: u32 = 1 << 20;
    pub(crate) const TXQ0: u32 = 1 << 22;
    pub(crate) const OTHER: u32 = 1 << 24;
    pub(crate) const INT_ASSERTED: u32 = 1 << 31;
    /// Causes that also set [`OTHER`].
    pub(crate) const OTHERS: u32 = LSC | RXO | MDAC | 1 << 16 | 1 << 17 | 1 << 18;
    /// All causes.
    pub(crate) const ALL: u32 = 0x01ff_ffff;
}

/// The register file after a reset, and the bits that software may write.
pub(super) fn files() -> (RegisterFile, Vec<u32>) {
    let mut file = RegisterFile::new(BAR_BYTES as usize);
    let mut writable = vec![0; BAR_BYTES as usize / 4];
    for Row { at, count, stride, writable: bits, reset } in ROWS {
        for n in 0..*count {
            file.set_u32(at + n * stride, *reset);
            writable[(at + n * stride) as usize / 4] = *bits;
        }
    }
    (file, writable)
}

/// Addresses of the statistics registers.
pub(super) mod statistics {
    pub(crate) const MPC: u64 = 0x4010;
    pub(crate) const PRC64: u64 = 0x405c;
    pub(crate) const GPRC: u64 = 0x4074;
    pub(crate) const BPRC: u64 = 0x4078;
    pub(crate) const MPRC: u64 = 0x407c;
    pub(crate) const GPTC: u64 = 0x4080;
    pub(crate) const GORCL: u64 = 0x4088;
    pub(crate) const GOTCL: u64 = 0x4090;
    pub(crate) const RNBC: u64 = 0x40a0;
    pub(crate) const RUC: u64 = 0x40a4;
    pub(crate) const ROC: u64 = 0x40ac;
    pub(crate) const TORL: u64 = 0x40c0;
    pub(crate) const TOTL: u64 = 0x40c8;
    pub(crate) const TPR: u64 = 0x40d0;
    pub(crate) const TPT: u64 = 0x40d4;
    pub(crate) const PTC64: u64 = 0x40d8;
    pub(crate) const MPTC: u64 = 0x40f0;
    pub(crate) const BPTC: u64 = 0x40f4;
    pub(crate) const TSCTC: u64 = 0x40f8;
    /// End of the statistics registers.
    pub(crate) const END: u64 = 0x4128;
}
