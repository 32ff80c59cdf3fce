//! What tests share.

/// How many random cases a test looks at: more in `make sweep`.
pub(crate) fn cases(usual: u32) -> u32 {
    let full = std::env::var("SOPERATOR_SWEEP").is_ok_and(|sweep| sweep == "full");
    if full { usual * 50 } else { usual }
}
