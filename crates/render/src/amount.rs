//! Amounts of resources as numbers.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The whole units of an amount: bytes of memory, CPUs. `None` where it is no amount, which validation tells.
pub(crate) fn whole(quantity: &Quantity) -> Option<u64> {
    let amount = number(quantity)?;
    // Half a thousandth makes good what decimal fractions lose: 4000m is 4.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "no amount is negative; too large is the largest"
    )]
    Some((amount + 0.0005) as u64)
}

/// Whether an amount has no fraction, and is not nothing.
pub(crate) fn is_whole(quantity: &Quantity) -> bool {
    number(quantity).is_some_and(|amount| amount.round() >= 1.0 && (amount - amount.round()).abs() < 0.0005)
}

fn number(quantity: &Quantity) -> Option<f64> {
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
    Some(number.parse::<f64>().ok()? * factor)
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

    #[test]
    fn whole_amounts_are_told_from_others() {
        for (text, expected) in
            [("4", true), ("156000m", true), ("1.0", true), ("500m", false), ("1500m", false), ("0", false)]
        {
            assert_eq!(is_whole(&Quantity(text.into())), expected, "{text:?}");
        }
    }
}
