//! How does QitOS write a trace? Three files in a directory, in three layouts that all call themselves `v1`.

/// Defines structs of the members of an object that are read, each as JSON text; of a repeated one the last counts.
macro_rules! fields {
    ($(struct $name:ident { $($field:ident),* $(,)? })*) => { $(
        #[derive(Debug, Clone, Copy, Default)]
        struct $name<'a> {
            $($field: Option<&'a str>,)*
            /// How many members there are, with those that are not read.
            #[allow(dead_code, reason = "few ask for it")]
            members: usize,
        }

        impl<'a> $name<'a> {
            #[allow(dead_code, reason = "the outermost object is taken in member by member")]
            fn of(object: &'a str) -> Self {
                let mut out = Self::default();
                for (key, value) in crate::model::json::walk::members(object) {
                    out.members += 1;
                    if let Some(key) = crate::model::json::walk::string(key) {
                        out.take(&key, value);
                    }
                }
                out
            }

            /// Takes a member in; whether it replaces one.
            fn take(&mut self, key: &str, value: &'a str) -> bool {
                $(if key == stringify!($field) {
                    return self.$field.replace(value).is_some();
                })*
                false
            }
        }
    )* };
}

mod event;
mod step;

pub(crate) use event::read as event_head;
pub(crate) use step::read as step;
