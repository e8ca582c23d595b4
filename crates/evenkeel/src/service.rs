//! What the service manager is told (sd_notify(3)): ready, status, alive, stopping.
//!
//! Principles: nobody is told anything where no service manager listens; alive is said only if the
//! loops that follow lines have done something since (`run::daemon`), not by a timer that beats whatever
//! happens. Non-goals: units (`packaging/evenkeel.service`).

use sd_notify::NotifyState;

/// Where the service manager listens.
const SOCKET: &str = "NOTIFY_SOCKET";

/// The service manager, if this is a service.
pub(crate) struct Service {
    listens: bool,
}

impl Service {
    /// As the environment says.
    pub(crate) fn from_environment() -> Self {
        Service {
            listens: std::env::var_os(SOCKET).is_some(),
        }
    }

    fn tell(&self, state: &[NotifyState<'_>]) {
        if self.listens {
            // Who does not hear it kills us in time and says so: there is nobody else to tell.
            let _ = sd_notify::notify(state);
        }
    }

    /// The start is over.
    pub(crate) fn ready(&self) {
        self.tell(&[NotifyState::Ready]);
    }

    /// What it does now, on one line.
    pub(crate) fn status(&self, text: &str) {
        self.tell(&[NotifyState::Status(&text.replace('\n', " "))]);
    }

    /// It works.
    pub(crate) fn alive(&self) {
        self.tell(&[NotifyState::Watchdog]);
    }

    /// It is about to end.
    pub(crate) fn stopping(&self) {
        self.tell(&[NotifyState::Stopping]);
    }
}
