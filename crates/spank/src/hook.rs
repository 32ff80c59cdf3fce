//! What every hook is wrapped in.

use std::fmt::Display;
use std::os::raw::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::handle;

/// What a hook returns when all is well.
pub const SUCCESS: c_int = 0;
/// What a hook returns when its step must not go on. It is negative, because up to Slurm 24.11 slurmstepd and `srun` take any other
/// number, `ESPANK_ERROR` too, for success. Only a `required` plugin stops a step.
pub const ERROR: c_int = -1;

/// Runs what a hook does. An error is logged with the name of the plugin; so is a panic, which must not reach Slurm.
pub fn guarded<E: Display>(plugin: &str, hook: impl FnOnce() -> Result<(), E>) -> c_int {
    // Nothing that the hook has half done is looked at again: its step ends.
    match catch_unwind(AssertUnwindSafe(hook)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(error)) => {
            handle::log_error(&format!("{plugin}: {error}"));
            ERROR
        }
        Err(_) => {
            handle::log_error(&format!("{plugin}: a bug in the plugin; its message is above"));
            ERROR
        }
    }
}

/// The symbols by which Slurm knows a plugin.
#[macro_export]
macro_rules! plugin {
    ($name:literal) => {
        /// The name of the plugin.
        // SAFETY: Slurm looks it up under this name, and no other symbol of the plugin has it.
        #[unsafe(no_mangle)]
        pub static plugin_name: [u8; concat!($name, "\0").len()] = $crate::hook::bytes(concat!($name, "\0"));
        /// The kind of the plugin.
        // SAFETY: as above.
        #[unsafe(no_mangle)]
        pub static plugin_type: [u8; 6] = *b"spank\0";
        /// The Slurm that it was made for.
        // SAFETY: as above.
        #[unsafe(no_mangle)]
        pub static plugin_version: u32 = $crate::version::SLURM_VERSION_NUMBER;
        /// The version of the plugin itself.
        // SAFETY: as above.
        #[unsafe(no_mangle)]
        pub static spank_plugin_version: u32 = 1;
    };
}

/// The bytes of a text, for the macro above.
#[must_use]
pub const fn bytes<const N: usize>(text: &str) -> [u8; N] {
    let (mut bytes, source, mut index) = ([0; N], text.as_bytes(), 0);
    while index < N {
        bytes[index] = source[index];
        index += 1;
    }
    bytes
}
