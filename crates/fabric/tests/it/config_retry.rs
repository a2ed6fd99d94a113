// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requests that CRS may answer (`PCIe 5.0 §2.3.1`). The type of the request determines this, not its length.

use crate::common::link;
use crate::common::system::{Raw, System, text};
use host::HostError;
use riser_fabric::{AddressMap, Limits, Stop};
use tlp::{Bdf, Body, Completion, Data, PayloadPool, Rate, Repr, Status, Tag, Tlp};

const FUNCTION: Bdf = Bdf::from_bits(0x100);

fn answer(status: Status, data: Option<&[u8; 4]>) -> Tlp {
    let body = Completion {
        status,
        length_dw: data.map(|_| 1),
        ..Completion::new(FUNCTION, Bdf::from_bits(0), Tag::from_bits(0))
    };
    let data = data.map_or(Data::NONE, |d| Data::Carried(PayloadPool::new().copy(d)));
    Tlp::new(Repr::new(Body::Completion(body)), data)
}

/// A 4-byte read of a BAR and a read of a register, each answered with CRS, and with data.
#[test]
fn crs_answers_only_configuration_requests() {
    let (retry, good) = (answer(Status::ConfigRetry, None), answer(Status::Success, Some(&[1, 2, 3, 4])));
    let rows: [(bool, Tlp, Result<u32, HostError>); 4] = [
        (false, retry.clone(), Err(HostError::BadCompletion)),
        (true, retry, Err(HostError::ConfigRetry)),
        (false, good.clone(), Ok(0x0403_0201)),
        (true, good, Ok(0x0403_0201)),
    ];
    for (config, answer, expected) in rows {
        let raw = Raw::new();
        raw.send(20_000, answer);
        let mut system = System::new();
        system.host.max_host_requests_per_port = 1;
        let mut fabric = system.raw(link(Rate::Gt8, 8, 256), &raw).with_bare_program(move |cpu| async move {
            let result = if config {
                cpu.config_read(FUNCTION, 0).await
            } else {
                cpu.read_u32(AddressMap.mmio32(0).base).await
            };
            if result == expected { Ok(()) } else { Err(format!("{:?}", result.map_err(text))) }
        });
        assert_eq!(fabric.run(Limits::default()), Stop::Finished, "configuration: {config}, {expected:?}");
    }
}
