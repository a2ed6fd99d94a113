// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules that say which peers an adapter serves, at which addresses, and in which direction. Without a rule no peer is served.
//! Never resolves names.
//!
//! A rule has the form `PEER,WINDOW,DIRECTIONS`: an IPv4 or IPv6 address; `all`, `memory`, `cfg` or `BASE+SIZE`; `r`, `w` or `rw`.
//! Writing configuration space affects all peers: it can turn DMA off for all of them. So configuration space has
//! its own window, `cfg`, which no address window contains. `all` is every address and `cfg`.
//!
//! ```
//! use riser_nettlp::allow::{AllowList, Rule};
//!
//! let rule: Rule = "192.168.10.1,0x40000000+256M,r".parse().unwrap();
//! assert_eq!(rule.to_string(), "192.168.10.1,0x40000000+256M,r");
//! let list = AllowList::new([rule]).unwrap();
//! let peer = list.peer("192.168.10.1".parse().unwrap()).unwrap();
//! assert!(list.may_read(peer, 0x4000_0000, 4096));
//! assert!(!list.may_write(peer, 0x4000_0000, 4));
//! ```

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use thiserror::Error;

/// Maximum number of rules in a list.
pub const MAX_RULES: usize = 1024;

/// Addresses to which a rule applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Window {
    /// All addresses, and configuration.
    All,
    /// All addresses, without configuration.
    Memory,
    /// Configuration space and the adapter's own registers, no addresses.
    Configuration,
    /// `size` bytes from `base`; they end at 2^64 or below.
    Range {
        /// Address of the first byte.
        base: u64,
        /// Number of bytes, at least one.
        size: u64,
    },
}

/// Directions in which a peer may move data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Directions {
    /// The peer may read.
    pub read: bool,
    /// The peer may write.
    pub write: bool,
}

/// Permission of one peer for one window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The peer's address. All of its ports match.
    pub peer: IpAddr,
    /// Addresses.
    pub window: Window,
    /// Directions.
    pub directions: Directions,
}

/// Error of an invalid rule, window or size.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum AllowError {
    /// The rule does not have three parts.
    #[error("invalid rule `{0}`; expected PEER,WINDOW,DIRECTIONS, for example 192.168.10.1,all,rw")]
    Parts(String),
    /// The peer is not an address, or is an address that no host can have.
    #[error("invalid peer `{0}`; expected the IPv4 or IPv6 address of one host")]
    Peer(String),
    /// Invalid window.
    #[error(
        "invalid window `{0}`; expected `all`, `memory`, `cfg` or BASE+SIZE within 64 bits, for example 0x40000000+256M"
    )]
    Window(String),
    /// Invalid directions.
    #[error("invalid directions `{0}`; expected r, w or rw")]
    Directions(String),
    /// Invalid size.
    #[error(
        "invalid size `{0}`; expected 1 to 2^64 - 1, decimal or 0x, with K, M, G or T for powers of 1024"
    )]
    Size(String),
    /// Too many rules.
    #[error("{0} rules; expected at most {MAX_RULES}")]
    Rules(usize),
}

/// Units of sizes, largest first: exponent of two, and letter.
const UNITS: [(u32, char); 4] = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')];

/// Parses a size in bytes: a number, decimal or with 0x, and an optional K, M, G or T (powers of 1024), as in `256M`.
///
/// # Errors
/// If the text is not a number, or the number is zero or does not fit in 64 bits.
pub fn parse_size(text: &str) -> Result<u64, AllowError> {
    parse_scaled(text).filter(|size| *size > 0).ok_or_else(|| AllowError::Size(text.to_owned()))
}

/// Parses a number, decimal or with 0x, and an optional K, M, G or T (powers of 1024). Zero is valid. Returns
/// `None` if the text is not a number, or the number does not fit in 64 bits.
pub fn parse_scaled(text: &str) -> Option<u64> {
    let unit = UNITS.iter().find(|(_, unit)| text.ends_with([*unit, unit.to_ascii_lowercase()]));
    let (digits, shift) = unit.map_or((text, 0), |(shift, _)| (&text[..text.len() - 1], *shift));
    parse_number(digits)?.checked_mul(1 << shift)
}

/// Parses a number, decimal or with 0x.
fn parse_number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (text, 10),
    };
    // `from_str_radix` accepts a sign, which an address cannot have.
    u64::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'))
}

impl Window {
    /// Returns the keyword of the window. Returns `None` for a range, which is written as addresses.
    const fn word(&self) -> Option<&'static str> {
        match self {
            Window::All => Some("all"),
            Window::Memory => Some("memory"),
            Window::Configuration => Some("cfg"),
            Window::Range { .. } => None,
        }
    }

    /// Returns true if the window includes configuration.
    pub const fn has_configuration(&self) -> bool {
        matches!(self, Window::All | Window::Configuration)
    }

    /// Returns true if the window includes any address.
    const fn has_addresses(&self) -> bool {
        !matches!(self, Window::Configuration)
    }

    /// Returns true if the window contains all of `bytes` bytes from `address`.
    pub const fn contains(&self, address: u64, bytes: u64) -> bool {
        match *self {
            Window::All | Window::Memory => true,
            Window::Configuration => false,
            Window::Range { base, size } => match address.checked_sub(base) {
                Some(offset) => offset < size && bytes <= size - offset,
                None => false,
            },
        }
    }
}

impl FromStr for Window {
    type Err = AllowError;

    fn from_str(text: &str) -> Result<Window, AllowError> {
        for window in [Window::All, Window::Memory, Window::Configuration] {
            if window.word() == Some(text) {
                return Ok(window);
            }
        }
        let wrong = || AllowError::Window(text.to_owned());
        let (base, size) = text.split_once('+').ok_or_else(wrong)?;
        let base = parse_number(base).ok_or_else(wrong)?;
        let size = parse_size(size).map_err(|_| wrong())?;
        base.checked_add(size - 1).ok_or_else(wrong)?;
        Ok(Window::Range { base, size })
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Window::Range { base, size } = *self else { return f.write_str(self.word().unwrap_or_default()) };
        let unit = UNITS.iter().find(|(shift, _)| size.trailing_zeros() >= *shift);
        write!(f, "{base:#x}+{}", size >> unit.map_or(0, |(shift, _)| *shift))?;
        unit.map_or(Ok(()), |(_, unit)| write!(f, "{unit}"))
    }
}

impl FromStr for Directions {
    type Err = AllowError;

    fn from_str(text: &str) -> Result<Directions, AllowError> {
        match text {
            "r" => Ok(Directions { read: true, write: false }),
            "w" => Ok(Directions { read: false, write: true }),
            "rw" => Ok(Directions { read: true, write: true }),
            _ => Err(AllowError::Directions(text.to_owned())),
        }
    }
}

impl fmt::Display for Directions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.read, self.write) {
            (true, true) => "rw",
            (true, false) => "r",
            (false, true) => "w",
            (false, false) => "none",
        })
    }
}

/// Returns true if datagrams can come from this address: it is not unspecified, multicast or broadcast.
fn is_a_host(address: &IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_unspecified() || address.is_multicast() || is_broadcast)
}

impl FromStr for Rule {
    type Err = AllowError;

    fn from_str(text: &str) -> Result<Rule, AllowError> {
        let parts: Vec<&str> = text.split(',').collect();
        let [peer, window, directions] = parts[..] else { return Err(AllowError::Parts(text.to_owned())) };
        let address = peer.parse().map(|address: IpAddr| address.to_canonical()).ok();
        let peer = address.filter(is_a_host).ok_or_else(|| AllowError::Peer(peer.to_owned()))?;
        Ok(Rule { peer, window: window.parse()?, directions: directions.parse()? })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.peer, self.window, self.directions)
    }
}

/// A peer of an [`AllowList`], by its index: 0 to [`AllowList::len`] - 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Peer(usize);

impl Peer {
    /// Returns its index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0
    }
}

/// The rules, by peer. A request is allowed if one rule allows all of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AllowList {
    /// Sorted by address.
    peers: Vec<(IpAddr, Vec<(Window, Directions)>)>,
}

impl AllowList {
    /// Creates a list of these rules.
    ///
    /// # Errors
    /// If there are more than [`MAX_RULES`].
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Result<AllowList, AllowError> {
        let rules: Vec<Rule> = rules.into_iter().collect();
        if rules.len() > MAX_RULES {
            return Err(AllowError::Rules(rules.len()));
        }
        let mut list = AllowList::default();
        for rule in rules {
            let peer = rule.peer.to_canonical();
            let allowed = (rule.window, rule.directions);
            match list.peers.binary_search_by_key(&peer, |p| p.0) {
                Ok(at) => list.peers[at].1.push(allowed),
                Err(at) => list.peers.insert(at, (peer, vec![allowed])),
            }
        }
        Ok(list)
    }

    /// Returns the number of peers that have a rule.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Returns true if no peer is served.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Returns the addresses of all peers, sorted. An IPv4 address is never in its IPv6-mapped form.
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = IpAddr> + '_ {
        self.peers.iter().map(|p| p.0)
    }

    /// Returns the peer with this address; `None` if no rule names it.
    pub fn peer(&self, address: IpAddr) -> Option<Peer> {
        self.peers.binary_search_by_key(&address.to_canonical(), |p| p.0).ok().map(Peer)
    }

    /// Returns true if the peer may read all of `bytes` bytes from `address`.
    pub fn may_read(&self, peer: Peer, address: u64, bytes: u64) -> bool {
        self.allows(peer, |window, directions| directions.read && window.contains(address, bytes))
    }

    /// Returns true if the peer may write all of `bytes` bytes from `address`.
    pub fn may_write(&self, peer: Peer, address: u64, bytes: u64) -> bool {
        self.allows(peer, |window, directions| directions.write && window.contains(address, bytes))
    }

    /// Returns true if the peer may write configuration space and the adapter's registers. Every served peer may read them.
    pub fn may_configure(&self, peer: Peer) -> bool {
        self.allows(peer, |window, directions| directions.write && window.has_configuration())
    }

    /// Returns true if the peer may write at some address.
    pub fn is_writer(&self, peer: Peer) -> bool {
        self.allows(peer, |window, directions| directions.write && window.has_addresses())
    }

    /// Returns true if the peer may read at some address.
    pub fn is_reader(&self, peer: Peer) -> bool {
        self.allows(peer, |window, directions| directions.read && window.has_addresses())
    }

    fn allows(&self, peer: Peer, does: impl Fn(&Window, &Directions) -> bool) -> bool {
        self.peers.get(peer.0).is_some_and(|(_, rules)| rules.iter().any(|(w, d)| does(w, d)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rules_are_read_and_printed() {
        for (text, printed) in [
            ("127.0.0.2,all,rw", "127.0.0.2,all,rw"),
            ("127.0.0.2,memory,r", "127.0.0.2,memory,r"),
            ("127.0.0.2,cfg,w", "127.0.0.2,cfg,w"),
            ("::1,0+4096,r", "::1,0x0+4K,r"),
            ("::ffff:10.0.0.1,0x40000000+256m,w", "10.0.0.1,0x40000000+256M,w"),
            ("10.0.0.1,4096+3G,rw", "10.0.0.1,0x1000+3G,rw"),
            ("10.0.0.1,0x10+0x11,rw", "10.0.0.1,0x10+17,rw"),
            ("fd00::2,0xffffffffffffffff+1,r", "fd00::2,0xffffffffffffffff+1,r"),
        ] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), printed, "{text}");
        }
    }

    #[test]
    fn error_names_the_invalid_part_of_a_rule() {
        let owned = str::to_owned;
        for (text, error) in [
            ("127.0.0.2", AllowError::Parts(owned("127.0.0.2"))),
            ("127.0.0.2,all", AllowError::Parts(owned("127.0.0.2,all"))),
            ("127.0.0.2,all,rw,r", AllowError::Parts(owned("127.0.0.2,all,rw,r"))),
            ("localhost,all,r", AllowError::Peer(owned("localhost"))),
            ("0.0.0.0,all,r", AllowError::Peer(owned("0.0.0.0"))),
            ("::,all,r", AllowError::Peer(owned("::"))),
            ("255.255.255.255,all,r", AllowError::Peer(owned("255.255.255.255"))),
            ("ff02::1,all,r", AllowError::Peer(owned("ff02::1"))),
            ("127.0.0.2,All,r", AllowError::Window(owned("All"))),
            ("127.0.0.2,cfg+4,r", AllowError::Window(owned("cfg+4"))),
            ("127.0.0.2,0+0,r", AllowError::Window(owned("0+0"))),
            ("127.0.0.2,0xffffffffffffffff+2,r", AllowError::Window(owned("0xffffffffffffffff+2"))),
            ("127.0.0.2,0x0,r", AllowError::Window(owned("0x0"))),
            ("127.0.0.2,0++4,r", AllowError::Window(owned("0++4"))),
            ("127.0.0.2,all,", AllowError::Directions(String::new())),
            ("127.0.0.2,all,wr", AllowError::Directions(owned("wr"))),
        ] {
            assert_eq!(text.parse::<Rule>(), Err(error), "{text}");
        }
    }

    #[test]
    fn parses_sizes_with_units() {
        for (text, bytes) in [
            ("1", Some(1)),
            ("0x1F", Some(31)),
            ("4K", Some(4096)),
            ("256M", Some(256 << 20)),
            ("0x10k", Some(0x4000)),
            ("2t", Some(2 << 40)),
            ("16777215T", Some(0xff_ffff << 40)),
            ("16777216T", None),
            ("0xffffffffffffffff", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("0", None),
            ("", None),
            ("K", None),
            ("-1", None),
            ("+1", None),
            ("0x+1", None),
            ("1.5G", None),
            ("4KiB", None),
            ("4µ", None),
        ] {
            assert_eq!(parse_size(text).ok(), bytes, "{text}");
        }
        assert_eq!(parse_scaled("0"), Some(0));
    }

    #[test]
    fn request_is_allowed_if_one_rule_allows_all_of_it() {
        let rules = ["10.0.0.1,0x1000+4K,r", "10.0.0.1,0x2000+4K,rw", "10.0.0.2,all,w"];
        let list = AllowList::new(rules.map(|r| r.parse().unwrap())).unwrap();
        assert_eq!(list.peer("10.0.0.3".parse().unwrap()), None);
        assert_eq!(list.peer("::ffff:10.0.0.2".parse().unwrap()).map(Peer::index), Some(1));
        for (peer, address, bytes, read, write) in [
            ("10.0.0.1", 0x1000, 4096, true, false),
            ("10.0.0.1", 0xfff, 1, false, false),
            ("10.0.0.1", 0xffe, 4, false, false),
            ("10.0.0.1", 0x2ffc, 4, true, true),
            ("10.0.0.1", 0x2ffc, 5, false, false),
            ("10.0.0.1", 0x3000, 1, false, false),
            // Spans two windows. Each allows its part, but no rule allows all of it.
            ("10.0.0.1", 0x1ffc, 8, false, false),
            ("10.0.0.2", u64::MAX, 1, false, true),
        ] {
            let peer = list.peer(peer.parse().unwrap()).unwrap();
            assert_eq!(list.may_read(peer, address, bytes), read, "{address:#x}");
            assert_eq!(list.may_write(peer, address, bytes), write, "{address:#x}");
        }
    }

    #[test]
    fn too_many_rules_are_refused() {
        let rule: Rule = "10.0.0.1,all,r".parse().unwrap();
        assert!(AllowList::new([rule; MAX_RULES]).is_ok());
        assert_eq!(AllowList::new([rule; MAX_RULES + 1]), Err(AllowError::Rules(MAX_RULES + 1)));
    }

    proptest! {
        #[test]
        fn any_text_is_a_rule_or_an_error(text in "[0-9a-fx:.,+KMGTrwal]{0,40}") {
            if let Ok(rule) = text.parse::<Rule>() {
                prop_assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule));
            }
        }

        #[test]
        fn window_contains_only_ranges_between_its_ends(base: u64, size in 1..=u64::MAX, at: u64, bytes in 1..=4096_u64) {
            let base = base.min(u64::MAX - (size - 1));
            let window = Window::Range { base, size };
            let inside = at >= base
                && u128::from(at) + u128::from(bytes) <= u128::from(base) + u128::from(size);
            prop_assert_eq!(window.contains(at, bytes), inside);
            prop_assert_eq!(window.to_string().parse::<Window>(), Ok(window));
        }
    }
}
