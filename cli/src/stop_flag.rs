//! The flag that an interrupt sets, for commands that end early with what they have.

use crate::fail::{Run, fail_bad_input};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that SIGINT and SIGTERM set. A second signal ends the process at once.
pub fn stop_flag() -> Run<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The conditional exit is registered first: it reads the flag before this signal sets it.
        signal_hook::flag::register_conditional_shutdown(signal, 1, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .map_err(|e| fail_bad_input(format!("signal handler: {e}")))?;
    }
    Ok(stop)
}
