// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results compared, scored and drawn: by small sets made here, whose numbers follow by hand, and by the published
//! measurements where they are there.

mod comparing;
mod drawing;
mod made;
mod scoring;
