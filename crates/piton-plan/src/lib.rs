//! Offline planning of memory: where each block goes when all lifetimes are known, and how to serve a program that
//! repeats.
//!
//! ```
//! use piton_plan::{Block, PlaceConfig, place};
//!
//! // Bytes, and the instants between which a block lives.
//! let block = |bytes, birth, death| Block { bytes, birth, death };
//! let blocks = [block(1024, 0, 2), block(512, 1, 4), block(512, 2, 3), block(1024, 3, 5)];
//! let placement = place(&blocks, &PlaceConfig::default())?;
//! placement.check(&blocks)?;
//! assert_eq!(placement.height(), placement.peak_live());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Problem
//! An allocator that learns of a block only when it is asked for it leaves holes, because it cannot know which blocks
//! will live long. But programs that train or serve a model do the same again and again. What was seen once can be
//! placed with hindsight, and later rounds can be served from a table.
//!
//! # Idea
//! A block is a rectangle: as high as it has bytes, as wide as its lifetime. [`place`] places the largest first, each
//! at the lowest address that is free throughout its lifetime. Then it moves the blocks that stuck out at the top to
//! the front of the order and tries again, until the height is the peak of live bytes or the allowed number of tries
//! is used up. Where a few large blocks decide the height, it tries those by themselves, in hundreds of orders. An
//! index over time says which addresses are taken when, so a million blocks take seconds.
//!
//! A [`Recorder`] listens to one round of a program, a *step*, and makes a [`Plan`] of it: the k-th request of a step
//! asks for these bytes on this stream and gets this offset. A [`PlanCursor`] follows later steps. A request that is
//! not the expected one, or whose place is not free, *departs* from the plan: the caller serves it elsewhere, and
//! nothing else changes.
//!
//! This crate never sees an address, a device or a clock.
//!
//! # Guarantees
//! - Blocks of a [`Placement`] that live at the same time never overlap. [`Placement::check`] verifies this by another
//!   method than [`place`] uses.
//! - Blocks that a [`PlanCursor`] has handed out and that are not freed never overlap, whatever the program does.
//! - The same input gives the same plan. No public function panics, whatever it is given.
//!
//! # Not here
//! The order of streams. A plan lets memory pass from one block to the next; the pool that serves from it has to make
//! sure that the first block's last use comes before the second block's first, as it does for all memory.
//!
//! | I want to | type |
//! | --- | --- |
//! | place blocks of known lifetimes | [`place`], [`Block`], [`Placement`] |
//! | try harder, or less hard | [`PlaceConfig`] |
//! | record a step | [`Recorder`] |
//! | serve later steps | [`Plan`], [`PlanCursor`] |

#![forbid(unsafe_code)]

mod block;
mod cursor;
mod error;
mod instants;
mod levels;
mod occupancy;
mod order;
mod pass;
mod pieces;
mod place;
mod placement;
mod plan;
mod ragged;
mod recorder;
mod runs;

pub use block::Block;
pub use cursor::{Answer, Departure, PlanCursor};
pub use error::{Overlap, PlaceError, RecordError};
pub use order::Order;
pub use place::{MAX_BLOCKS, PlaceConfig, place};
pub use placement::Placement;
pub use plan::{Expected, Plan};
pub use recorder::Recorder;
