// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A writer whose bytes a test can read. Never a file.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

/// Bytes in memory, shared by all clones.
#[derive(Clone, Default)]
pub struct Bytes(pub Rc<RefCell<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
