// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel has dropped at each socket, out of `/proc/self/net/udp` and `udp6`: `SO_RXQ_OVFL` tells only with a later
//! datagram, which may never come. Never fails: without that file nothing more is known.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::linux::fs::MetadataExt;

/// Place of the inode in a line (`proc_pid_net(5)`); the count of drops stands last.
const INODE: usize = 9;

/// The counts of all UDP sockets of one family, by their inodes.
pub(super) fn by_inode(ipv6: bool) -> BTreeMap<u64, u32> {
    let path = if ipv6 { "/proc/self/net/udp6" } else { "/proc/self/net/udp" };
    let Ok(file) = File::open(path) else { return BTreeMap::new() };
    BufReader::new(file).lines().map_while(Result::ok).filter_map(|line| line_of(&line)).collect()
}

/// The inode of a socket.
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
    fn lines_give_an_inode_and_a_count() {
        let line = " 1036: 0100007F:2FFD 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 77123 2 0000000000000000 4711 ";
        assert_eq!(line_of(line), Some((77123, 4711)));
        let header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops ";
        assert_eq!((line_of(header), line_of(""), line_of("1: 2 3")), (None, None, None));
    }

    #[test]
    fn what_overruns_a_socket_is_in_its_count() {
        let receiver = UdpSocket::bind("127.62.90.1:0").unwrap();
        let sender = UdpSocket::bind("127.62.90.2:0").unwrap();
        let inode = inode(&receiver).unwrap();
        assert_eq!(by_inode(false).get(&inode), Some(&0));
        let bytes = [0; 60_000];
        while by_inode(false).get(&inode) == Some(&0) {
            // The default buffer holds a few of these.
            for _ in 0..16 {
                sender.send_to(&bytes, receiver.local_addr().unwrap()).unwrap();
            }
        }
        assert!(by_inode(false)[&inode] > 0);
    }
}
