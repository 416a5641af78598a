//! A door's verbs as data. Each door is one list of verbs, and from the list come
//!
//! - the request and the answer, two enums with a variant for each verb,
//! - the door itself, a trait with one method that takes a request: whoever stands around a store
//!   (faults, telemetry, a test) writes that one method,
//! - the typed calls that everybody else makes, as methods of `dyn Door`,
//! - the trait with a typed method for each verb that a store implements; it is a door by itself.
//!
//! A call costs what it cost before there were requests: one boxed future, of the size that its verb
//! needs.

use std::pin::Pin;

use crate::error::{StoreError, StoreResult};

/// A call that is under way once it is awaited.
pub type DoorCall<'a, A> = Pin<Box<dyn Future<Output = StoreResult<A>> + Send + 'a>>;

/// What a caller gives, as a request keeps it.
pub(crate) trait IntoRequest<T> {
    fn into_request(self) -> T;
}

impl IntoRequest<String> for &str {
    fn into_request(self) -> String {
        self.to_owned()
    }
}

impl IntoRequest<Option<String>> for Option<&str> {
    fn into_request(self) -> Option<String> {
        self.map(str::to_owned)
    }
}

impl<T: Clone> IntoRequest<Vec<T>> for &[T] {
    fn into_request(self) -> Vec<T> {
        self.to_vec()
    }
}

/// Whoever stands around a store gave the answer to another verb.
pub(crate) fn mismatch(asked: &str, answered: &str) -> StoreError {
    StoreError::unknown(format!("'{asked}' was answered as '{answered}'"))
}

/// The type in which a caller gives an argument.
macro_rules! given {
    ($given:ty) => {
        $given
    };
    ($given:ty, $kept:ty) => {
        $given
    };
}

/// The type in which a request keeps it.
macro_rules! kept {
    ($given:ty) => {
        $given
    };
    ($given:ty, $kept:ty) => {
        $kept
    };
}

/// An argument as a request keeps it.
macro_rules! keep {
    ($arg:ident) => {
        $arg
    };
    ($arg:ident, $kept:ty) => {
        <_ as $crate::door::IntoRequest<$kept>>::into_request($arg)
    };
}

/// A door, from the list of its verbs: `async fn verb as Variant(argument:
/// Given => Kept) -> StoreResult<Reply>;`. What is listed under `plain` has no request: it answers at once and cannot fail.
macro_rules! door {
    (
        $(#[$about:meta])*
        door $Door:ident, verbs $Verbs:ident, request $Request:ident, answer $Answer:ident;
        plain { $( $(#[$plain_about:meta])* fn $plain:ident(&self) -> $Plain:ty; )* }
        verbs {
            $(
                $(#[$verb_about:meta])*
                async fn $verb:ident as $Variant:ident(
                    $($arg:ident: $Given:ty $(=> $Kept:ty)?),* $(,)?
                ) -> StoreResult<$Reply:ty>;
            )*
        }
    ) => {
        $(#[$about])*
        pub trait $Door: Send + Sync {
            /// Carry a request out. Nothing happens before the answer is awaited.
            fn call(&self, request: $Request) -> $crate::door::DoorCall<'_, $Answer>;
            $( $(#[$plain_about])* fn $plain(&self) -> $Plain; )*
        }

        /// A call of a verb, as data.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum $Request {
            $( $(#[$verb_about])* $Variant { $($arg: $crate::door::kept!($Given $(, $Kept)?)),* }, )*
        }

        /// The answer to a call.
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[allow(clippy::large_enum_variant, reason = "the hot verbs answer with small ones")]
        pub enum $Answer {
            $( $Variant($Reply), )*
        }

        impl $Request {
            /// The verb, as the method is named: `commit`.
            pub const fn verb(&self) -> &'static str {
                match self { $( Self::$Variant { .. } => stringify!($verb), )* }
            }
        }

        impl $Answer {
            /// The verb that it answers.
            pub const fn verb(&self) -> &'static str {
                match self { $( Self::$Variant(_) => stringify!($verb), )* }
            }
        }

        impl<'d> dyn $Door + 'd {
            $(
                $(#[$verb_about])*
                pub fn $verb<'c>(
                    &'c self,
                    $($arg: $crate::door::given!($Given $(, $Kept)?)),*
                ) -> impl Future<Output = $crate::error::StoreResult<$Reply>> + Send + use<'c, 'd> {
                    let call = self.call($Request::$Variant {
                        $($arg: $crate::door::keep!($arg $(, $Kept)?)),*
                    });
                    async move {
                        match call.await? {
                            $Answer::$Variant(reply) => Ok(reply),
                            other => Err($crate::door::mismatch(stringify!($verb), other.verb())),
                        }
                    }
                }
            )*
        }

        /// What a store implements: a method for each verb. It is a door by itself.
        pub trait $Verbs: Send + Sync {
            $(
                $(#[$verb_about])*
                fn $verb(
                    &self,
                    $($arg: $crate::door::kept!($Given $(, $Kept)?)),*
                ) -> impl Future<Output = $crate::error::StoreResult<$Reply>> + Send;
            )*
            $( $(#[$plain_about])* fn $plain(&self) -> $Plain; )*
        }

        impl<S: $Verbs> $Door for S {
            fn call(&self, request: $Request) -> $crate::door::DoorCall<'_, $Answer> {
                match request {
                    $(
                        $Request::$Variant { $($arg),* } => Box::pin(async move {
                            $Verbs::$verb(self, $($arg),*).await.map($Answer::$Variant)
                        }),
                    )*
                }
            }

            $( fn $plain(&self) -> $Plain { $Verbs::$plain(self) } )*
        }
    };
}

pub(crate) use {door, given, keep, kept};
