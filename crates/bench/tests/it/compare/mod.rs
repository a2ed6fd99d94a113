// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Comparison, scores and drawings of results: small generated sets, whose numbers are checked by hand, and the
//! published measurements if they are available.

mod comparing;
mod drawing;
mod made;
mod scoring;
