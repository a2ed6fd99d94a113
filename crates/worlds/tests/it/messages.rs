// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client whose memory is reached by messages, at the socket of a function.

use crate::client::{COMMAND, CONFIG, Client, D2H, H2D, RAM};
use crate::served::{Links, Served, folder};
use devices::dma_engine::Stream;
use lab::parse_in;
use riser_worlds::machine::{VmHost, VmOptions};
use session::Session;
use session::external::{Clock, Driver};
use std::path::Path;
use std::time::{Duration, Instant};

/// The firmware waits for links that are down, and no other event is pending.
#[test]
fn firmware_ends_when_links_go_down() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/hotplug.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut file = parse_in(&devices::models(), &path, &text, "".into()).unwrap();
    file.lab.host.outside = true;
    let mut lab = Driver::new(Session::new(&file).unwrap(), Clock::Virtual);
    let folder = folder("hotplug");
    let options = VmOptions { direct: true, ..VmOptions::default() };
    let guest = VmHost::open(&mut lab, &file, "root", options, &folder, &[]).unwrap();
    assert!(guest.sockets().count() > 0);
    drop(guest);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn dma_messages_are_answered_between_accesses() {
    let served = Served::start("messages");
    // Two clients in sequence. The second finds the function in the same state as the first.
    for turn in 0..2 {
        let mut client = Client::join(&served.folder.join("card"));
        client.write(CONFIG, COMMAND, &[6, 0]);
        // D2H: 8 KiB of a stream, which the device generates. H2D: the device checks the data.
        assert_eq!(client.transfer(D2H, 0x100, 0x1_0000, 0x2000, 5), [1, 0], "turn {turn}");
        let mut expected = vec![0; 0x2000];
        Stream::new(5).fill(&mut expected);
        assert!(client.ram[0x1_0000..0x1_2000] == expected, "memory differs from the written data");
        client.broken_from = if turn == 0 { RAM } else { 0x1_1000 };
        assert_eq!(client.transfer(H2D, 0, 0x1_0000, 0x2000, 5), [1, turn], "turn {turn}");
        let [reads, writes] = client.counts;
        assert!(reads > 16 && writes >= 16, "{:?}", client.counts);
    }
    std::thread::sleep(Duration::from_millis(50));
    let (counters, gone, lost) = served.end();
    assert_eq!((counters.clients, counters.maps, counters.maps_without_descriptor), (2, 2, 2));
    assert_eq!((gone, lost), (2, 0));
}

/// A client that does not accept DMA writes delays the others only for a limited time.
#[test]
fn client_that_takes_no_dma_does_not_stop_the_lab() {
    let served = Served::start("silent");
    let (mut client, mut links) = (Client::join(&served.folder.join("card")), Links::join(&served));
    client.write(CONFIG, COMMAND, &[6, 0]);
    client.post(D2H, 0, 0, 3 << 20, 0);
    // The client answers only the read of the descriptor.
    let (id, command, _, payload) = client.next();
    client.serve(id, command, &payload);
    let begin = Instant::now();
    let mut before = links.time_ps();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let now = links.time_ps();
        let goes_on = now - before > 50_000_000_000;
        before = now;
        if goes_on && begin.elapsed() > Duration::from_secs(2) {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "the lab stands still at {now} ps");
    }
    served.end();
}
