//! Copies of more memory than the caches hold.
//!
//! # The problem
//! `memcpy` is made for what is copied most: little, that is used next. Where much is copied it fetches each line of
//! the destination only to overwrite it, and pushes out of the caches what was there. C libraries know other ways and
//! take them from a length on that is far too large for the chunks that a long copy is made of here.
//!
//! # The idea
//! Two ways, and who copies says which: into a chunk that lies in a cache and is used again and again ([`copy_cached`]), or where more
//! follow than the caches hold ([`copy_streaming`]). Both go through four pages side by side, since a processor
//! fetches ahead within a page and in several at once, and ask for the next four meanwhile. Streaming stores write whole lines
//! to memory and read none of the destination. What both are worth is in `docs/benchmarks.md`.
//!
//! | I want to … | take |
//! |---|---|
//! | fill a chunk on the way | [`copy_cached`] |
//! | copy more than the caches hold | [`copy_streaming`] |
//! | do either between memory that others may use | [`copy_cached_raw`], [`copy_streaming_raw`] |
//!
//! # Guarantees
//! The destination has the bytes of the source when a call returns, for whoever comes after the calling thread in the
//! ordinary way: streaming stores are fenced. On machines whose instructions this crate does not know, under Miri and in
//! models every call is a plain copy.
//!
//! # Not here
//! Which way a copy is to go, and threads: that is the caller's.

#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
mod lines;
#[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
mod plain;
mod way;

pub use way::{copy_cached, copy_cached_raw, copy_streaming, copy_streaming_raw};
