// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters with names: one list gives the fields, their names and their sums. Never counts by itself.

/// Makes a struct of `u64` counters, each with its documentation.
macro_rules! counters {
    (
        $(#[$doc:meta])*
        pub struct $name:ident { $( $(#[$field_doc:meta])* $field:ident, )* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name { $( $(#[$field_doc])* pub $field: u64, )* }

        impl $name {
            /// Each counter by its name, in the order of the fields.
            pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$( (stringify!($field), self.$field), )*].into_iter()
            }

            /// Adds what another one has counted.
            pub fn add(&mut self, other: &$name) {
                $( self.$field += other.$field; )*
            }
        }
    };
}

pub(crate) use counters;

#[cfg(test)]
mod tests {
    use crate::completer::CompleterCounters;

    #[test]
    fn counters_have_names_and_sums() {
        let mut sum = CompleterCounters { reads: 1, messages: 2, ..CompleterCounters::default() };
        sum.add(&CompleterCounters { reads: 10, poisoned: 5, ..CompleterCounters::default() });
        let counted: Vec<_> = sum.rows().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [("reads", 11), ("poisoned", 5), ("messages", 2)]);
    }
}
