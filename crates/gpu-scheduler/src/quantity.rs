//! Amounts as Kubernetes writes them: `100m`, `1.5Gi`, `1e3`.

/// The amount in units of `10^-scale`, rounded up: 3 for thousandths. None if the text is no amount. What is too large is
/// cut to the largest number.
pub fn parse(text: &str, scale: u32) -> Option<i64> {
    let text = text.trim();
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let mut mantissa: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        mantissa = mantissa.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
    }
    let (ten, two) = exponents(suffix)?;
    let ten = ten - i32::try_from(fraction.len()).ok()? + i32::try_from(scale).ok()?;
    let value = mantissa.saturating_mul(1_i128 << two);
    let value = if ten >= 0 {
        let factor = 10_i128.checked_pow(ten.unsigned_abs());
        factor.map_or(if value == 0 { 0 } else { i128::MAX }, |factor| value.saturating_mul(factor))
    } else {
        // Up, also where nearly nothing is left: a request of a bit is not nothing.
        10_i128
            .checked_pow(ten.unsigned_abs())
            .map_or(i128::from(value != 0), |factor| value / factor + i128::from(value % factor != 0))
    };
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    Some(if negative { -value } else { value })
}

/// The powers of ten and of two that a suffix stands for.
fn exponents(suffix: &str) -> Option<(i32, u32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        _ => (suffix.strip_prefix(['e', 'E'])?.parse().ok().filter(|power: &i32| power.abs() <= 30)?, 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_kubernetes_reads_them() {
        for (text, scale, value) in [
            ("100m", 3, 100),
            ("2", 3, 2000),
            ("1.5", 3, 1500),
            ("0.1", 0, 1),
            ("1u", 3, 1),
            ("1Gi", 0, 1 << 30),
            ("1.5Ki", 0, 1536),
            ("1e3", 0, 1000),
            ("12E", 0, i64::MAX),
            ("5E3", 0, 5000),
            ("128974848", 0, 128_974_848),
            ("+1k", 0, 1000),
            ("-1", 0, -1),
            (".5", 3, 500),
            ("9Ei", 0, i64::MAX),
            ("0E", 0, 0),
        ] {
            assert_eq!(parse(text, scale), Some(value), "{text}");
        }
        for text in ["", "Gi", "1 Gi", "1.2.3", "x", "1ki", "1e", "--1", "."] {
            assert_eq!(parse(text, 0), None, "{text}");
        }
    }
}
