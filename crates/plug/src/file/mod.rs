// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TOML files as types: read with all their errors, each at its place. What is legal is said once, at the type, for
//! the reader, its errors and the reference pages.

mod digest;
mod error;
mod folder;
mod overrides;
mod page;
mod schema;
mod source;

pub use digest::{digest, hash};
pub use error::{FileError, FileErrors, brief};
pub use folder::{Folder, Image, KeptFiles, MAX_KEPT_BYTES, MAX_KEPT_FILES};
pub use overrides::{Overrides, key_path};
pub use page::{Page, cell};
pub use schema::Schema;
pub use source::{Source, Tree, Unread, place_of};
