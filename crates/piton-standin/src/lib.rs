//! What stand-ins for vendors' libraries share.
//!
//! # The problem
//! Backends call vendors' libraries, which build machines do not have. A stand-in is a shared library over the simulated device that
//! exports the functions a backend looks up. It shows what the backend asks, in which order, and what it makes of the answers.
//!
//! # The idea
//! Vendors differ in names, types and codes; what lies behind them is the same. Here are streams and events over queues of
//! [`piton_sim`] ([`Stream`], [`Event`]), the memory and pages of a context ([`Context`]), handles that are never given out
//! twice ([`Handles`]), kernels that are found by name ([`kernels`], [`Loaded`]), calls that fail on request ([`Switches`]),
//! and the macro that exports functions ([`entry_points!`]); and what tests of backends do on any of them ([`trial`]).
//! Everything is strict where the real libraries are lax.
//!
//! # What no stand-in can prove
//! What the vendor's library really does. A stand-in does what the public reference says and what we read into it, and nothing
//! here says how fast anything is.

mod calls;
mod codes;
mod context;
mod handles;
pub mod kernels;
pub mod library;
mod loaded;
mod machine;
mod stream;
pub mod trial;

pub use calls::{Fill, Switches, answer};
pub use codes::{Answer, Code, Codes};
pub use context::{Content, Context, Mapping};
pub use handles::Handles;
pub use loaded::{Function, Loaded};
pub use machine::{DEVICES, machine};
pub use stream::{Event, Stream};
