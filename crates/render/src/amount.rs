//! Amounts of resources as numbers.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The whole units of an amount: bytes of memory, CPUs. `None` where it is no amount, which validation tells.
pub(crate) fn whole(quantity: &Quantity) -> Option<u64> {
    let text = quantity.0.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let factor = match suffix {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024_f64,
        "Mi" => 1024_f64.powi(2),
        "Gi" => 1024_f64.powi(3),
        "Ti" => 1024_f64.powi(4),
        "Pi" => 1024_f64.powi(5),
        "Ei" => 1024_f64.powi(6),
        exponent => 10_f64.powi(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    let amount = number.parse::<f64>().ok()? * factor;
    // Half a thousandth makes good what decimal fractions lose: 4000m is 4.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "no amount is negative; too large is the largest"
    )]
    Some((amount + 0.0005) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_cut_to_whole_units() {
        for (text, expected) in [
            ("4", Some(4)),
            ("4000m", Some(4)),
            ("3900m", Some(3)),
            ("500m", Some(0)),
            ("1.5Gi", Some(1_610_612_736)),
            ("1220Gi", Some(1_309_965_025_280)),
            ("2G", Some(2_000_000_000)),
            ("1e3", Some(1000)),
            ("5E", Some(5_000_000_000_000_000_000)),
            ("", None),
            ("much", None),
        ] {
            assert_eq!(whole(&Quantity(text.into())), expected, "{text:?}");
        }
    }
}
