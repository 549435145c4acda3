//! Defines the type of boxed futures.

use std::future::Future;
use std::pin::Pin;

/// A boxed future.
pub(super) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
