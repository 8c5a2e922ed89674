//! Copies of more memory than the caches hold.
//!
//! # The problem
//! `memcpy` is made for the usual copy: a small one, whose destination is used next. In a large copy it fetches each line of
//! the destination only to overwrite it, and pushes everything else out of the caches. C libraries know other ways, but
//! take them only from a length on that is far above the chunks that a long copy is made of here.
//!
//! # The idea
//! There are two ways, and the caller chooses: [`copy_cached`] for a chunk that lies in a cache and is used again and again,
//! [`copy_streaming`] where more follows than the caches hold. Both go through four pages side by side, since a processor
//! fetches ahead within a page and in several pages at once, and ask for the next four meanwhile. Streaming stores write whole lines
//! to memory and read nothing of the destination. What each way gains is in `docs/benchmarks.md`.
//!
//! | I want to … | take |
//! |---|---|
//! | fill a chunk on the way | [`copy_cached`] |
//! | copy more than the caches hold | [`copy_streaming`] |
//! | do either between memory that others may use | [`copy_cached_raw`], [`copy_streaming_raw`] |
//!
//! # Guarantees
//! When a call returns, the destination has the bytes of the source, also for other threads that synchronise with the calling
//! thread in the ordinary way: streaming stores are fenced. On machines whose instructions this crate does not know, under Miri
//! and in models, every call is a plain copy.
//!
//! # Not here
//! Choosing the way a copy goes, and using several threads: both are up to the caller.

#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
mod lines;
#[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
mod plain;
mod way;

pub use way::{copy_cached, copy_cached_raw, copy_streaming, copy_streaming_raw};
