// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bus probes: Unsupported Request for a read of the Vendor ID of a function that does not exist is not an error in
//! any view.

use crate::common::{Links, completion, config_read, kept, reader, report, transaction_lines};
use tlp::{ConfigKind, Data, Status, Tlp};

const VENDOR_ID: u16 = 0;
const COMMAND: u16 = 4;
const ABSENT: u16 = 0x0320;
const PRESENT: u16 = 0x0300;

/// Function, register and status of one configuration read after another. Record 2n is the completion of the n-th,
/// from 1.
const READS: [(u16, u16, Status); 6] = [
    (ABSENT, VENDOR_ID, Status::UnsupportedRequest),
    (PRESENT, VENDOR_ID, Status::Success),
    // This function has answered before and then disappeared.
    (PRESENT, VENDOR_ID, Status::UnsupportedRequest),
    // Reads of other registers are not probes.
    (ABSENT, COMMAND, Status::UnsupportedRequest),
    (ABSENT, VENDOR_ID, Status::CompleterAbort),
    (ABSENT, VENDOR_ID, Status::UnsupportedRequest),
];

fn capture() -> Vec<u8> {
    let mut links = Links::new(&["card"]);
    for (tag, (function, register, status)) in READS.into_iter().enumerate() {
        let data = if status == Status::Success { Data::Counted(4) } else { Data::NONE };
        let length = (status == Status::Success).then_some(1);
        let answer = Tlp::new(completion(0, tag as u16, 4, length, status), data);
        let read = config_read(ConfigKind::Type1, function, register, tag as u16);
        links.exchange(&[(0, false)], &read, &answer);
    }
    links.finish()
}

#[test]
fn filter_distinguishes_probes_from_errors() {
    let capture = capture();
    assert_eq!(kept(&capture, "error"), [6, 8, 10]);
    assert_eq!(kept(&capture, "probe"), [2, 12]);
    assert_eq!(kept(&capture, "status=UR"), [2, 6, 8, 12]);
}

#[test]
fn statistics_and_transactions_count_what_the_filter_keeps() {
    let capture = capture();
    let report = report(reader(&capture));
    let transactions = report.transactions;
    assert_eq!((report.error_records, transactions.failed, transactions.probes), (3, 3, 2));
    let text = report.to_string();
    for row in [
        "completed with error             3",
        "bus probes, UR                   2",
        "records with errors                3",
    ] {
        assert!(text.contains(row), "{row}: {text}");
    }
    let (lines, summary) = transaction_lines(&capture);
    assert!(summary.starts_with("6 transactions, 3 with errors, 2 bus probes\n"), "{summary}");
    let ends = lines.iter().map(|line| line.split_once(';').map_or("", |(_, end)| end));
    assert_eq!(
        ends.collect::<Vec<_>>(),
        [" bus probe", "", " error: UR", " error: UR", " error: CA", " bus probe"]
    );
}
