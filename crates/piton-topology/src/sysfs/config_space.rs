//! The few bytes of a PCI configuration space that matter here: bus numbers and the kind of port.
//!
//! An ordinary user sees the first 64 bytes: the bus numbers are there, the port type is not.

use super::PortType;

const HEADER_TYPE: usize = 0x0e;
const SECONDARY_BUS: usize = 0x19;
const SUBORDINATE_BUS: usize = 0x1a;
const CAPABILITIES: usize = 0x34;
const PCI_EXPRESS: u8 = 0x10;

/// First and last bus below a bridge (header type 1).
pub(super) fn buses(config: &[u8]) -> Option<(u8, u8)> {
    if config.get(HEADER_TYPE)? & 0x7f != 1 {
        return None;
    }
    let secondary = *config.get(SECONDARY_BUS)?;
    let subordinate = *config.get(SUBORDINATE_BUS)?;
    // A bridge that firmware has not set up says 0.
    (secondary > 0 && subordinate >= secondary).then_some((secondary, subordinate))
}

/// Which port a bridge is, from its PCI Express capability.
pub(super) fn port_type(config: &[u8]) -> Option<PortType> {
    let mut at = usize::from(*config.get(CAPABILITIES)?) & !3;
    // 48 capabilities of 4 bytes fill the space: a longer list is a loop.
    for _ in 0..48 {
        if at < 0x40 {
            return None;
        }
        if *config.get(at)? == PCI_EXPRESS {
            return match config.get(at + 2)? >> 4 {
                4 => Some(PortType::Root),
                5 => Some(PortType::Upstream),
                6 => Some(PortType::Downstream),
                7 | 8 => Some(PortType::Bridge),
                _ => None,
            };
        }
        at = usize::from(*config.get(at + 1)?) & !3;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bridge(port: u8) -> Vec<u8> {
        let mut config = vec![0; 256];
        config[HEADER_TYPE] = 0x81;
        config[SECONDARY_BUS] = 3;
        config[SUBORDINATE_BUS] = 9;
        config[CAPABILITIES] = 0x40;
        config[0x40..0x43].copy_from_slice(&[0x05, 0x80, 0]);
        config[0x80..0x83].copy_from_slice(&[PCI_EXPRESS, 0, port << 4 | 2]);
        config
    }

    #[test]
    fn bus_numbers_and_port_type_are_found() {
        assert_eq!(buses(&bridge(5)), Some((3, 9)));
        assert_eq!(port_type(&bridge(5)), Some(PortType::Upstream));
        assert_eq!(port_type(&bridge(4)), Some(PortType::Root));
    }

    #[test]
    fn sixty_four_bytes_give_the_buses_alone() {
        let short = &bridge(5)[..64];
        assert_eq!(buses(short), Some((3, 9)));
        assert_eq!(port_type(short), None);
        assert_eq!(buses(&short[..10]), None);
    }

    #[test]
    fn a_loop_of_capabilities_ends() {
        let mut config = bridge(5);
        config[0x80] = 0x01;
        config[0x81] = 0x40;
        assert_eq!(port_type(&config), None);
    }
}
