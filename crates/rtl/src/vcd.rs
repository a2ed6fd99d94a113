// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the waves (value change dumps) of two runs of one design: which signals differ, and from which time on.

use std::collections::HashMap;
use std::io::{self, BufRead};

/// Comparison of a signal in two runs, up to a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Compared {
    /// The values differed at some time.
    pub(crate) ever: bool,
    /// The values differed all the time.
    pub(crate) always: bool,
}

/// A dump being read.
struct Dump<R> {
    lines: io::Lines<R>,
    /// Time of the next changes; `None` at the end.
    time: Option<u64>,
}

/// Compares two dumps of the same signals before a time in picoseconds. Returns each signal by its full name: the names
/// of its scopes and its own name with dots in between, without ranges and indices.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn compare<R: BufRead>(dumps: [R; 2], before_ps: u64) -> io::Result<Vec<(String, Compared)>> {
    let [a, b] = dumps;
    let (mut names, mut codes) = (Vec::new(), HashMap::new());
    let mut dumps =
        [Dump::begin(a, &mut names, &mut codes)?, Dump::begin(b, &mut Vec::new(), &mut HashMap::new())?];
    let mut values = [vec![String::new(); codes.len()], vec![String::new(); codes.len()]];
    let mut compared = vec![Compared { ever: false, always: true }; codes.len()];
    let mut touched = Vec::new();
    while let Some(now) = dumps.iter().filter_map(|dump| dump.time).min().filter(|now| *now < before_ps) {
        touched.clear();
        for (dump, values) in dumps.iter_mut().zip(&mut values) {
            if dump.time == Some(now) {
                dump.changes(|code, value| {
                    if let Some(signal) = codes.get(code) {
                        values[*signal] = value.to_owned();
                        touched.push(*signal);
                    }
                })?;
            }
        }
        for signal in &touched {
            let differs = values[0][*signal] != values[1][*signal];
            compared[*signal].ever |= differs;
            compared[*signal].always &= differs;
        }
    }
    Ok(names.into_iter().map(|(name, signal)| (name, compared[signal])).collect())
}

impl<R: BufRead> Dump<R> {
    /// Reads the declarations.
    fn begin(
        from: R,
        names: &mut Vec<(String, usize)>,
        codes: &mut HashMap<String, usize>,
    ) -> io::Result<Dump<R>> {
        let (mut lines, mut scopes) = (from.lines(), Vec::<String>::new());
        for line in lines.by_ref() {
            let line = line?;
            let mut words = line.split_whitespace();
            match words.next() {
                Some("$scope") => scopes.push(words.nth(1).unwrap_or_default().to_owned()),
                Some("$upscope") => _ = scopes.pop(),
                Some("$var") => {
                    let (Some(code), Some(name)) = (words.nth(2), words.next()) else { continue };
                    let next = codes.len();
                    let signal = *codes.entry(code.to_owned()).or_insert(next);
                    let name = name.split('[').next().unwrap_or_default();
                    names.push((format!("{}.{name}", scopes.join(".")), signal));
                }
                Some("$enddefinitions") => break,
                _ => {}
            }
        }
        let mut dump = Dump { lines, time: None };
        dump.changes(|_, _| {})?;
        Ok(dump)
    }

    /// Reads changes up to the next time, each with its signal's code.
    fn changes(&mut self, mut change: impl FnMut(&str, &str)) -> io::Result<()> {
        self.time = None;
        for line in self.lines.by_ref() {
            let line = line?;
            let Some(first) = line.chars().next() else { continue };
            match first {
                '#' => {
                    self.time = line[1..].trim().parse().ok();
                    break;
                }
                'b' | 'B' | 'r' | 'R' => {
                    let (value, code) = line[1..].split_once(' ').unwrap_or_default();
                    change(code.trim(), value);
                }
                '$' => {}
                _ => change(line[first.len_utf8()..].trim(), &line[..first.len_utf8()]),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "$timescale 1ps $end\n$scope module t $end\n$var wire 1 ! a $end\n$scope module u $end\n\
        $var logic 8 \" b[3] [7:0] $end\n$var wire 1 ! c $end\n$upscope $end\n$upscope $end\n$enddefinitions $end\n";

    #[test]
    fn signals_are_compared_until_a_time() {
        let one = format!("{HEAD}#0\n$dumpvars\n0!\nb00000001 \"\n$end\n#10\n1!\n#30\nb00000011 \"\n");
        let other = format!("{HEAD}#0\n1!\nb00000010 \"\n#20\n#25\n0!\n#40\nb00000011 \"\n");
        let at = |before: u64| {
            let all = compare([one.as_bytes(), other.as_bytes()], before).unwrap();
            all.into_iter().map(|(name, c)| (name, c.ever, c.always)).collect::<Vec<_>>()
        };
        let (a, b, c) = ("t.a".to_owned(), "t.u.b".to_owned(), "t.u.c".to_owned());
        assert_eq!(at(10), [(a.clone(), true, true), (b.clone(), true, true), (c.clone(), true, true)]);
        assert_eq!(at(40), [(a.clone(), true, false), (b.clone(), true, true), (c.clone(), true, false)]);
        assert_eq!(at(41), [(a, true, false), (b, true, false), (c, true, false)]);
        assert!(compare([&b"\xff"[..], b""], 1).is_err());
    }
}
