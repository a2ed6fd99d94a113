// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters with names: one list defines the fields, their names and their sums.

/// Declares a struct of public `u64` counters, each with its documentation. `rows` returns their names and values, and `add`
/// sums them.
///
/// ```
/// riser_device::counters! {
///     /// Counters of a mill.
///     pub struct MillCounters {
///         /// Sacks delivered.
///         sacks,
///         /// Wet sacks.
///         wet,
///     }
/// }
/// let mut sum = MillCounters { sacks: 3, wet: 1 };
/// sum.add(&MillCounters { sacks: 4, ..MillCounters::default() });
/// assert_eq!(sum.rows().collect::<Vec<_>>(), [("sacks", 7), ("wet", 1)]);
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[$doc:meta])*
        pub struct $name:ident { $( $(#[$field_doc:meta])* $field:ident, )* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name { $( $(#[$field_doc])* pub $field: u64, )* }

        impl $name {
            /// Returns name and value of each counter, in the order of the fields.
            pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$( (stringify!($field), self.$field), )*].into_iter()
            }

            /// Adds the counters of `other`.
            pub fn add(&mut self, other: &$name) {
                $( self.$field += other.$field; )*
            }
        }
    };
}
