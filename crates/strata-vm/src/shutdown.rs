//! How a guest is stopped: by request, by another request, then by force.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::{Event, Qmp, QmpError};

/// How often the button is pressed: a guest that is still booting ignores it,
/// and one that is shutting down is not harmed.
const RETRY_INTERVAL: Duration = Duration::from_secs(3);
/// How long QEMU may take to close its disks and end.
const QUIT: Duration = Duration::from_secs(10);

/// How a guest came to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It switched itself off.
    ByItself,
    /// Its plug was pulled when the time was up.
    Pulled,
}

/// Presses the guest's power button and gives it `grace` to switch itself
/// off; then ends QEMU. On an error it may still run: end its cell.
///
/// Returns when QEMU has hung up, a moment before its process is gone.
pub async fn shut_down(qmp: &Qmp, grace: Duration) -> Result<Stopped, QmpError> {
    let deadline = Instant::now() + grace;
    let mut events = qmp.events();
    // A guest whose cpus are stopped does not see the button.
    if !qmp.status().await?.running {
        match qmp.resume().await {
            // One that cannot go on will not switch itself off, either.
            Ok(()) | Err(QmpError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let mut is_off = false;
    while !is_off && Instant::now() < deadline {
        match qmp.press_power_button().await {
            Ok(()) => {}
            // It was faster.
            Err(QmpError::Closed) => return Ok(Stopped::ByItself),
            Err(error) => return Err(error),
        }
        let until = deadline.min(Instant::now() + RETRY_INTERVAL);
        is_off = timeout_at(until, hears_of_shutdown(&mut events))
            .await
            .is_ok();
    }
    if !is_off {
        match qmp.quit().await {
            Ok(()) | Err(QmpError::Closed) => {}
            Err(error) => return Err(error),
        }
    }
    let ended = timeout_at(Instant::now() + QUIT, qmp.ended()).await;
    match ended {
        Ok(QmpError::Closed) if is_off => Ok(Stopped::ByItself),
        Ok(QmpError::Closed) => Ok(Stopped::Pulled),
        Ok(why) => Err(why),
        Err(_) => Err(QmpError::NoAnswer {
            command: "quit",
            within: QUIT,
        }),
    }
}

/// Returns at the guest's end, or that of the connection.
async fn hears_of_shutdown(events: &mut crate::Events) {
    while let Some(event) = events.next().await {
        if matches!(event, Event::Shutdown { .. }) {
            return;
        }
    }
}
