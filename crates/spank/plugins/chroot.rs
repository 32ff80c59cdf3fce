//! `chroot.so`: jobs run inside the jail. `required chroot.so /mnt/jail` in plugstack.conf.
#![allow(unsafe_code, reason = "Slurm calls by symbols and pointers; each block says why it is sound")]
#![allow(non_upper_case_globals, reason = "Slurm gives the names")]

use std::ffi::{c_char, c_int, c_void};

use spank::handle::{self, Handle};
use spank::{hook, jail};

const NAME: &str = "chroot.so";

spank::plugin!("chroot");

/// Runs when a step's options are known and before anything of the user's runs. slurmstepd is at this point about to open the job's
/// files and to start its tasks, all in the thread that calls; so these see the jail, and slurmstepd's other threads do not.
///
/// In other programs than slurmstepd nothing happens: who calls `srun` is in the jail already.
///
/// # Safety
///
/// Slurm calls it, with what it passes to every hook.
// SAFETY: Slurm looks it up under this name, and no other symbol of the plugin has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slurm_spank_init_post_opt(
    raw: *mut c_void,
    count: c_int,
    words: *const *const c_char,
) -> c_int {
    hook::guarded(NAME, || {
        if !handle::is_in_slurmstepd() {
            return Ok(());
        }
        // SAFETY: they are the arguments of this hook, and are not kept.
        let (handle, arguments) = unsafe { (Handle::new(raw), handle::arguments(count, words)) };
        let step = handle.step().map_err(|error| error.to_string())?;
        if !jail::is_inside(step) {
            return Ok(());
        }
        let directory = jail::directory(&arguments).map_err(|error| error.to_string())?;
        jail::enter(&directory).map_err(|error| error.to_string())
    })
}
