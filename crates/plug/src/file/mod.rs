// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads TOML files as types, and reports all errors with their places. Each type defines its legal values once,
//! for the reader, its errors and the reference pages.

mod digest;
mod error;
mod folder;
mod json;
mod overrides;
mod page;
mod schema;
mod source;

pub use digest::{digest, hash};
pub use error::{FileError, FileErrors, brief, text_of};
pub use folder::{Folder, Image, KeptFiles, MAX_KEPT_BYTES, MAX_KEPT_FILES};
pub use overrides::{Overrides, key_path};
pub use page::{Page, Section, cell};
pub use schema::Schema;
pub use source::{Source, Tree, Unread, place_of};
