//! Values as users write them. Each reader says what it expects when it gets something else.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde::{Serialize, Serializer};

/// Reads a switch, in all the spellings of Go's flags.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "True" | "TRUE" | "t" | "T" | "1" => Ok(true),
        "false" | "False" | "FALSE" | "f" | "F" | "0" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// A switch that may be left to the program.
pub(super) struct Auto(pub(super) Option<bool>);

impl Auto {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self(None)),
            _ => switch(text)
                .map(|on| Self(Some(on)))
                .map_err(|_| format!("{text:?} is none of auto, true, false")),
        }
    }
}

impl Serialize for Auto {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(on) => serializer.serialize_bool(on),
            None => serializer.serialize_str("auto"),
        }
    }
}

/// Words with commas between.
pub(super) fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(Into::into).collect()
}

/// Reads a number from 1 up.
pub(super) fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{text:?} is no whole number from 1 up")),
    }
}

/// Reads the name of an object.
pub(super) fn name(text: &str) -> Result<String, String> {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'.';
    let edge = |c: Option<&u8>| c.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    if text.len() <= 253 && bytes.iter().all(|c| inner(*c)) && edge(bytes.first()) && edge(bytes.last()) {
        Ok(text.to_string())
    } else {
        Err(format!("{text:?} is no name of an object: use at most 253 of a-z, 0-9, '-' and '.'"))
    }
}

/// Reads the name of a namespace.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    match name(text) {
        Ok(name) if name.len() <= 63 && !name.contains('.') => Ok(name),
        _ => Err(format!("{text:?} is no name of a namespace: use at most 63 of a-z, 0-9 and '-'")),
    }
}

/// Reads the part of a label's name before the `/`.
pub(super) fn label_prefix(text: &str) -> Result<String, String> {
    name(text).map_err(|_| {
        format!("{text:?} is no prefix of a label: write a domain, as in topology.nebius.com, without /")
    })
}

/// Reads a DNS domain.
pub(super) fn domain(text: &str) -> Result<String, String> {
    name(text).map_err(|_| format!("{text:?} is no domain: write for example cluster.local"))
}

/// Reads the name of an image. Whether there is such an image, only a kubelet can tell.
pub(super) fn image(text: &str) -> Result<String, String> {
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        Err(format!("{text:?} is no image: write NAME:TAG without spaces"))
    } else {
        Ok(text.to_string())
    }
}

/// Reads the path of a file. A text that is a certificate or a key itself is refused, and not repeated.
pub(super) fn path(text: &str) -> Result<String, String> {
    if text.contains("-----BEGIN") || text.contains('\n') {
        Err("holds the content; write the path of a file with it".into())
    } else {
        Ok(text.to_string())
    }
}

/// A length of time that prints as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Duration);

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

impl Time {
    /// Reads numbers with units, as Go does (`1h30m`, `90s`, `500ms`), and days (`30d`).
    ///
    /// # Errors
    ///
    /// The text is no duration.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is no duration: write a number and a unit, as in 30s, 5m, 1h30m or 30d");
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        let mut total = Duration::ZERO;
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
            let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
            rest = &rest[digits..];
            let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
            let part = match &rest[..end] {
                "ms" => Some(Duration::from_millis(number)),
                "s" => Some(Duration::from_secs(number)),
                "m" => number.checked_mul(MINUTE).map(Duration::from_secs),
                "h" => number.checked_mul(HOUR).map(Duration::from_secs),
                "d" => number.checked_mul(DAY).map(Duration::from_secs),
                _ => None,
            };
            total = part.and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
            rest = &rest[end..];
        }
        if text.is_empty() { Err(wrong()) } else { Ok(Self(total)) }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut seconds = self.0.as_secs();
        let millis = self.0.subsec_millis();
        if self.0.is_zero() {
            return out.write_str("0s");
        }
        for (unit, size) in [("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", 1)] {
            if seconds >= size {
                write!(out, "{}{unit}", seconds / size)?;
                seconds %= size;
            }
        }
        if millis > 0 { write!(out, "{millis}ms") } else { Ok(()) }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads a size in bytes: `100MB`, `64MiB`, `1G`. A bare number is refused: nobody knows whether it means bytes.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no size: write a number and a unit, as in 100MB or 64Mi");
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit: u64 = match text[digits..].trim_start() {
        "B" => 1,
        "k" | "K" | "kB" | "KB" => 1000,
        "M" | "MB" => 1000 * 1000,
        "G" | "GB" => 1000 * 1000 * 1000,
        "Ki" | "KiB" => 1 << 10,
        "Mi" | "MiB" => 1 << 20,
        "Gi" | "GiB" => 1 << 30,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).filter(|size| *size > 0).ok_or_else(wrong)
}

/// Where a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// Nowhere.
    Off,
    /// On this port of every address of the machine.
    Everywhere(u16),
    /// On one address.
    At(SocketAddr),
}

impl Address {
    /// Reads `:8080`, `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`, or `0` for nowhere.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self::Off);
        }
        let wrong = || {
            format!(
                "{text:?} is no address to listen on: write :8080, 127.0.0.1:8080, [::1]:8080, or 0 for none"
            )
        };
        if let Some(port) = text.strip_prefix(':') {
            return port.parse().map(Self::Everywhere).map_err(|_| wrong());
        }
        if let Some(port) = text.strip_prefix("localhost:") {
            let port = port.parse().map_err(|_| wrong())?;
            return Ok(Self::At(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
        }
        text.parse().map(Self::At).map_err(|_| wrong())
    }

    /// Reads an address that only this machine can reach.
    pub(super) fn parse_loopback(text: &str) -> Result<Self, String> {
        let address = Self::parse(text)?;
        match address {
            Self::Off => Ok(address),
            Self::At(at) if at.ip().is_loopback() => Ok(address),
            _ => Err(format!(
                "{text:?} can be reached from outside; write a loopback address, as in 127.0.0.1:8082"
            )),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => out.write_str("0"),
            Self::Everywhere(port) => write!(out, ":{port}"),
            Self::At(address) => write!(out, "{address}"),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_printed() {
        for (text, seconds) in [("2m", 120), ("1h30m", 5400), ("30d", 30 * DAY), ("90s", 90), ("0", 0)] {
            let time = Time::parse(text).unwrap();
            assert_eq!(time.0, Duration::from_secs(seconds), "{text}");
            assert_eq!(Time::parse(&time.to_string()).unwrap(), time, "{time}");
        }
        assert_eq!(Time::parse("1s500ms").unwrap().to_string(), "1s500ms");
        for text in ["", "5", "m", "-5m", "5 m", "5x", "1.5h", "99999999999999999999s", "99999999999999999d"]
        {
            assert!(Time::parse(text).unwrap_err().contains("as in 30s"), "{text:?}");
        }
    }

    #[test]
    fn sizes_need_a_unit() {
        assert_eq!(size("100MB"), Ok(100_000_000));
        assert_eq!(size("64Mi"), Ok(64 << 20));
        assert_eq!(size("1 KiB"), Ok(1024));
        for text in
            ["100", "", "MB", "0MB", "1.5MB", "-1MB", "99999999999999999999MB", "18446744073709551615G"]
        {
            assert!(size(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn addresses_are_read_and_printed() {
        for text in ["0", ":8080", "127.0.0.1:8081", "[::1]:9"] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Address::parse("localhost:80").unwrap().to_string(), "127.0.0.1:80");
        for text in ["8080", ":", ":99999", "host:80", "::1:80x"] {
            assert!(Address::parse(text).is_err(), "{text:?}");
        }
        assert!(Address::parse_loopback(":8082").unwrap_err().contains("from outside"));
        assert!(Address::parse_loopback("10.0.0.1:8082").is_err());
        assert!(Address::parse_loopback("[::1]:8082").is_ok());
    }

    #[test]
    fn names_are_checked() {
        assert_eq!(name("e21479ae.nebius.ai").unwrap(), "e21479ae.nebius.ai");
        for text in ["", "A", "-a", "a-", "a/b", &"a".repeat(254)] {
            assert!(name(text).is_err(), "{text:?}");
        }
        assert!(namespace("a.b").is_err());
    }

    #[test]
    fn a_key_instead_of_its_path_is_not_repeated() {
        let message = path("-----BEGIN PRIVATE KEY-----\nMIIsecret").unwrap_err();
        assert!(!message.contains("MII"), "{message}");
    }
}
