//! Annotations as the downward API writes them to a file: `key="value"` in each line, quoted as Go does.

/// The value of an annotation; none if it is not there.
pub(super) fn find(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let quoted = line.strip_prefix(key)?.strip_prefix("=\"")?.strip_suffix('"')?;
        Some(unquote(quoted))
    })
}

fn unquote(text: &str) -> String {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            push(&mut out, c);
            continue;
        }
        match rest.next() {
            Some('x') => out.extend(hexadecimal(&mut rest, 2).and_then(|byte| u8::try_from(byte).ok())),
            Some(kind @ ('u' | 'U')) => {
                let code = hexadecimal(&mut rest, if kind == 'u' { 4 } else { 8 });
                if let Some(c) = code.and_then(char::from_u32) {
                    push(&mut out, c);
                }
            }
            Some('a') => out.push(0x07),
            Some('b') => out.push(0x08),
            Some('f') => out.push(0x0c),
            Some('n') => out.push(b'\n'),
            Some('r') => out.push(b'\r'),
            Some('t') => out.push(b'\t'),
            Some('v') => out.push(0x0b),
            Some(other) => push(&mut out, other),
            None => {}
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn hexadecimal(rest: &mut std::str::Chars<'_>, digits: usize) -> Option<u32> {
    let text: String = rest.take(digits).collect();
    u32::from_str_radix(&text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_go_quotes_them() {
        let text = "gpu-scheduling-devices=\"0,1\"\ngpu-scheduling-map=\"0=node1:0\\n1=b:\\\"\\\\\\u00e9\\xff\\t\"\nother=\"\"\n";
        assert_eq!(find(text, "gpu-scheduling-devices").as_deref(), Some("0,1"));
        assert_eq!(find(text, "gpu-scheduling-map").as_deref(), Some("0=node1:0\n1=b:\"\\é\u{fffd}\t"));
        assert_eq!(find(text, "other").as_deref(), Some(""));
        assert_eq!(find(text, "gpu-scheduling"), None);
        assert_eq!(find("a=\"\\", "a"), None);
        assert_eq!(find("a=\"\\\"", "a").as_deref(), Some(""));
    }
}
