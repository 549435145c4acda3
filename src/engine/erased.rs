//! How do user types of many kinds stand in one list? Traits with plain async methods are kept behind pointers here.

use std::future::Future;
use std::pin::Pin;

use super::chat::{ChatModel, ModelError, Reply, Request};
use super::critic::{Critic, CriticCx, CriticError, Opinion};

/// A future behind a pointer.
pub(super) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// [`Critic`] behind a pointer.
pub(super) trait DynCritic<D>: Send + Sync {
    fn name(&self) -> &str;
    fn judge<'a>(&'a self, step: CriticCx<'a, D>) -> Boxed<'a, Result<Opinion, CriticError>>;
}

impl<D: Sync, C: Critic<D>> DynCritic<D> for C {
    fn name(&self) -> &str {
        Critic::name(self)
    }

    fn judge<'a>(&'a self, step: CriticCx<'a, D>) -> Boxed<'a, Result<Opinion, CriticError>> {
        Box::pin(Critic::judge(self, step))
    }
}

/// [`ChatModel`] behind a pointer.
pub(super) trait DynModel: Send + Sync {
    fn name(&self) -> &str;
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        heard: &'a (dyn Fn(&str) + Send + Sync),
    ) -> Boxed<'a, Result<Reply, ModelError>>;
    fn context_window(&self) -> Option<u64>;
}

impl<M: ChatModel> DynModel for M {
    fn name(&self) -> &str {
        ChatModel::name(self)
    }

    fn complete<'a>(
        &'a self,
        request: &'a Request,
        heard: &'a (dyn Fn(&str) + Send + Sync),
    ) -> Boxed<'a, Result<Reply, ModelError>> {
        Box::pin(ChatModel::complete(self, request, heard))
    }

    fn context_window(&self) -> Option<u64> {
        ChatModel::context_window(self)
    }
}
