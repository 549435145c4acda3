//! Where does work happen that may wait for the disk? On the threads that tokio has for it.

use tokio::sync::oneshot;

use super::error::WebError;

/// Does `work` where it keeps no other request waiting; a panic in it is a fault of the board.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, WebError> {
    let (sender, receiver) = oneshot::channel();
    // One type for all work: tokio compiles its task anew for each.
    let work: Box<dyn FnOnce() + Send> = Box::new(move || drop(sender.send(work())));
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| WebError::fault(&error))?;
    receiver.await.map_err(|error| WebError::fault(&error))
}
