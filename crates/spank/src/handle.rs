//! The few calls of Slurm that plugins make, as `slurm/spank.h` of 24.11 and 26.05 declares them.
#![allow(unsafe_code, reason = "Slurm is written in C; each block says why it is sound")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;

use crate::abi::{
    ESPANK_ENV_NOEXIST, ESPANK_NOSPACE, OptionCallback, RawOption, S_CTX_REMOTE, S_JOB_ID, S_JOB_STEPID,
    S_TASK_GLOBAL_ID,
};

// SAFETY: the declarations are those of slurm/spank.h. The plugin is only ever loaded by programs that have these symbols.
unsafe extern "C" {
    fn spank_context() -> c_int;
    fn spank_get_item(handle: *mut c_void, item: c_int, ...) -> c_int;
    fn spank_getenv(handle: *mut c_void, name: *const c_char, buffer: *mut c_char, length: c_int) -> c_int;
    fn spank_setenv(
        handle: *mut c_void,
        name: *const c_char,
        value: *const c_char,
        overwrite: c_int,
    ) -> c_int;
    fn spank_unsetenv(handle: *mut c_void, name: *const c_char) -> c_int;
    fn spank_option_register(handle: *mut c_void, option: *mut RawOption) -> c_int;
    fn slurm_error(format: *const c_char, ...);
}

/// The longest value of a variable that is read.
const LONGEST_VALUE: usize = 64 << 10;

/// A call of Slurm that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    call: &'static str,
    code: c_int,
}

impl fmt::Display for CallError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of Slurm failed with code {}", self.call, self.code)
    }
}

fn checked(call: &'static str, code: c_int) -> Result<(), CallError> {
    if code == 0 { Ok(()) } else { Err(CallError { call, code }) }
}

/// Writes an error to the log of the program that the plugin is in.
pub fn log_error(text: &str) {
    // What C cannot have in a text is left out.
    let text: Vec<u8> = text.bytes().filter(|byte| *byte != 0).collect();
    let Ok(text) = CString::new(text) else { return };
    // SAFETY: the format takes one string, and both live until the call returns.
    unsafe { slurm_error(c"%s".as_ptr(), text.as_ptr()) }
}

/// Whether the plugin is in slurmstepd, which runs a step.
#[must_use]
pub fn is_in_slurmstepd() -> bool {
    // SAFETY: the call takes nothing and only reads Slurm's own state.
    unsafe { spank_context() == S_CTX_REMOTE }
}

/// What Slurm gives to a hook: its step, or its task.
#[derive(Debug)]
pub struct Handle(*mut c_void);

/// An option for users.
#[derive(Clone, Copy, Debug)]
pub struct UserOption {
    /// Its name, without dashes.
    pub name: &'static CStr,
    /// One word for its value.
    pub value: &'static CStr,
    /// A sentence.
    pub usage: &'static CStr,
    /// What Slurm passes to the callback.
    pub number: c_int,
}

impl Handle {
    /// The handle that Slurm passed to a hook.
    ///
    /// # Safety
    ///
    /// It is the first argument of the hook that runs, and is not used after the hook has returned.
    #[must_use]
    pub const unsafe fn new(raw: *mut c_void) -> Self {
        Self(raw)
    }

    fn number(&self, item: c_int) -> Result<u32, CallError> {
        let mut number: u32 = 0;
        // SAFETY: the handle is valid while the hook runs, and each item asked for here is one number of 32 bits.
        let code = unsafe { spank_get_item(self.0, item, &raw mut number) };
        checked("spank_get_item", code).map(|()| number)
    }

    /// The job's number.
    ///
    /// # Errors
    ///
    /// Slurm does not know it here.
    pub fn job(&self) -> Result<u32, CallError> {
        self.number(S_JOB_ID)
    }

    /// The step's number. Special steps have great ones.
    ///
    /// # Errors
    ///
    /// Slurm does not know it here.
    pub fn step(&self) -> Result<u32, CallError> {
        self.number(S_JOB_STEPID)
    }

    /// The task's number in its step.
    ///
    /// # Errors
    ///
    /// The hook is not one of a task.
    pub fn task(&self) -> Result<u32, CallError> {
        self.number(S_TASK_GLOBAL_ID)
    }

    /// A variable of the job.
    ///
    /// # Errors
    ///
    /// Slurm does not give it, or it is longer than any sensible one.
    pub fn variable(&self, name: &CStr) -> Result<Option<String>, CallError> {
        let mut buffer = vec![0_u8; 4096];
        loop {
            let length = c_int::try_from(buffer.len()).unwrap_or(c_int::MAX);
            // SAFETY: the handle is valid while the hook runs, the name ends with a zero, and Slurm writes at most `length` bytes.
            let code = unsafe { spank_getenv(self.0, name.as_ptr(), buffer.as_mut_ptr().cast(), length) };
            match code {
                0 => {
                    let value = CStr::from_bytes_until_nul(&buffer).map(CStr::to_string_lossy);
                    return Ok(value.ok().map(std::borrow::Cow::into_owned));
                }
                ESPANK_ENV_NOEXIST => return Ok(None),
                ESPANK_NOSPACE if buffer.len() < LONGEST_VALUE => buffer.resize(buffer.len() * 4, 0),
                code => return Err(CallError { call: "spank_getenv", code }),
            }
        }
    }

    /// Sets a variable of the job, or takes it away.
    ///
    /// # Errors
    ///
    /// Slurm refuses.
    pub fn set_variable(&self, name: &CStr, value: Option<&str>) -> Result<(), CallError> {
        let Some(value) = value else {
            // SAFETY: the handle is valid while the hook runs, and the name ends with a zero.
            return checked("spank_unsetenv", unsafe { spank_unsetenv(self.0, name.as_ptr()) });
        };
        let Ok(value) = CString::new(value) else { return Err(CallError { call: "spank_setenv", code: 0 }) };
        // SAFETY: the handle is valid while the hook runs; both texts end with a zero, and Slurm copies them.
        checked("spank_setenv", unsafe { spank_setenv(self.0, name.as_ptr(), value.as_ptr(), 1) })
    }

    /// Lets users say an option. Only in `slurm_spank_init`.
    ///
    /// # Errors
    ///
    /// Slurm refuses, for example because another plugin has the option.
    pub fn register(&self, option: &UserOption, callback: OptionCallback) -> Result<(), CallError> {
        let mut raw = RawOption {
            name: option.name.as_ptr(),
            arginfo: option.value.as_ptr(),
            usage: option.usage.as_ptr(),
            has_arg: 1,
            val: option.number,
            callback: Some(callback),
        };
        // SAFETY: the handle is valid while the hook runs. Slurm copies what the option points to, which is static anyway.
        checked("spank_option_register", unsafe { spank_option_register(self.0, &raw mut raw) })
    }
}

/// The words behind the plugin's name in plugstack.conf.
///
/// # Safety
///
/// `count` and `words` are the second and third argument of a hook.
#[must_use]
pub unsafe fn arguments(count: c_int, words: *const *const c_char) -> Vec<String> {
    let count = usize::try_from(count).unwrap_or_default();
    if words.is_null() {
        return Vec::new();
    }
    // SAFETY: Slurm passes that many pointers to texts that end with a zero.
    let words = unsafe { std::slice::from_raw_parts(words, count) };
    // SAFETY: as above; each lives as long as the hook runs, and is copied here.
    words.iter().map(|word| unsafe { text(*word) }).collect()
}

/// A text of C; empty where there is none.
///
/// # Safety
///
/// It is null, or ends with a zero.
#[must_use]
pub unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: it is not null, and ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
