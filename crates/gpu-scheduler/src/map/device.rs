//! One device of a map: an index, a GPU's or MIG instance's uuid, and how many may share it.

use std::fmt;
use std::num::NonZeroU16;

/// The highest index of a device that a map may name.
const HIGHEST_INDEX: u16 = 1023;
/// The most sharers of a device that a map may ask for.
const MOST_SHARERS: u16 = 1000;

/// A device of a node, as CUDA names it. Uuids are in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Device {
    /// The number that `nvidia-smi` shows.
    Index(u16),
    /// `GPU-` and a uuid; this is the uuid.
    Gpu(Box<str>),
    /// `MIG-` and a uuid, or the older form with the uuid of its GPU and two numbers; this is what follows `MIG-`.
    Mig(Box<str>),
    /// What the original would have taken without a look; in compat mode only.
    Opaque(Box<str>),
}

/// The ways to name a device. One card has a name in each, so that two ways on one node could mean the same card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Naming {
    /// By index.
    Index,
    /// By a GPU's uuid.
    Gpu,
    /// By a MIG instance's uuid.
    Mig,
    /// By some text that only CUDA understands.
    Opaque,
}

impl Naming {
    /// How users call it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Gpu => "GPU uuid",
            Self::Mig => "MIG uuid",
            Self::Opaque => "free text",
        }
    }
}

impl Device {
    /// Which way it is named.
    pub const fn naming(&self) -> Naming {
        match self {
            Self::Index(_) => Naming::Index,
            Self::Gpu(_) => Naming::Gpu,
            Self::Mig(_) => Naming::Mig,
            Self::Opaque(_) => Naming::Opaque,
        }
    }

    /// Reads an index or a uuid. The error says what is wrong, and at which character of `text`.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        if text.is_empty() {
            return Err((
                0,
                "a device is missing here; write an index, GPU-<uuid>, MIG-<uuid>, or none".into(),
            ));
        }
        if let Some(uuid) = text.strip_prefix("GPU-") {
            return gpu_uuid(uuid).map(Self::Gpu).map_err(|()| {
                (0, format!("{text:?} is no GPU's uuid; `nvidia-smi -L` shows it as GPU- and 8-4-4-4-12 hexadecimal digits"))
            });
        }
        if let Some(rest) = text.strip_prefix("MIG-") {
            return mig(rest).map(Self::Mig).map_err(|()| {
                (0, format!("{text:?} is no MIG instance's uuid; `nvidia-smi -L` shows it as MIG- and 8-4-4-4-12 hexadecimal digits"))
            });
        }
        if let Some((at, wrong)) = text.chars().enumerate().find(|(_, c)| !c.is_ascii_digit()) {
            return Err((
                at,
                format!(
                    "unexpected {wrong:?} in device {text:?}; devices are separated by commas, entries by new lines, and \
                     each device is an index, GPU-<uuid> or MIG-<uuid>"
                ),
            ));
        }
        if text.len() > 1 && text.starts_with('0') {
            return Err((
                0,
                format!("device {text} has a leading zero; write {}", text.trim_start_matches('0')),
            ));
        }
        match text.parse::<u16>() {
            Ok(index) if index <= HIGHEST_INDEX => Ok(Self::Index(index)),
            _ => Err((0, format!("device {text} is too high; the highest index is {HIGHEST_INDEX}"))),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(out, "{index}"),
            Self::Gpu(uuid) => write!(out, "GPU-{uuid}"),
            Self::Mig(rest) => write!(out, "MIG-{rest}"),
            Self::Opaque(text) => out.write_str(text),
        }
    }
}

fn gpu_uuid(text: &str) -> Result<Box<str>, ()> {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths = groups.iter().map(|group| group.len());
    let hexadecimal = groups.iter().all(|group| group.bytes().all(|c| c.is_ascii_hexdigit()));
    if hexadecimal && lengths.eq([8, 4, 4, 4, 12]) { Ok(text.to_ascii_lowercase().into()) } else { Err(()) }
}

fn small_number(part: Option<&str>) -> Result<&str, ()> {
    part.filter(|part| (1..=3).contains(&part.len()) && part.bytes().all(|c| c.is_ascii_digit())).ok_or(())
}

/// `<uuid>`, or `GPU-<uuid>/<gi>/<ci>` as drivers before R470 had it.
fn mig(text: &str) -> Result<Box<str>, ()> {
    let Some(old) = text.strip_prefix("GPU-") else { return gpu_uuid(text) };
    let mut parts = old.split('/');
    let uuid = gpu_uuid(parts.next().unwrap_or_default())?;
    let (gi, ci) = (small_number(parts.next())?, small_number(parts.next())?);
    if parts.next().is_some() {
        return Err(());
    }
    Ok(format!("GPU-{uuid}/{gi}/{ci}").into())
}

/// A device that a pod asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim {
    /// The device.
    pub device: Device,
    /// How many pods may have it at once; none: this pod alone.
    pub sharers: Option<NonZeroU16>,
}

impl Claim {
    /// A claim that suffers no other.
    pub const fn exclusive(device: Device) -> Self {
        Self { device, sharers: None }
    }

    /// Reads a device with or without `@shared(n)`. The error says what is wrong, and at which character of `text`.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        let Some((device, mark)) = text.split_once('@') else {
            return Device::parse(text).map(Self::exclusive);
        };
        let at = device.chars().count();
        let device = Device::parse(device.trim_end())?;
        let number = mark
            .trim()
            .strip_prefix("shared(")
            .and_then(|rest| rest.strip_suffix(')'))
            .map(str::trim)
            .ok_or_else(|| (at, format!("unknown mark \"@{mark}\"; the one mark is @shared(n), n being the most pods that may have the device at once")))?;
        let digits = !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit());
        let sharers = number.parse().ok().filter(|n| digits && (2..=MOST_SHARERS).contains(n));
        match sharers.and_then(NonZeroU16::new) {
            Some(sharers) => Ok(Self { device, sharers: Some(sharers) }),
            None => Err((
                at,
                format!(
                    "@shared({number}) needs a number from 2 to {MOST_SHARERS}: the most pods that may have the device at once"
                ),
            )),
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.device)?;
        match self.sharers {
            Some(sharers) => write!(out, "@shared({sharers})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "8932f937-d72c-4106-c12f-20bd9faed9f6";

    #[test]
    fn indices_and_both_kinds_of_uuid_are_read_and_printed() {
        for text in
            ["0", "1023", &format!("GPU-{UUID}"), &format!("MIG-{UUID}"), &format!("MIG-GPU-{UUID}/7/0")]
        {
            assert_eq!(Device::parse(text).unwrap().to_string(), text);
        }
        let upper = format!("GPU-{}", UUID.to_uppercase());
        assert_eq!(Device::parse(&upper).unwrap().to_string(), format!("GPU-{UUID}"));
    }

    #[test]
    fn what_cuda_would_take_for_the_end_of_the_list_is_refused() {
        for text in ["", "-1", "1.", "a", "07", "1024", "99999999", "GPU-", "GPU-1234", "MIG-x", "gpu-1", "٣"]
        {
            assert!(Device::parse(text).is_err(), "{text}");
        }
        for rest in ["", "/", "/7", "/7/0/1", "/7/a", "/7/1234"] {
            assert!(Device::parse(&format!("MIG-GPU-{UUID}{rest}")).is_err(), "{rest}");
        }
    }

    #[test]
    fn sharing_is_read_and_its_bounds_are_checked() {
        let claim = Claim::parse("3@shared(4)").unwrap();
        assert_eq!((claim.sharers.map(NonZeroU16::get), claim.to_string()), (Some(4), "3@shared(4)".into()));
        for text in
            ["3@", "3@shared", "3@shared()", "3@shared(1)", "3@shared(+2)", "3@shared(2", "3@Shared(2)"]
        {
            assert_eq!(Claim::parse(text).unwrap_err().0, 1, "{text}");
        }
    }
}
