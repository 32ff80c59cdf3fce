//! What an unquoted word of YAML means to kubectl, whose YAML is version 1.1: `yes` and `on` are booleans, `0777` is
//! octal.

use crate::node::Data;

/// The value of a plain scalar.
pub(crate) fn resolve(text: &str) -> Data {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Data::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Data::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Data::Bool(false);
        }
        _ => {}
    }
    number(text).unwrap_or_else(|| Data::Text(text.to_owned()))
}

/// A key is always text in JSON: that of the value which it would be.
pub(crate) fn key(text: &str) -> String {
    match resolve(text) {
        Data::Bool(value) => value.to_string(),
        Data::Int(value) => value.to_string(),
        _ => text.to_owned(),
    }
}

fn number(text: &str) -> Option<Data> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return None;
    }
    let plain = text.replace('_', "");
    if let Some(value) = integer(&plain) {
        return Some(Data::Int(value));
    }
    let body = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    let looks_right = body.starts_with(|c: char| c.is_ascii_digit())
        || (body.starts_with('.') && body[1..].starts_with(|c: char| c.is_ascii_digit()));
    let only_number = body.chars().all(|c| c.is_ascii_digit() || ".eE+-".contains(c));
    if looks_right && only_number { plain.parse().ok().map(float) } else { None }
}

/// kubectl writes a float without a fraction as an integer when it sends it: `3.0` arrives as `3`.
fn float(value: f64) -> Data {
    // 2^63, beyond which it is no integer of the API server.
    const END: f64 = 9_223_372_036_854_775_808.0;
    if value.fract() == 0.0 && (-END..END).contains(&value) {
        Data::Int(value as i64)
    } else {
        Data::Float(value)
    }
}

fn integer(plain: &str) -> Option<i64> {
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", plain.strip_prefix('+').unwrap_or(plain)),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // Nothing but digits: from_str_radix would take a second sign.
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_what_they_mean_to_kubectl() {
        for (text, expected) in [
            ("yes", "Bool(true)"),
            ("on", "Bool(true)"),
            ("Off", "Bool(false)"),
            ("n", "Bool(false)"),
            ("~", "Null"),
            ("", "Null"),
            ("12", "Int(12)"),
            ("-12", "Int(-12)"),
            ("1_000", "Int(1000)"),
            ("0777", "Int(511)"),
            ("0o777", "Int(511)"),
            ("0x1F", "Int(31)"),
            ("1.5", "Float(1.5)"),
            ("1e3", "Int(1000)"),
            ("3.0", "Int(3)"),
            ("-3.0", "Int(-3)"),
            ("1e30", "Float(1e30)"),
            (".5", "Float(0.5)"),
            ("1.2.3", "Text(\"1.2.3\")"),
            ("08", "Int(8)"),
            ("+-3", "Text(\"+-3\")"),
            ("--3", "Text(\"--3\")"),
            ("500m", "Text(\"500m\")"),
            ("2026-01-02", "Text(\"2026-01-02\")"),
            ("yEs", "Text(\"yEs\")"),
            (".", "Text(\".\")"),
        ] {
            assert_eq!(format!("{:?}", resolve(text)), expected, "{text:?}");
        }
    }

    #[test]
    fn keys_are_text() {
        assert_eq!(key("on"), "true");
        assert_eq!(key("0x10"), "16");
        assert_eq!(key("name"), "name");
    }
}
