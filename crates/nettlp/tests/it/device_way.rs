// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests which path an adapter uses for its host's requests if several programs use the device's address. Opens no
//! socket.

use capture::encap::{PORT_DEVICE, PORT_HOST, PORT_SESSION, PortScheme};
use riser_nettlp::adapter::{Adapter, AdapterSettings, Backend, Datagrams, Outbox, PeerPath, Received};
use riser_nettlp::allow::{AllowList, Rule};
use riser_nettlp::carrier::{SendError, announcement};
use riser_nettlp::completer::Full;
use riser_nettlp::wire::messaging::{Question, Reply};
use std::net::SocketAddr;
use tlp::{Bdf, Tag, Time};

/// The ports that have a session.
struct Sessions(Vec<u16>);

impl Datagrams for Sessions {
    fn room(&self, _: u16, _: SocketAddr) -> usize {
        1
    }

    fn send(
        &mut self,
        _: u16,
        _: SocketAddr,
        _: usize,
        _: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), SendError> {
        Ok(())
    }

    fn has_session(&self, peer: SocketAddr) -> bool {
        self.0.contains(&peer.port())
    }
}

/// Records the path that a host request with tag 3 would take.
#[derive(Default)]
struct Host(Option<PeerPath>);

impl Backend for Host {
    fn handle(&mut self, _: Time, _: &Received<'_>, _: &mut dyn Outbox) -> Result<(), Full> {
        Ok(())
    }

    fn advance(&mut self, _: Time, out: &mut dyn Outbox) {
        self.0 = out.device(Tag::from_bits(3));
    }

    fn message(&mut self, _: Time, _: Question) -> Option<Reply> {
        None
    }

    fn config_read(&mut self, _: Time, _: u16) -> u32 {
        0
    }

    fn config_write(&mut self, _: Time, _: u16, _: u8, _: u32) {}

    fn register_read(&mut self, _: u8) -> u32 {
        0
    }

    fn register_write(&mut self, _: u8, _: u32) {}
}

#[test]
fn path_of_host_requests_changes_only_after_announcement() {
    let allow = ["10.0.0.1,all,rw", "10.0.0.2,all,rw"].map(|rule| rule.parse::<Rule>().unwrap());
    let id = Bdf::from_bits(0x1b00);
    let device = Some("10.0.0.1".parse().unwrap());
    let allow = AllowList::new(allow).unwrap();
    let mut adapter =
        Adapter::new(AdapterSettings { allow, id, device, scheme: PortScheme::Tagged }, Host::default());

    let mut announced = vec![0; 6 + 16];
    announcement(id).emit(&mut announced[6..]);
    let read = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x1b, 0, 0, 0xf, 0, 0, 0x10, 0];
    // Rows: the received TLP, its port and sender; the open sessions; the path of the host's requests.
    type Row<'a> = (&'a [u8], u16, &'a str, &'a [u16], (u16, u16));
    let rows: [Row<'_>; 8] = [
        (&read, PORT_DEVICE, "10.0.0.1:12288", &[], (PORT_HOST + 3, PORT_HOST + 3)),
        // A program that reads in a session is not device software: upstream's psmem may use the ports.
        (&read, PORT_SESSION, "10.0.0.1:1111", &[1111], (PORT_HOST + 3, PORT_HOST + 3)),
        (&announced, PORT_SESSION, "10.0.0.1:2222", &[1111, 2222], (PORT_SESSION, 2222)),
        (&read, PORT_SESSION, "10.0.0.1:1111", &[1111, 2222], (PORT_SESSION, 2222)),
        (&read, PORT_DEVICE, "10.0.0.1:12288", &[2222], (PORT_SESSION, 2222)),
        (&announced, PORT_SESSION, "10.0.0.2:3333", &[2222, 3333], (PORT_SESSION, 2222)),
        // The session of the device software has ended, and the next device software may use ports.
        (&read, PORT_DEVICE, "10.0.0.1:12288", &[], (PORT_HOST + 3, PORT_HOST + 3)),
        (&announced, PORT_SESSION, "10.0.0.1:4444", &[4444], (PORT_SESSION, 4444)),
    ];
    for (row, (bytes, port, from, sessions, (to_port, peer_port))) in rows.into_iter().enumerate() {
        let mut out = Sessions(sessions.to_vec());
        assert!(adapter.handle(Time::ZERO, port, from.parse().unwrap(), bytes, &mut out));
        adapter.advance(Time::ZERO, &mut out);
        let peer = SocketAddr::new("10.0.0.1".parse().unwrap(), peer_port);
        assert_eq!(adapter.backend().0, Some(PeerPath { port: to_port, peer }), "row {row}");
    }
}
