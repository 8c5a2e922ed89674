//! PCI words: addresses and vendor:device identities.
//!
//! A domain is 32 bits wide here. Most are 16, but controllers such as Intel's VMD put their
//! drives in a domain above `ffff`, and a parser that keeps four digits merges two machines' buses.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where a function sits: `domain:bus:device.function`, as `lspci -D` prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl PciAddress {
    /// The address with these parts, or `None` if `device` is above 31 or `function` above 7.
    #[must_use]
    pub const fn new(domain: u32, bus: u8, device: u8, function: u8) -> Option<Self> {
        if device > 31 || function > 7 {
            return None;
        }
        Some(Self {
            domain,
            bus,
            device,
            function,
        })
    }

    /// The domain (segment group).
    #[must_use]
    pub const fn domain(self) -> u32 {
        self.domain
    }

    /// The bus inside the domain.
    #[must_use]
    pub const fn bus(self) -> u8 {
        self.bus
    }

    /// The slot on the bus, 0 to 31. Called "device" by the standard.
    #[must_use]
    pub const fn slot(self) -> u8 {
        self.device
    }

    /// The function of the slot, 0 to 7.
    #[must_use]
    pub const fn function(self) -> u8 {
        self.function
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04x}:{:02x}:{:02x}.{:x}",
            self.domain, self.bus, self.device, self.function
        )
    }
}

/// The text is not `domain:bus:device.function` in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a PCI address of the form 0000:00:00.0")]
pub struct PciAddressError;

impl FromStr for PciAddress {
    type Err = PciAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (domain, rest) = text.split_once(':').ok_or(PciAddressError)?;
        let (bus, rest) = rest.split_once(':').ok_or(PciAddressError)?;
        let (device, function) = rest.split_once('.').ok_or(PciAddressError)?;
        Self::new(
            hex(domain, 8)?,
            u8::try_from(hex(bus, 2)?).map_err(|_| PciAddressError)?,
            u8::try_from(hex(device, 2)?).map_err(|_| PciAddressError)?,
            u8::try_from(hex(function, 1)?).map_err(|_| PciAddressError)?,
        )
        .ok_or(PciAddressError)
    }
}

/// Hexadecimal digits only: `from_str_radix` alone would let a sign through.
fn hex(text: &str, most_digits: usize) -> Result<u32, PciAddressError> {
    if text.len() > most_digits || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(PciAddressError);
    }
    u32::from_str_radix(text, 16).map_err(|_| PciAddressError)
}

impl Serialize for PciAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PciAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Who made a function and what it is: the two numbers `lspci -n` prints, and its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PciIdentity {
    /// Vendor, for example `0x10de` NVIDIA, `0x1002` AMD, `0x19e5` Huawei.
    pub vendor: u16,
    /// Device, numbered by the vendor.
    pub device: u16,
    /// Class and subclass, for example `0x0302` 3D controller, `0x1200` processing accelerator.
    pub class: u16,
}

impl PciIdentity {
    /// Whether the class is one of a computing device: display (`03xx`), processing accelerator
    /// (`12xx`) or co-processor (`0b40`).
    #[must_use]
    pub const fn is_device(self) -> bool {
        matches!(self.class >> 8, 0x03 | 0x12) || self.class == 0x0b40
    }

    /// Whether the class is a network controller (`02xx`).
    #[must_use]
    pub const fn is_nic(self) -> bool {
        self.class >> 8 == 0x02
    }

    /// Whether the class is a PCI-to-PCI bridge (`0604`): a root port, a switch's port, or a bridge
    /// to conventional PCI.
    #[must_use]
    pub const fn is_bridge(self) -> bool {
        self.class == 0x0604
    }
}

/// Megatransfers a second of a lane out of `8 GT/s`, `8.0 GT/s PCIe` and the like; `None` for
/// `Unknown`, for an empty text and for any other.
pub(crate) fn megatransfers(text: &str) -> Option<u32> {
    let number = text.split_whitespace().next()?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u32 = whole.parse().ok()?;
    let tenths: u32 = fraction.get(..1)?.parse().ok()?;
    let rate = whole.checked_mul(1_000)?.checked_add(tenths * 100)?;
    (rate > 0).then_some(rate)
}

/// Lanes of a link; `None` for what no link has: 0 and 255 stand for "not known".
pub(crate) fn lanes(text: &str) -> Option<u8> {
    let lanes: u16 = text.parse().ok()?;
    let lanes = u8::try_from(lanes).ok()?;
    (1..=32).contains(&lanes).then_some(lanes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_read_in_every_way_kernels_have_written_it() {
        for (text, rate) in [
            ("2.5 GT/s", Some(2_500)),
            ("8 GT/s", Some(8_000)),
            ("16.0 GT/s PCIe", Some(16_000)),
            ("32.0 GT/s PCIe", Some(32_000)),
            ("Unknown", None),
            ("Unknown speed", None),
            ("", None),
            ("99999999999 GT/s", None),
            ("4294967295 GT/s", None),
            (".5", None),
            ("5.é", None),
        ] {
            assert_eq!(megatransfers(text), rate, "{text:?}");
        }
    }

    #[test]
    fn an_address_prints_as_it_is_read_domain_above_ffff_included() {
        for text in ["0000:19:04.0", "ffff:ff:1f.7", "10000:00:04.0"] {
            let address: PciAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn what_is_not_an_address_is_refused() {
        for text in [
            "",
            "0000:00:00",
            "00:00.0",
            "0000:00:20.0",
            "0000:00:00.8",
            "0000:+1:00.0",
            "100000000:00:00.0",
            "0000:000:00.0",
            "pci0000:00",
            "::.",
        ] {
            assert_eq!(text.parse::<PciAddress>(), Err(PciAddressError), "{text:?}");
        }
    }
}
