// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A capture over time as three tables: columns are the fields of `riser trace --stats --interval --json`.

use super::Clock;
use super::columns::{Batch, Flags, Names, Numbers, batch};
use crate::table::{Table, arrow_error};
use arrow_array::RecordBatch;
use arrow_array::types::{Float64Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use capture::Timestamp;
use capture::credits::Available;
use capture::series::{CreditRow, OutstandingRow, SeriesReport, WayRow};
use pyo3::PyResult;
use tlp::Bdf;

batch! {
    /// Traffic of each direction of each link.
    Links {
        start_ps: Numbers<Int64Type>,
        link: Numbers<UInt16Type>,
        direction: Names<&'static str>,
        posted_tlps: Numbers<UInt64Type>,
        non_posted_tlps: Numbers<UInt64Type>,
        completion_tlps: Numbers<UInt64Type>,
        dllps: Numbers<UInt64Type>,
        posted_bytes: Numbers<UInt64Type>,
        non_posted_bytes: Numbers<UInt64Type>,
        completion_bytes: Numbers<UInt64Type>,
        dllp_bytes: Numbers<UInt64Type>,
        payload_bytes: Numbers<UInt64Type>,
        wire_gbps: Numbers<Float64Type>,
        utilization: Numbers<Float64Type>,
        posted_utilization: Numbers<Float64Type>,
        non_posted_utilization: Numbers<Float64Type>,
        completion_utilization: Numbers<Float64Type>,
        dllp_utilization: Numbers<Float64Type>,
    }
}

batch! {
    /// Requests outstanding.
    Outstanding {
        start_ps: Numbers<Int64Type>,
        link: Numbers<UInt16Type>,
        requester: Names<Bdf>,
        max: Numbers<UInt32Type>,
        mean: Numbers<Float64Type>,
    }
}

batch! {
    /// The fewest credits left.
    Credits {
        start_ps: Numbers<Int64Type>,
        link: Numbers<UInt16Type>,
        direction: Names<&'static str>,
        vc: Numbers<UInt8Type>,
        class: Names<&'static str>,
        header_min: Numbers<Int64Type>,
        header_infinite: Flags,
        data_min: Numbers<Int64Type>,
        data_infinite: Flags,
    }
}

/// Length of an interval in ps, and the tables.
pub(super) fn tables(report: &SeriesReport, clock: Clock) -> PyResult<(u128, Table, Table, Table)> {
    let (mut links, mut outstanding, mut credits) =
        (Links::default(), Outstanding::default(), Credits::default());
    for row in &report.rows {
        let start = clock.ps(Timestamp::from_ps(row.start_ps));
        row.links.iter().for_each(|way| links.put(start, way));
        row.outstanding.iter().for_each(|requests| outstanding.put(start, requests));
        row.credits.iter().for_each(|left| credits.put(start, left));
    }
    Ok((report.interval_ps, table(links)?, table(outstanding)?, table(credits)?))
}

fn table<B: Batch>(mut batch: B) -> PyResult<Table> {
    let schema = B::schema();
    let batch = RecordBatch::try_new(schema.clone(), batch.take()).map_err(arrow_error)?;
    Ok(Table::new(schema, vec![batch]))
}

impl Links {
    fn put(&mut self, start: Option<i64>, way: &WayRow) {
        let row = self.rows;
        self.rows += 1;
        self.start_ps.put(row, start);
        self.link.put(row, way.link);
        self.direction.put(row, way.direction.map(|way| way.name()));
        self.posted_tlps.put(row, way.posted_tlps);
        self.non_posted_tlps.put(row, way.non_posted_tlps);
        self.completion_tlps.put(row, way.completion_tlps);
        self.dllps.put(row, way.dllps);
        self.posted_bytes.put(row, way.posted_bytes);
        self.non_posted_bytes.put(row, way.non_posted_bytes);
        self.completion_bytes.put(row, way.completion_bytes);
        self.dllp_bytes.put(row, way.dllp_bytes);
        self.payload_bytes.put(row, way.payload_bytes);
        self.wire_gbps.put(row, way.wire_gbps);
        self.utilization.put(row, way.utilization);
        let by_class = way.utilization_by_class;
        self.posted_utilization.put(row, by_class.map(|shares| shares[0]));
        self.non_posted_utilization.put(row, by_class.map(|shares| shares[1]));
        self.completion_utilization.put(row, by_class.map(|shares| shares[2]));
        self.dllp_utilization.put(row, by_class.map(|shares| shares[3]));
    }
}

impl Outstanding {
    fn put(&mut self, start: Option<i64>, of: &OutstandingRow) {
        let row = self.rows;
        self.rows += 1;
        self.start_ps.put(row, start);
        self.link.put(row, of.link);
        self.requester.put(row, Some(of.requester.0));
        self.max.put(row, of.max);
        self.mean.put(row, of.mean);
    }
}

impl Credits {
    fn put(&mut self, start: Option<i64>, of: &CreditRow) {
        let count = |left: Available| match left {
            Available::Credits(credits) => Some(credits),
            Available::Infinite => None,
        };
        let row = self.rows;
        self.rows += 1;
        self.start_ps.put(row, start);
        self.link.put(row, of.link);
        self.direction.put(row, of.direction.map(|way| way.name()));
        self.vc.put(row, of.vc);
        self.class.put(row, Some(of.class));
        self.header_min.put(row, count(of.header_min));
        self.header_infinite.put(row, of.header_min == Available::Infinite);
        self.data_min.put(row, count(of.data_min));
        self.data_infinite.put(row, of.data_min == Available::Infinite);
    }
}
