//! Which type stands for a future of many kinds?

use std::future::Future;
use std::pin::Pin;

/// A future behind a pointer.
pub(super) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
