// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands to the links over a socket, from several clients.

use crate::served::{Links, Served};
use std::io::Write;

#[test]
fn serves_sixteen_command_links_at_once() {
    let served = Served::start("links");
    let mut all: Vec<Links> = (0..16).map(|_| Links::join(&served)).collect();
    // The first clients stay connected and send nothing, or an incomplete line.
    all[1].0.get_mut().write_all(b"cut c").unwrap();
    assert_eq!(all[15].ask("cut card 5\n"), "ok\n");
    assert!(all[2].ask(&format!("{}\n", "x".repeat(10_000))).starts_with("error: a command of "));
    assert!(Links::join(&served).hear().starts_with("error: 16 clients"));
    // More bytes than riser reads from one client at a time.
    all[3].0.get_mut().write_all("time\n".repeat(5_000).as_bytes()).unwrap();
    assert!((0..5_000).all(|_| all[3].hear().starts_with("ok ")));
    assert_eq!(all[1].ask("ard\n"), "ok\n");
    assert_eq!(
        all[1].ask("help\n"),
        "ok cut NAME [MICROSECONDS]; restore NAME; remove NAME; insert NAME; attention NAME; speed NAME GEN LANES; \
         fault KEY = VALUE, ...; clear [NAME]; cable NAME down|up; time; help\n"
    );
    let foo = all[1].ask("foo bar\n");
    assert!(
        foo.starts_with("error: no command `foo`, expected cut NAME") && foo.ends_with("; time; help\n"),
        "{foo}"
    );
    assert_eq!(all[1].ask("cable card off\n"), "error: cable card off: expected down or up\n");
    assert_eq!(
        all[1].ask("cable card down\n"),
        "error: no NIC `card` with `cable = \"outside\"`; known NICs: none\n"
    );
    assert!(all[1].ask("fault slot = 'card' }\n").starts_with("error: fault: "));
    drop(all.pop());
    let mut last = Links::join(&served);
    assert!(last.time_ps() > 0);
    served.end();
}
