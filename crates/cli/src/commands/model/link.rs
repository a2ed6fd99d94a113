// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of `riser model` that describe a link.

use crate::commands::words::{ADDRESSINGS, Word, one_of};
use crate::failure::Failure;
use model::{Addressing, Form, Params};

#[derive(clap::Args)]
pub(super) struct LinkArgs {
    /// Way to count bytes
    #[arg(long, value_parser = one_of(&FORMS), default_value = "exact")]
    form: Form,

    /// Generation of the link: 1, 2, 3, 4, 5; exact form also 6, 7 (FLIT mode: arithmetic, not simulated)
    #[arg(long = "gen", value_name = "GEN", default_value_t = 3)]
    generation: u8,

    /// Lanes: 1, 2, 4, 8, 12, 16, 32
    #[arg(long, default_value_t = 8)]
    lanes: u8,

    /// Max_Payload_Size in bytes: 128 to 4096
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    mps: u32,

    /// Max_Read_Request_Size in bytes: 128 to 4096
    #[arg(long, value_name = "BYTES", default_value_t = 512)]
    mrrs: u32,

    /// Read Completion Boundary in bytes: 64, 128
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    rcb: u32,

    /// Address width of requests in bits
    #[arg(long, value_parser = one_of(&ADDRESSINGS), default_value = "64")]
    addr: Addressing,

    /// Add an ECRC to TLPs
    #[arg(long)]
    ecrc: bool,
}

const FORMS: [Word<Form>; 2] = [
    ("exact", "Count the bytes that each direction of the wire carries", Form::Exact),
    ("published", "Use the formulas of pcie-bench (SIGCOMM'18, section 3)", Form::Published),
];

impl LinkArgs {
    pub(super) const fn form(&self) -> Form {
        self.form
    }

    pub(super) fn params(&self) -> Result<Params, Failure> {
        let params = Params::new(self.generation, self.lanes, self.mps, self.mrrs, self.rcb);
        Ok(Params { addressing: self.addr, ecrc: self.ecrc, ..params.map_err(Failure::usage)? })
    }
}
