//! What the daemon answers.
//!
//! Principles: what only reads is answered by the client's own thread, so that nobody waits for another; what changes
//! something goes to the daemon's, one after the other. Non-goals: who may (`evenkeel-socket`).

use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use evenkeel_kernel::StateDir;
use evenkeel_socket::{Reply, Request};
use evenkeel_terminal::Failure;
use serde::Serialize;

use crate::flows::Looks;
use crate::history::{POINTS, Span};
use crate::{gateway, history, usage};

/// An order is carried out within this.
const PATIENCE: Duration = Duration::from_secs(55);

/// Something to be done, and where its answer goes.
pub(crate) struct Order {
    pub(crate) request: Request,
    pub(crate) reply: Sender<Reply>,
}

/// Answers.
pub(crate) struct Answers {
    dir: StateDir,
    history: PathBuf,
    looks: Looks,
    orders: Sender<Order>,
}

impl Answers {
    pub(crate) fn new(dir: StateDir, history: PathBuf, orders: Sender<Order>) -> Self {
        Answers {
            dir,
            history,
            looks: Looks::default(),
            orders,
        }
    }

    pub(crate) fn answer(&self, request: Request) -> Reply {
        match request {
            Request::Status { device } => said(gateway::look(&self.dir, device.as_deref())),
            Request::Flows { device, all } => {
                said(self.looks.list(&self.dir, device.as_deref(), all))
            }
            Request::History {
                device,
                from,
                to,
                points,
                at,
            } => {
                let points = points.min(POINTS);
                let span = Span {
                    from,
                    to,
                    points,
                    at,
                };
                said(history::read(&self.history, device.as_deref(), &span))
            }
            Request::Usage { device } => said(usage::read(&self.history, device.as_deref())),
            // That it is the token was found out before.
            Request::Check { .. } => Reply::done("this is the token"),
            order @ (Request::Clear { .. }
            | Request::Set { .. }
            | Request::Move { .. }
            | Request::Quiet { .. }
            | Request::Pause { .. }
            | Request::Resume { .. }
            | Request::Reload { .. }) => self.order(order),
        }
    }

    fn order(&self, request: Request) -> Reply {
        let (reply, answer) = channel();
        let ends = || Reply::refused(1, "the daemon is about to end");
        if self.orders.send(Order { request, reply }).is_err() {
            return ends();
        }
        answer.recv_timeout(PATIENCE).unwrap_or_else(|_| ends())
    }
}

fn said<T: Serialize>(result: Result<T, Failure>) -> Reply {
    match result {
        Ok(shown) => Reply::done(shown),
        Err(e) => Reply::refused(e.code(), e),
    }
}
