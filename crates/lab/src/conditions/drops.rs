//! What evenkeel says that it dropped. Non-goals: what the line dropped.

use evenkeel_kernel::{StateDir, status};

use crate::shaper::{Dropped, ShaperError};

/// What was dropped on `device`, by its own account.
pub(super) fn dropped(dir: &StateDir, device: &str) -> Result<Dropped, ShaperError> {
    let all = status(dir, Some(device))?;
    Ok(Dropped {
        packets: all.iter().map(|s| s.up.dropped + s.down.dropped).sum(),
        acks: all.iter().find_map(|s| s.policed.map(|p| p.dropped_acks)),
    })
}
