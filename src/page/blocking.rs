//! Runs work that may wait for the disk on tokio's blocking threads.

use tokio::sync::oneshot;

use super::error::WebError;

/// Runs `work` on a blocking thread, so that it delays no other request. A panic in it becomes a
/// fault of board.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, WebError> {
    let (sender, receiver) = oneshot::channel();
    // Boxed, because tokio compiles its task once per type of work.
    let work: Box<dyn FnOnce() + Send> = Box::new(move || drop(sender.send(work())));
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| WebError::fault(&error))?;
    receiver.await.map_err(|error| WebError::fault(&error))
}
