//! Kernels, by the names that loaded images declare.
//!
//! No stand-in can run a vendor's code. It reads which kernels an image declares and how large their parameters are, and runs
//! the function of that name: of this file, or of the demonstration ([`piton_training::simulated`]).

use piton_driver::{Fault, Parameter, Signature};
use piton_sim::{KernelDefinition, SimModule};

/// The module under which the simulated device knows them.
pub const MODULE: &str = "standin";

/// Elements that a block of the suite's kernels works on.
const BLOCK: u64 = 256;

/// What can be declared.
pub fn module() -> SimModule {
    let adds = || Signature::new([Parameter::write::<u32>(), Parameter::value::<u32>()]);
    let copies = Signature::new([Parameter::write::<u32>(), Parameter::read::<u32>()]);
    let own = |index: u32| u64::from(index) * BLOCK..(u64::from(index) + 1) * BLOCK;
    let add = KernelDefinition::new("conformance_add", adds(), move |block| {
        let value = block.value::<u32>(1)?;
        for x in block.write::<u32>(0, own(block.index().x))? {
            *x = x.wrapping_add(value);
        }
        Ok(())
    });
    let copy = KernelDefinition::new("conformance_copy", copies, move |block| {
        let range = own(block.index().x);
        let from = block.read::<u32>(1, range.clone())?;
        block.write::<u32>(0, range)?.copy_from_slice(from);
        Ok(())
    });
    let trap = KernelDefinition::new("conformance_trap", adds(), |_| {
        Err(Fault::Trapped { code: 7 })
    });
    SimModule::new(MODULE).with(add).with(copy).with(trap)
}

/// A kernel as an image declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// Bytes of each parameter.
    pub parameters: Vec<usize>,
}
