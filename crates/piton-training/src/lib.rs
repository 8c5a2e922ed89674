//! The kernels of the demonstration's training, in every language that a backend takes.
//!
//! # The problem
//! `piton demo` trains the same network on devices of any kind. A stand-in for a vendor's library runs it too, though it
//! cannot run the vendor's code. So the kernels are defined in one place, below both the command and the stand-ins.
//!
//! # The idea
//! Every kernel runs over a grid of blocks, each of which owns some rows (or elements) of the result and writes no
//! others. A struct of *tiling data* says how the work is divided; it is passed by value through the device's parameter
//! store, as for kernels of real accelerators. Matrices are stored row by row; a layer's parameters are its weights, one row
//! per input, and one more row with the biases.
//!
//! # What to take
//! | I want … | take |
//! |---|---|
//! | what each kernel takes, on every backend | [`signatures`] and the tilings |
//! | them as functions, for simulated devices | [`simulated::module`] |
//! | them as text, for a vendor's compiler | [`OPENCL_C`], [`CUDA_C`], [`PTX`] |

pub mod simulated;

use bytemuck::{Pod, Zeroable};
use piton_driver::{Parameter, Signature};

/// The kernels in OpenCL C. A block is a work group of one item.
pub const OPENCL_C: &str = include_str!("training.cl");

/// The kernels in CUDA C, for NVIDIA's compiler with [`CUDA_OPTIONS`].
pub const CUDA_C: &str = include_str!("training.cu");

/// What NVIDIA's compiler is to be told: that each operation is rounded for itself, as it is in [`PTX`].
pub const CUDA_OPTIONS: &[&str] = &["--fmad=false"];

/// The kernels in PTX, which clang made of the CUDA C beside it (`cargo xtask ptx` compares). The threads of a block share its
/// elements, so there may be any number of them; [`PTX_THREADS`] suit the sizes of the training.
pub const PTX: &str = include_str!("training.ptx");

/// Threads of a block of [`PTX`].
pub const PTX_THREADS: u32 = 64;

/// Name under which the kernels are registered.
pub const MODULE: &str = "training";

/// How a product of two matrices is divided into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct MatmulTiling {
    /// Rows of the result.
    pub rows: u32,
    /// Columns of the left matrix, rows of the right one.
    pub inner: u32,
    /// Columns of the result.
    pub columns: u32,
    /// Rows of the result per block.
    pub rows_per_block: u32,
}

/// How work on the rows of one matrix is divided into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RowTiling {
    /// Rows of the matrix.
    pub rows: u32,
    /// Columns of the matrix.
    pub columns: u32,
    /// Rows per block.
    pub rows_per_block: u32,
    /// Do values go through tanh? 1 or 0.
    pub is_hidden: u32,
}

/// How work on equal elements is divided into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ElementTiling {
    /// Elements.
    pub elements: u32,
    /// Elements per block.
    pub elements_per_block: u32,
}

/// An update of parameters, and how it is divided into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct UpdateTiling {
    /// The division.
    pub tiling: ElementTiling,
    /// Devices whose gradients were summed.
    pub devices: f32,
    /// Share of the previous update kept.
    pub momentum: f32,
    /// Learning rate of the step.
    pub rate: f32,
}

/// What each kernel takes, by its name: the same on every backend.
#[must_use]
pub fn signatures() -> [(&'static str, Signature); 7] {
    let read = Parameter::read::<f32>;
    let write = Parameter::write::<f32>;
    let by_matrix = Parameter::value::<MatmulTiling>();
    let by_row = Parameter::value::<RowTiling>();
    let by_element = Parameter::value::<ElementTiling>();
    let by_update = Parameter::value::<UpdateTiling>();
    let labels = Parameter::read::<u32>();
    let takes = |parameters: &[Parameter]| Signature::new(parameters.iter().copied());
    [
        ("matmul", takes(&[read(), read(), write(), by_matrix])),
        ("bias_activation", takes(&[write(), read(), by_row])),
        ("softmax_loss", takes(&[write(), labels, write(), by_row])),
        (
            "layer_gradient",
            takes(&[read(), read(), write(), by_matrix]),
        ),
        (
            "input_gradient",
            takes(&[read(), read(), read(), write(), by_matrix]),
        ),
        ("add", takes(&[read(), read(), write(), by_element])),
        ("update", takes(&[write(), write(), read(), by_update])),
    ]
}
