//! The Slurm version that a plugin says it was made for.

/// As Slurm's headers write it: one byte each for year, month and number of the release. Slurm refuses a plugin of another one.
///
/// `rig build` sets the variable to the version in the image that the plugin is for.
pub const SLURM_VERSION_NUMBER: u32 = match option_env!("SPANK_SLURM_VERSION") {
    Some(text) => number(text),
    None => number("24.11.0"),
};

/// `24.11.5` as Slurm's headers number it. A mistake is seen when the plugin is compiled.
const fn number(text: &str) -> u32 {
    let bytes = text.as_bytes();
    let (mut number, mut part, mut dots, mut index) = (0, 0, 0, 0);
    while index < bytes.len() {
        match bytes[index] {
            b'.' => {
                number = (number << 8) | part;
                part = 0;
                dots += 1;
            }
            digit => {
                assert!(digit.is_ascii_digit(), "SPANK_SLURM_VERSION is written like 24.11.5");
                part = part * 10 + (digit - b'0') as u32;
                assert!(part < 256, "SPANK_SLURM_VERSION is written like 24.11.5");
            }
        }
        index += 1;
    }
    assert!(dots == 2, "SPANK_SLURM_VERSION is written like 24.11.5");
    (number << 8) | part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_numbered_as_slurms_headers_do() {
        assert_eq!(number("24.11.5"), 0x0018_0b05);
        assert_eq!(number("26.05.5"), 0x001a_0505);
    }
}
