//! What elements and attributes of a topology file mean.

use crate::cpu_list::CpuList;
use crate::error::{AttributeError, NcclError};
use crate::link::PcieGeneration;
use crate::pci::{self, PciAddress, PciIdentity};
use crate::xml::Element;

impl Element<'_> {
    /// As [`optional`](Self::optional), where no text stands for nothing known: the library writes what it read of the system, and in
    /// a virtual machine that may be nothing.
    pub(super) fn known<T>(
        self,
        attribute: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, AttributeError> {
        let text = self.node.attribute(attribute);
        if text.is_some_and(|text| text.trim().is_empty()) {
            return Ok(None);
        }
        self.optional(attribute, parse)
    }

    /// The address and identity of a `pci` element. Cloud templates leave vendor and device out.
    pub(super) fn function(self) -> Result<(PciAddress, PciIdentity), NcclError> {
        let address = self.required("busid", |text| text.parse().ok())?;
        let class = self.required("class", class)?;
        let vendor = self.known("vendor", hex16)?.unwrap_or(0);
        let device = self.known("device", hex16)?.unwrap_or(0);
        let identity = PciIdentity {
            vendor,
            device,
            class,
        };
        Ok((address, identity))
    }

    /// Generation and lanes of a `pci` element's link to what is above it, if the file says.
    pub(super) fn link(self) -> Option<(PcieGeneration, u16)> {
        let rate = pci::megatransfers(self.node.attribute("link_speed")?)?;
        let lanes = pci::lanes(self.node.attribute("link_width")?)?;
        PcieGeneration::from_megatransfers(rate).zip(Some(lanes.into()))
    }

    /// The generation of a Broadcom switch's level, if this `pci` element is one: `level` 0 is the
    /// outer half of the switch, 1 the inner.
    pub(super) fn broadcom_level(self, identity: PciIdentity, level: u16) -> Option<u8> {
        const BROADCOM: u16 = 0x1000;
        let subsystem = |name| self.known(name, hex16).ok().flatten();
        let sub_vendor = subsystem("subsystem_vendor")?;
        let sub_device = subsystem("subsystem_device")?;
        if (identity.vendor, sub_vendor) != (BROADCOM, BROADCOM) {
            return None;
        }
        // NCCL's constants: the level is in the subsystem's fourth digit.
        match (identity.device, sub_device & 0xf000) {
            (0xc010, digit) if digit == 0xa000 | level << 12 => Some(4),
            (0xc030, digit) if digit == level << 12 => Some(5),
            _ => None,
        }
    }
}

/// A hexadecimal number of 16 bits, with or without `0x`.
pub(super) fn hex16(text: &str) -> Option<u16> {
    u16::try_from(hex(text)?).ok()
}

/// A class of 24 bits without its last byte, the programming interface.
pub(super) fn class(text: &str) -> Option<u16> {
    u16::try_from(hex(text)? >> 8).ok()
}

/// A hexadecimal number, with or without `0x`.
pub(super) fn hex(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, 16).ok()
}

/// A mask of processors.
pub(super) fn cpu_mask(text: &str) -> Option<CpuList> {
    CpuList::from_mask(text).ok()
}
