//! What backends over a vendor's library share: how it is opened, and queues that hold back what needs the host.
//!
//! # The problem
//! Vendors' queues run commands in order and say when one has ended. The contract's queues do more: they wait for semaphores and
//! host functions, stop exactly at a failure, can be aborted, and call wakers. Vendors differ in how much of that they can
//! do, and in what they make of a failure; written anew for each vendor, piton's own behaviour would differ too.
//!
//! # The idea
//! **The vendor's queue gets only what can run without the host.** The queue here ([`InOrderQueue`]) is written against six small
//! traits that a backend implements ([`NativeDevice`] and what belongs to it): a vendor's in-order queue that takes
//! launches, copies, fills and barriers, and for each an event that says whether it has ended. Everything else is done by the
//! host; the module `queue` says how.
//!
//! What a vendor's memory, host memory, pages, kernels and streams have in common is written once as well: each facet is a
//! module with a trait of raw calls that the backend implements, and the contract's calls as functions over it.
//!
//! # What to take
//! | I want to … | take |
//! |---|---|
//! | open a library at run time, or say what was looked for | [`open_library`], [`open_library_with`], [`SearchedLibrary`], [`OpenError`] |
//! | a table of its functions | [`entry_points!`], [`found`], [`MissingAbility`] |
//! | bring a vendor's device | [`NativeDevice`], [`NativeQueue`], [`NativeEvent`], [`NativeKernel`], [`NativeSlots`] |
//! | bring a vendor's stream that has events or writes counters | [`stream`] |
//! | keep what a device needs beside the vendor's handle | [`Standing`], [`Books`], [`Modules`] |
//! | keep what a driver's devices share | [`Driven`], [`Opened`] |
//! | hand out queues, semaphores, host functions | [`create_queue`], [`create_semaphore`], [`semaphore_sharing`], [`call_host`] |
//! | hand out memory, pages, kernels, slots for times | [`memory`], [`host_memory`], [`virtual_memory`], [`page_sharing`], [`kernels`], [`slots`] |
//!
//! # Not here
//! What only one vendor has, and what its codes mean.

mod backend;
mod books;
mod completion;
mod driven;
mod error;
mod host_function;
pub mod host_memory;
pub mod kernels;
mod library;
mod mappings;
pub mod memory;
mod modules;
mod opened;
pub mod page_sharing;
mod placement;
mod queue;
mod semaphore;
pub mod semaphore_sharing;
pub mod slots;
mod standing;
pub mod stream;
mod symbols;
mod trace;
pub mod virtual_memory;

pub use backend::{
    CopyWay, Listener, NativeCopy, NativeDevice, NativeEvent, NativeKernel, NativeLaunch,
    NativeQueue, NativeSlots, Progress, VendorStatus,
};
pub use books::Books;
pub use driven::Driven;
pub use error::{Ability, MissingAbility, OpenError};
pub use host_function::call_host;
/// What a table is looked up in: the library that the macro names.
pub use libloading::Library;
pub use library::{Searched, SearchedLibrary, open_library, open_library_with};
pub use mappings::Mappings;
pub use modules::Modules;
pub use opened::Opened;
pub use placement::HARDWARE_QUEUES;
pub use queue::{InOrderQueue, create_queue};
pub use semaphore::create_semaphore;
pub use standing::Standing;
pub use symbols::found;
