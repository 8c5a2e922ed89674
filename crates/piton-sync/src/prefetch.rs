//! Telling the processor which line will be written soon, so that it is there by then.
//!
//! A line that another core has read lately must be taken from it before it can be written. A producer that writes one
//! slot after the other knows the slots it will write, and an atomic exchange in between would wait for each.

#![cfg_attr(
    all(target_arch = "x86_64", not(miri), not(loom)),
    expect(unsafe_code, reason = "one instruction that Rust has no name for")
)]

/// Asks for the line of `soon`, to be written. A hint: nothing is read or written, and nothing happens on machines where
/// this crate knows no such instruction.
#[inline]
pub fn prefetch_for_write<T>(soon: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    {
        let at = std::ptr::from_ref(soon);
        // SAFETY: it changes no register, no flag and no memory, and does not fault, whatever the address. Processors
        // that do not know it take it for no operation.
        unsafe {
            std::arch::asm!(
                "prefetchw [{at}]",
                at = in(reg) at,
                options(readonly, nostack, preserves_flags)
            );
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    let _ = soon;
}
