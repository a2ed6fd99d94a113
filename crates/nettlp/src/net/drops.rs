// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drop counts of the sockets, from `/proc/self/net/udp` and `udp6`. `SO_RXQ_OVFL` reports drops only with a later datagram,
//! which may never arrive. Never fails: if the file cannot be read, the counts stay unknown.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::linux::fs::MetadataExt;

/// Column of the inode in a line (`proc_pid_net(5)`); the drop count is in the last column.
const INODE: usize = 9;

/// Returns the drop counts of all UDP sockets of one family, by inode.
pub(super) fn by_inode(ipv6: bool) -> BTreeMap<u64, u32> {
    let path = if ipv6 { "/proc/self/net/udp6" } else { "/proc/self/net/udp" };
    let Ok(file) = File::open(path) else { return BTreeMap::new() };
    BufReader::new(file).lines().map_while(Result::ok).filter_map(|line| line_of(&line)).collect()
}

/// Returns the inode of a socket.
pub(super) fn inode(socket: &UdpSocket) -> Option<u64> {
    fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd())).ok().map(|metadata| metadata.st_ino())
}

fn line_of(line: &str) -> Option<(u64, u32)> {
    let mut fields = line.split_whitespace();
    let inode = fields.nth(INODE)?.parse().ok()?;
    Some((inode, fields.last()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_inode_and_drop_count_of_a_line() {
        let line = " 1036: 0100007F:2FFD 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 77123 2 0000000000000000 4711 ";
        assert_eq!(line_of(line), Some((77123, 4711)));
        let header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops ";
        assert_eq!((line_of(header), line_of(""), line_of("1: 2 3")), (None, None, None));
    }

    #[test]
    fn counts_datagrams_that_overrun_a_socket() {
        let receiver = UdpSocket::bind("127.62.90.1:0").unwrap();
        let sender = UdpSocket::bind("127.62.90.2:0").unwrap();
        let inode = inode(&receiver).unwrap();
        assert_eq!(by_inode(false).get(&inode), Some(&0));
        let bytes = [0; 60_000];
        while by_inode(false).get(&inode) == Some(&0) {
            // The default buffer holds only a few of these datagrams.
            for _ in 0..16 {
                sender.send_to(&bytes, receiver.local_addr().unwrap()).unwrap();
            }
        }
        assert!(by_inode(false)[&inode] > 0);
    }
}
