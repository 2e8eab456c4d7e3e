//! Panics as values: caught at the edge of a task, with their message.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

/// What a panic carries.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Runs `future` to its end or to its panic. Nothing of the future is used
/// after a panic, so nothing broken is seen; what it shares with other tasks is
/// theirs to keep usable.
///
/// Not an `async fn`: that would hold the future twice, as its argument and
/// where it is awaited, and there are as many of these as connections.
pub(crate) fn catch<F: Future>(
    future: F,
) -> impl Future<Output = Result<F::Output, Payload>> + use<F> {
    AssertUnwindSafe(future).catch_unwind()
}

/// The text of a panic.
pub(crate) fn message(payload: &Payload) -> &str {
    let text = payload.downcast_ref::<&'static str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panic without a message")
}

/// Writes every panic of the process with its place to the log, those of
/// threads too. Which task it was, and what follows, is the next line.
pub fn log_all_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("panic without a message");
        let location = panic.location().map(ToString::to_string);
        let thread = std::thread::current();
        tracing::error!(
            location = location.unwrap_or_default(),
            thread = thread.name().unwrap_or_default(),
            "panic: {message}"
        );
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn message_of_a_panic_is_its_text() {
        let literal = catch(async { panic!("one") }).await;
        let literal: Payload = literal.map(|(): ()| ()).unwrap_err();
        assert_eq!(message(&literal), "one");
        let number = 2;
        let formatted = catch(async { panic!("{number}") }).await;
        let formatted: Payload = formatted.map(|(): ()| ()).unwrap_err();
        assert_eq!(message(&formatted), "2");
        let other = catch(async { std::panic::panic_any(3) }).await;
        let other: Payload = other.map(|(): ()| ()).unwrap_err();
        assert_eq!(message(&other), "panic without a message");
    }
}
