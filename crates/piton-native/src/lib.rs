//! What backends over a vendor's library share: how it is opened, and queues that hold back what needs the host.
//!
//! # The problem
//! Vendors' queues run commands in order and say when one has ended. The contract's do more: they wait for semaphores and
//! host functions, stop exactly at a failure, can be aborted, and tell wakers. Vendors differ in how much of that they can
//! do, and in what they make of a failure; written once for each of them it would differ as well.
//!
//! # The idea
//! **Only what can run without the host is handed over.** The queue here ([`InOrderQueue`]) is written against six small
//! traits that a backend implements ([`NativeDevice`] and what belongs to it): a vendor's in-order queue that takes
//! launches, copies, fills and barriers, and an event for each that says whether it has ended. All else is the host's:
//! `queue` says how.
//!
//! # Words
//! | I want to … | take |
//! |---|---|
//! | open a library at run time, or say what was looked for | [`open_library`], [`SearchedLibrary`] |
//! | bring a vendor's device | [`NativeDevice`], [`NativeQueue`], [`NativeEvent`], [`NativeKernel`], [`NativeSlots`] |
//! | keep what a device needs beside the vendor's handle | [`Standing`], [`Books`], [`Modules`] |
//! | keep what a driver's devices share | [`Driven`] |
//! | hand out queues, semaphores, host functions | [`create_queue`], [`create_semaphore`], [`call_host`] |
//!
//! # Not here
//! Memory, kernels, clocks: what a vendor has of those is the backend's own business.

mod backend;
mod books;
mod completion;
mod driven;
mod host_function;
mod library;
mod modules;
mod placement;
mod queue;
mod semaphore;
mod standing;
mod trace;

pub use backend::{
    CopyWay, Listener, NativeCopy, NativeDevice, NativeEvent, NativeKernel, NativeQueue,
    NativeSlots, Progress, VendorStatus,
};
pub use books::Books;
pub use driven::Driven;
pub use host_function::call_host;
pub use library::{Searched, SearchedLibrary, open_library};
pub use modules::Modules;
pub use placement::HARDWARE_QUEUES;
pub use queue::{InOrderQueue, create_queue};
pub use semaphore::create_semaphore;
pub use standing::Standing;
