//! What of `slurm/spank.h` is written down here a second time. A test in `e2e/tests/slurm` compares it with the headers of both
//! packaged Slurm versions, by [`check`].

use std::ffi::{c_char, c_int};
use std::fmt::Write as _;
use std::mem::offset_of;

/// A text that a call of C gets: an option's name and description.
type Text = *const c_char;

/// An option of `srun`, `sbatch` and `salloc`, as C has it.
#[repr(C)]
pub(crate) struct RawOption {
    pub(crate) name: Text,
    pub(crate) arginfo: Text,
    pub(crate) usage: Text,
    pub(crate) has_arg: c_int,
    pub(crate) val: c_int,
    pub(crate) callback: Option<OptionCallback>,
}

/// What Slurm calls with the value of an option: the option's number, the value, and whether this is slurmstepd.
pub type OptionCallback = unsafe extern "C" fn(c_int, *const c_char, c_int) -> c_int;

pub(crate) const S_JOB_ID: c_int = 2;
pub(crate) const S_JOB_STEPID: c_int = 3;
pub(crate) const S_TASK_GLOBAL_ID: c_int = 12;
pub(crate) const S_CTX_REMOTE: c_int = 2;
/// The variable is not there.
pub(crate) const ESPANK_ENV_NOEXIST: c_int = 3004;
/// The buffer is too small.
pub(crate) const ESPANK_NOSPACE: c_int = 3005;

/// Calls as `handle` declares them, and hooks as the plugins define them.
const DECLARED: &str = "\
static enum spank_context (*context)(void) = spank_context;
static spank_err_t (*get_item)(spank_t, spank_item_t, ...) = spank_get_item;
static spank_err_t (*get)(spank_t, const char *, char *, int) = spank_getenv;
static spank_err_t (*set)(spank_t, const char *, const char *, int) = spank_setenv;
static spank_err_t (*unset)(spank_t, const char *) = spank_unsetenv;
static spank_err_t (*option)(spank_t, struct spank_option *) = spank_option_register;
static void (*log_error)(const char *, ...) = slurm_error;
static int (*hooks[])(spank_t, int, char *[]) = {
    slurm_spank_init, slurm_spank_init_post_opt, slurm_spank_task_init, slurm_spank_task_exit,
};
const void *used[] = { &context, &get_item, &get, &set, &unset, &option, &log_error, &hooks };
";

/// A source in C that compiles only if the headers say the same.
#[must_use]
pub fn check() -> String {
    let mut text = String::from("#include <stddef.h>\n#include <slurm/spank.h>\n");
    let mut equal = |what: &str, number: usize| {
        let _ = writeln!(text, "_Static_assert({what} == {number}, \"{what} is another number\");");
    };
    for (name, number) in [
        ("S_JOB_ID", S_JOB_ID),
        ("S_JOB_STEPID", S_JOB_STEPID),
        ("S_TASK_GLOBAL_ID", S_TASK_GLOBAL_ID),
        ("S_CTX_REMOTE", S_CTX_REMOTE),
        ("ESPANK_SUCCESS", 0),
        ("ESPANK_ENV_NOEXIST", ESPANK_ENV_NOEXIST),
        ("ESPANK_NOSPACE", ESPANK_NOSPACE),
    ] {
        equal(name, usize::try_from(number).unwrap_or_default());
    }
    equal("sizeof(spank_err_t)", size_of::<c_int>());
    equal("sizeof(spank_item_t)", size_of::<c_int>());
    equal("sizeof(struct spank_option)", size_of::<RawOption>());
    for (field, offset) in [
        ("name", offset_of!(RawOption, name)),
        ("arginfo", offset_of!(RawOption, arginfo)),
        ("usage", offset_of!(RawOption, usage)),
        ("has_arg", offset_of!(RawOption, has_arg)),
        ("val", offset_of!(RawOption, val)),
        ("cb", offset_of!(RawOption, callback)),
    ] {
        equal(&format!("offsetof(struct spank_option, {field})"), offset);
    }
    text + DECLARED
}
