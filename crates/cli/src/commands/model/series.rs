// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The curves of `riser model nic`: each device, what the link would carry of bare packets, and an Ethernet to keep up
//! with. Asks `riser-model` for every number.

use crate::failure::Failure;
use model::{Basis, Description, Dllps, Form, Packeting, Params, Throughput, Transfer, ethernet_gbps};
use serde::Serialize;

/// Sizes of packets over which a device is asked whether it keeps up with the Ethernet: those of pcie-bench's Figure 1.
pub(super) const LINE_RATE_SIZES: std::ops::RangeInclusive<u32> = 64..=1500;

/// A device by the name it is asked for, and the one that pictures show.
pub(super) struct Device {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) description: Description,
}

/// What is asked of all sizes.
pub(super) struct Question {
    pub(super) params: Params,
    pub(super) form: Form,
    pub(super) packeting: Packeting,
    pub(super) ethernet_gbps: f64,
    pub(super) devices: Vec<Device>,
}

/// What a curve stands for.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// Packets alone, without descriptors and the like.
    Effective,
    /// What arrives by the wire of the network.
    Ethernet,
    /// A device with its driver.
    Device,
}

/// One curve.
#[derive(Serialize)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) kind: Kind,
    /// Devices: from which size on the Ethernet's rate is held, up to the last of [`LINE_RATE_SIZES`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) holds_ethernet_from_bytes: Option<u32>,
    pub(super) points: Vec<Point>,
}

/// What a curve says of one size.
#[derive(Clone, Copy, Serialize)]
#[serde(untagged)]
pub(super) enum Point {
    /// A bare rate.
    Rate {
        /// Bytes of a packet.
        size_bytes: u32,
        /// Packets of one direction.
        throughput_gbps: f64,
    },
    /// A device, with what each direction carries.
    Device(Throughput),
}

impl Point {
    pub(super) fn size_bytes(&self) -> u32 {
        match self {
            Point::Rate { size_bytes, .. } => *size_bytes,
            Point::Device(answer) => answer.size_bytes,
        }
    }

    pub(super) fn gbps(&self) -> f64 {
        match self {
            Point::Rate { throughput_gbps, .. } => *throughput_gbps,
            Point::Device(answer) => answer.throughput_gbps,
        }
    }
}

impl Question {
    pub(super) fn basis(&self) -> Basis {
        self.form.basis(&self.params)
    }

    /// All curves, in the order of Figure 1's legend.
    pub(super) fn series(&self, sizes: &[u32]) -> Result<Vec<Series>, Failure> {
        let mut all = vec![self.effective(sizes)?, self.ethernet(sizes)];
        for device in &self.devices {
            all.push(self.device(device, sizes)?);
        }
        Ok(all)
    }

    fn effective(&self, sizes: &[u32]) -> Result<Series, Failure> {
        let point = |size_bytes: &u32| {
            let transfer = Transfer::of(*size_bytes);
            let answer = match self.form {
                Form::Exact => model::exact(&self.params, transfer, &Dllps::default()),
                Form::Published => model::published(&self.params, transfer),
            };
            let answer = answer.map_err(Failure::usage)?;
            let throughput_gbps = match self.packeting {
                Packeting::Both => answer.read_write_gbps,
                Packeting::Tx => answer.read_gbps,
                Packeting::Rx => answer.write_gbps,
            };
            Ok(Point::Rate { size_bytes: *size_bytes, throughput_gbps })
        };
        Ok(Series {
            name: "effective".to_owned(),
            title: "Effective PCIe BW".to_owned(),
            kind: Kind::Effective,
            holds_ethernet_from_bytes: None,
            points: sizes.iter().map(point).collect::<Result<_, Failure>>()?,
        })
    }

    fn ethernet(&self, sizes: &[u32]) -> Series {
        let point = |size_bytes: &u32| Point::Rate {
            size_bytes: *size_bytes,
            throughput_gbps: ethernet_gbps(self.ethernet_gbps, *size_bytes),
        };
        Series {
            name: "ethernet".to_owned(),
            title: format!("{}G Ethernet", self.ethernet_gbps),
            kind: Kind::Ethernet,
            holds_ethernet_from_bytes: None,
            points: sizes.iter().map(point).collect(),
        }
    }

    fn device(&self, device: &Device, sizes: &[u32]) -> Result<Series, Failure> {
        let Question { params, form, packeting, ethernet_gbps, .. } = self;
        let refuse = |e| Failure::usage(format!("{}: {e}", device.name));
        let ask = |size: &u32| device.description.throughput(params, *form, *packeting, *size);
        let points: Result<Vec<Throughput>, _> = sizes.iter().map(ask).collect();
        let from = device.description.holds_ethernet_from(
            params,
            *form,
            *packeting,
            *ethernet_gbps,
            LINE_RATE_SIZES,
        );
        Ok(Series {
            name: device.name.clone(),
            title: device.title.clone(),
            kind: Kind::Device,
            holds_ethernet_from_bytes: from.map_err(refuse)?,
            points: points.map_err(refuse)?.into_iter().map(Point::Device).collect(),
        })
    }

    /// What is to be known of the numbers, a paragraph each.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = super::link::flit_note(&self.params).into_iter().collect();
        if self.form == Form::Published {
            notes.push(
                "Published: Acks and UpdateFCs take the fixed share of both directions that pcie-bench charges."
                    .to_owned(),
            );
            notes.extend(self.slips());
        }
        notes.push(
            "Packets are counted as a host holds them, without FCS; on the Ethernet, each has 24 B more (FCS, preamble, \
             gap)."
                .to_owned(),
        );
        notes.extend(self.devices.iter().map(|d| format!("{}: {}.", d.title, d.description.description)));
        notes
    }

    /// Whose read requests lack their headers.
    fn slips(&self) -> Option<String> {
        let slips = |d: &&Device| d.description.transactions.iter().any(|t| t.published_omits_header);
        let names: Vec<&str> = self.devices.iter().filter(slips).map(|d| d.name.as_str()).collect();
        (!names.is_empty()).then(|| {
            format!(
                "Published: the header of the freelist's read is left out, as in the public NIC models, for {}.",
                names.join(", ")
            )
        })
    }
}

impl Series {
    /// Of a device: from where on it keeps up.
    pub(super) fn line_rate(&self, ethernet_gbps: f64) -> Option<String> {
        let (first, last) = (LINE_RATE_SIZES.start(), LINE_RATE_SIZES.end());
        (self.kind == Kind::Device).then(|| match self.holds_ethernet_from_bytes {
            Some(from) => format!(
                "{} holds {ethernet_gbps} Gb/s Ethernet from {from} B on (of {first} to {last} B).",
                self.title
            ),
            None => format!("{} does not hold {ethernet_gbps} Gb/s Ethernet at {last} B.", self.title),
        })
    }
}
