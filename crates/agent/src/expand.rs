//! Variables in a text, `$NAME` and `${NAME}`, and nothing else: no shell ever sees the text.

/// Replaces variables by what `get` says; those that are not set become empty, as in a shell. `\$` stays a dollar.
pub fn expand(text: &str, get: impl Fn(&str) -> Option<String>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['$', '\\']) {
        let (before, from) = rest.split_at(at);
        result.push_str(before);
        if let Some(after) = from.strip_prefix("\\$") {
            result.push('$');
            rest = after;
            continue;
        }
        match from.strip_prefix('$').and_then(variable) {
            Some((name, after)) => {
                result.push_str(&get(name).unwrap_or_default());
                rest = after;
            }
            None => {
                // `$` and `\` are one byte each.
                let (sign, after) = from.split_at(1);
                result.push_str(sign);
                rest = after;
            }
        }
    }
    result.push_str(rest);
    result
}

/// The name of a variable, without the dollar, and what follows it.
fn variable(text: &str) -> Option<(&str, &str)> {
    if let Some(braced) = text.strip_prefix('{') {
        let (name, after) = braced.split_once('}')?;
        return is_name(name).then_some((name, after));
    }
    let end = text.find(|c: char| !is_name_char(c)).unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    is_name(name).then_some((name, after))
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_name_char)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        expand(text, |name| match name {
            "A" => Some("1".into()),
            "LONG_name2" => Some("$A `id` \"".into()),
            _ => None,
        })
    }

    #[test]
    fn variables_are_replaced_with_and_without_braces() {
        assert_eq!(
            of("{\"a\": \"$A\", \"b\": \"${A}x$LONG_name2\"}"),
            "{\"a\": \"1\", \"b\": \"1x$A `id` \"\"}"
        );
        assert_eq!(of("[$MISSING][${MISSING}]"), "[][]");
        assert_eq!(of("\\$A costs 5$ ${A"), "$A costs 5$ ${A");
        assert_eq!(of("ü$Aü\\n"), "ü1ü\\n");
    }

    #[test]
    fn nothing_is_run() {
        for text in ["$(reboot)", "`reboot`", "${A:-$(reboot)}", "$((1+1))", "; reboot", "$1 $@ $$"] {
            assert_eq!(of(text), text);
        }
    }
}
