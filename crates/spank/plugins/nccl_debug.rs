//! `spanknccldebug.so`: the logs of NCCL, collected per node and step.
#![allow(unsafe_code, reason = "Slurm calls by symbols and pointers; each block says why it is sound")]
#![allow(non_upper_case_globals, reason = "Slurm gives the names")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use spank::handle::{self, Handle, UserOption};
use spank::hook;
use spank::nccl::output::{Plan, Task};
use spank::nccl::{Key, Settings};

const NAME: &str = "spanknccldebug.so";
const NCCL_DEBUG: &CStr = c"NCCL_DEBUG";
const NCCL_DEBUG_FILE: &CStr = c"NCCL_DEBUG_FILE";

spank::plugin!("nccl_debug");

/// What users said by options, in the order in which they said it.
static SAID: Mutex<Vec<(Key, String)>> = Mutex::new(Vec::new());

/// Runs in all programs: users may say options to each, and slurmstepd hears them.
///
/// # Safety
///
/// Slurm calls it, with what it passes to every hook.
// SAFETY: Slurm looks it up under this name, and no other symbol of the plugin has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slurm_spank_init(
    raw: *mut c_void,
    count: c_int,
    words: *const *const c_char,
) -> c_int {
    hook::guarded(NAME, || {
        // SAFETY: they are the arguments of this hook, and are not kept.
        let (handle, arguments) = unsafe { (Handle::new(raw), handle::arguments(count, words)) };
        Settings::from_arguments(&arguments).map_err(|error| error.to_string())?;
        for (number, key) in (0..).zip(Key::ALL) {
            let (name, value, usage) = key.option();
            let option = UserOption { name, value, usage, number };
            handle.register(&option, on_option).map_err(|error| error.to_string())?;
        }
        Ok::<(), String>(())
    })
}

/// Slurm calls it with the value of an option.
///
/// # Safety
///
/// The value is null, or ends with a zero.
unsafe extern "C" fn on_option(number: c_int, value: *const c_char, _remote: c_int) -> c_int {
    hook::guarded(NAME, || {
        // SAFETY: Slurm passes the text that the user wrote.
        let value = unsafe { handle::text(value) };
        let key = usize::try_from(number).ok().and_then(|number| Key::ALL.get(number).copied());
        let key = key.ok_or_else(|| "an option that was not registered".to_string())?;
        let name = format!("--{}", key.option().0.to_string_lossy());
        // A mistake is told where it is made.
        Settings::default().say(key, &name, &value).map_err(|error| error.to_string())?;
        SAID.lock().unwrap_or_else(PoisonError::into_inner).push((key, value));
        Ok::<(), String>(())
    })
}

/// Runs in each task, as its user, just before its program. What cannot be done is told, and the task goes on: it is only about
/// logs.
///
/// # Safety
///
/// Slurm calls it, with what it passes to every hook.
// SAFETY: Slurm looks it up under this name, and no other symbol of the plugin has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slurm_spank_task_init(
    raw: *mut c_void,
    count: c_int,
    words: *const *const c_char,
) -> c_int {
    hook::guarded(NAME, || {
        // SAFETY: they are the arguments of this hook, and are not kept.
        let (handle, arguments) = unsafe { (Handle::new(raw), handle::arguments(count, words)) };
        if let Err(error) = collect(&handle, &arguments) {
            handle::log_error(&format!("{NAME}: the logs of NCCL are not collected: {error}"));
        }
        Ok::<(), String>(())
    })
}

/// Runs in slurmstepd when a task has ended, and before the processes that are left of the step are ended, too.
///
/// # Safety
///
/// Slurm calls it, with what it passes to every hook.
// SAFETY: Slurm looks it up under this name, and no other symbol of the plugin has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slurm_spank_task_exit(
    raw: *mut c_void,
    _count: c_int,
    _words: *const *const c_char,
) -> c_int {
    hook::guarded(NAME, || {
        // SAFETY: it is the argument of this hook, and is not kept.
        let handle = unsafe { Handle::new(raw) };
        task(&handle, String::new())?.finish();
        Ok::<(), String>(())
    })
}

fn task(handle: &Handle, node: String) -> Result<Task, String> {
    let number = |number: Result<u32, handle::CallError>| number.map_err(|error| error.to_string());
    Ok(Task { node, job: number(handle.job())?, step: number(handle.step())?, task: number(handle.task())? })
}

fn collect(handle: &Handle, arguments: &[String]) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let mut settings = Settings::from_arguments(arguments).map_err(|error| told(&error))?;
    for key in Key::ALL {
        if let Some(value) = handle.variable(key.variable()).map_err(|error| told(&error))? {
            settings.say(key, &key.variable().to_string_lossy(), &value).map_err(|error| told(&error))?;
        }
    }
    for (key, value) in SAID.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        settings.say(*key, key.argument(), value).map_err(|error| told(&error))?;
    }
    if !settings.enabled {
        return Ok(());
    }
    let variable = |name| handle.variable(name).map_err(|error| told(&error));
    let asked = variable(NCCL_DEBUG)?.is_some();
    let users_file = variable(NCCL_DEBUG_FILE)?.filter(|file| !file.is_empty());
    let task = task(handle, variable(c"SLURMD_NODENAME")?.unwrap_or_else(|| "node".into()))?;
    let plan = Plan::new(&settings, &task, users_file.as_deref(), asked);
    plan.carry_out().map_err(|error| told(&error))?;
    handle.set_variable(NCCL_DEBUG, Some(settings.log_level.as_str())).map_err(|error| told(&error))?;
    let file = plan.variable();
    if file.is_some() || users_file.is_some() {
        handle.set_variable(NCCL_DEBUG_FILE, file.as_deref()).map_err(|error| told(&error))?;
    }
    Ok(())
}
