// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates that a link allows for NICs, by packet size: a curve for each device, a curve for bare packets on the link,
//! and an Ethernet for comparison.

use crate::ethernet::moved_bytes;
use crate::{
    Basis, Description, Dllps, Form, ModelError, Packeting, Params, Throughput, Transfer, ethernet_gbps,
};
use serde::Serialize;

/// Default sizes of a table: the ends of pcie-bench's Figure 1, and both sides of some teeth.
pub const TABLE_SIZES: [u32; 11] = [64, 128, 256, 257, 512, 513, 768, 769, 1024, 1280, 1500];

/// Packet sizes in bytes, including the FCS, at which devices are compared with the Ethernet: those of pcie-bench's Figure 1.
pub const LINE_RATE_SIZES: std::ops::RangeInclusive<u32> = 64..=1500;

/// Reason why a curve cannot be calculated.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SeriesError {
    /// The closed form rejects a value.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The closed form rejects a value for a device.
    #[error("{device}: {error}")]
    Device {
        /// The name of the device.
        device: String,
        /// The error.
        error: ModelError,
    },
}

/// A device with its name and its title in charts.
#[derive(Clone, Debug)]
pub struct Device {
    /// The name.
    pub name: String,
    /// Title in charts.
    pub title: String,
    /// Its transactions.
    pub description: Description,
}

/// Inputs of all sizes.
#[derive(Clone, Debug)]
pub struct Question {
    /// The link.
    pub params: Params,
    /// Form of the model.
    pub form: Form,
    /// Directions of the packets.
    pub packeting: Packeting,
    /// Rate of the Ethernet in Gb/s.
    pub ethernet_gbps: f64,
    /// The devices. Names must differ.
    pub devices: Vec<Device>,
}

/// The inputs and the curves.
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

/// Kind of a curve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Bare packets, without descriptors and other transactions.
    Effective,
    /// Packets that arrive from the network.
    Ethernet,
    /// A device with its driver.
    Device,
}

/// One curve.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// `effective`, `ethernet`, or the name of a device.
    pub name: String,
    /// Title in charts.
    pub title: String,
    /// Kind of the curve.
    pub kind: Kind,
    /// Smallest size from which on a device keeps up with the Ethernet, up to the last of [`LINE_RATE_SIZES`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds_ethernet_from_bytes: Option<u32>,
    /// A point for each size.
    pub points: Vec<Point>,
}

/// Value of a curve at one size.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub enum Point {
    /// A rate only.
    Rate {
        /// Bytes of a packet, including the FCS.
        size_bytes: u32,
        /// Rate of packets in one direction, in Gb/s.
        throughput_gbps: f64,
    },
    /// A device's rate, with the load of each direction.
    Device(Throughput),
}

impl Point {
    /// Returns the bytes of a packet, including the FCS.
    pub fn size_bytes(&self) -> u32 {
        match self {
            Point::Rate { size_bytes, .. } => *size_bytes,
            Point::Device(answer) => answer.size_bytes,
        }
    }

    /// Returns the rate of packets in one direction, in Gb/s.
    pub fn gbps(&self) -> f64 {
        match self {
            Point::Rate { throughput_gbps, .. } => *throughput_gbps,
            Point::Device(answer) => answer.throughput_gbps,
        }
    }
}

impl Question {
    /// Returns the basis of the numbers.
    pub fn basis(&self) -> Basis {
        self.form.basis(&self.params)
    }

    /// Returns all curves, in the order of Figure 1's legend.
    ///
    /// # Errors
    /// An invalid size.
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

    /// Returns the rate of frames of `frame_bytes` for which only their own bytes cross the link.
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

    /// Returns notes on the numbers, one paragraph each.
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

    /// Lists the devices whose read requests lack their headers.
    fn slips(&self) -> Option<String> {
        let slips = |d: &&Device| d.description.transactions.iter().any(|t| t.published_omits_header);
        let names: Vec<&str> = self.devices.iter().filter(slips).map(|d| d.name.as_str()).collect();
        (!names.is_empty()).then(|| {
            format!(
                "Published: the header of the freelist's read is omitted for {}, as in the public NIC models.",
                names.join(", ")
            )
        })
    }
}

impl Answer {
    /// Returns the answer to `question` with the curves `series`.
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
    /// Returns a sentence on the packet size from which on the device keeps up; `None` for other curves.
    pub fn line_rate(&self, ethernet_gbps: f64) -> Option<String> {
        let (first, last) = (LINE_RATE_SIZES.start(), LINE_RATE_SIZES.end());
        (self.kind == Kind::Device).then(|| match self.holds_ethernet_from_bytes {
            Some(from) => format!(
                "{} keeps up with {ethernet_gbps} Gb/s Ethernet from {from} B on (of {first} to {last} B).",
                self.title
            ),
            None => format!("{} cannot keep up with {ethernet_gbps} Gb/s Ethernet at {last} B.", self.title),
        })
    }
}
