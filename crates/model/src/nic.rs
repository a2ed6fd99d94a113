// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a link lets NICs reach, by size of packet: a curve for each device, one for what the link would carry of bare packets, and an
//! Ethernet to keep up with.

use crate::ethernet::moved_bytes;
use crate::{
    Basis, Description, Dllps, Form, ModelError, Packeting, Params, Throughput, Transfer, ethernet_gbps,
};
use serde::Serialize;

/// The sizes of a table where none are asked for: the ends of pcie-bench's Figure 1, and both sides of some teeth.
pub const TABLE_SIZES: [u32; 11] = [64, 128, 256, 257, 512, 513, 768, 769, 1024, 1280, 1500];

/// Sizes of packets in bytes, FCS included, over which a device is asked whether it keeps up with the Ethernet: those of pcie-bench's Figure 1.
pub const LINE_RATE_SIZES: std::ops::RangeInclusive<u32> = 64..=1500;

/// Why a curve cannot be computed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SeriesError {
    /// The closed form refuses a value.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The closed form refuses a value for a device.
    #[error("{device}: {error}")]
    Device {
        /// The name of the device.
        device: String,
        /// The error.
        error: ModelError,
    },
}

/// A device by the name it is asked for, and the one that pictures show.
#[derive(Clone, Debug)]
pub struct Device {
    /// The name.
    pub name: String,
    /// What pictures call it.
    pub title: String,
    /// Its transactions.
    pub description: Description,
}

/// What is asked of all sizes.
#[derive(Clone, Debug)]
pub struct Question {
    /// The link.
    pub params: Params,
    /// How to count.
    pub form: Form,
    /// Which packets are under way.
    pub packeting: Packeting,
    /// Rate of the Ethernet, Gb/s.
    pub ethernet_gbps: f64,
    /// The devices, of different names.
    pub devices: Vec<Device>,
}

/// What is answered: the question, and its curves.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    form: Form,
    basis: Basis,
    #[serde(rename = "gen")]
    generation: u8,
    lanes: u8,
    mps_bytes: u32,
    mrrs_bytes: u32,
    rcb_bytes: u32,
    addr_bits: u8,
    ecrc: bool,
    traffic: Packeting,
    ethernet_gbps: f64,
    notes: Vec<String>,
    series: Vec<Series>,
}

/// What a curve stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Packets alone, without descriptors and the like.
    Effective,
    /// What arrives by the wire of the network.
    Ethernet,
    /// A device with its driver.
    Device,
}

/// One curve.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// `effective`, `ethernet`, or the name of a device.
    pub name: String,
    /// What pictures call it.
    pub title: String,
    /// What it stands for.
    pub kind: Kind,
    /// Devices: from which size on the Ethernet's rate is held, up to the last of [`LINE_RATE_SIZES`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds_ethernet_from_bytes: Option<u32>,
    /// A point for each size.
    pub points: Vec<Point>,
}

/// What a curve says of one size.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub enum Point {
    /// A bare rate.
    Rate {
        /// Bytes of a packet, FCS included.
        size_bytes: u32,
        /// Packets of one direction.
        throughput_gbps: f64,
    },
    /// A device, with what each direction carries.
    Device(Throughput),
}

impl Point {
    /// Bytes of a packet, FCS included.
    pub fn size_bytes(&self) -> u32 {
        match self {
            Point::Rate { size_bytes, .. } => *size_bytes,
            Point::Device(answer) => answer.size_bytes,
        }
    }

    /// Packets of one direction, Gb/s.
    pub fn gbps(&self) -> f64 {
        match self {
            Point::Rate { throughput_gbps, .. } => *throughput_gbps,
            Point::Device(answer) => answer.throughput_gbps,
        }
    }
}

impl Question {
    /// What the numbers rest on.
    pub fn basis(&self) -> Basis {
        self.form.basis(&self.params)
    }

    /// All curves, in the order of Figure 1's legend.
    ///
    /// # Errors
    /// A size that is not legal.
    pub fn series(&self, sizes: &[u32]) -> Result<Vec<Series>, SeriesError> {
        let mut all = vec![self.effective(sizes)?, self.ethernet(sizes)];
        for device in &self.devices {
            all.push(self.device(device, sizes)?);
        }
        Ok(all)
    }

    fn effective(&self, sizes: &[u32]) -> Result<Series, ModelError> {
        let point = |size_bytes: &u32| {
            let throughput_gbps = self.effective_gbps(*size_bytes)?;
            Ok(Point::Rate { size_bytes: *size_bytes, throughput_gbps })
        };
        Ok(Series {
            name: "effective".to_owned(),
            title: "Effective PCIe BW".to_owned(),
            kind: Kind::Effective,
            holds_ethernet_from_bytes: None,
            points: sizes.iter().map(point).collect::<Result<_, ModelError>>()?,
        })
    }

    /// Rate of frames of `frame_bytes` of which nothing but their own bytes crosses the link.
    fn effective_gbps(&self, frame_bytes: u32) -> Result<f64, ModelError> {
        let moved_bytes = moved_bytes(self.form, frame_bytes)?;
        let transfer = Transfer::of(moved_bytes);
        let answer = match self.form {
            Form::Exact => crate::exact(&self.params, transfer, &Dllps::default()),
            Form::Published => crate::published(&self.params, transfer),
        }?;
        let moved_gbps = match self.packeting {
            Packeting::Both => answer.read_write_gbps,
            Packeting::Tx => answer.read_gbps,
            Packeting::Rx => answer.write_gbps,
        };
        Ok(moved_gbps * f64::from(frame_bytes) / f64::from(moved_bytes))
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

    fn device(&self, device: &Device, sizes: &[u32]) -> Result<Series, SeriesError> {
        let Question { params, form, packeting, ethernet_gbps, .. } = self;
        let refuse = |error| SeriesError::Device { device: device.name.clone(), error };
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
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.params.flit_note().into_iter().collect();
        if self.form == Form::Published {
            notes.push(
                "Published: Acks and UpdateFCs take the fixed share of both directions that pcie-bench charges."
                    .to_owned(),
            );
            notes.extend(self.slips());
        }
        notes.push(
            format!(
                "Sizes and rates of packets include the FCS. On the Ethernet, each packet takes 20 B more (preamble, \
                 gap); on PCI Express, {}.",
                match self.form {
                    Form::Exact => "4 B less, as a NIC strips the FCS",
                    Form::Published => "the whole packet, as pcie-bench counts",
                }
            ),
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

impl Answer {
    /// The answer to `question` that `series` are.
    pub fn new(question: &Question, series: Vec<Series>) -> Answer {
        let Question { params, form, packeting, ethernet_gbps, .. } = question;
        Answer {
            form: *form,
            basis: question.basis(),
            generation: params.rate.generation(),
            lanes: params.width.lanes(),
            mps_bytes: params.mps.bytes(),
            mrrs_bytes: params.mrrs.bytes(),
            rcb_bytes: params.rcb.bytes(),
            addr_bits: params.addressing.bits(),
            ecrc: params.ecrc,
            traffic: *packeting,
            ethernet_gbps: *ethernet_gbps,
            notes: question.notes(),
            series,
        }
    }
}

impl Series {
    /// Of a device: from where on it keeps up.
    pub fn line_rate(&self, ethernet_gbps: f64) -> Option<String> {
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
