//! One device's part of the training: its copy of the parameters, its streams, and the launches of a step.
//!
//! Everything is submitted and nothing here waits. No order is stated between streams: the buffers know who writes and
//! reads them. What a step needs beside parameters and velocity it takes from the device's pool and gives back in
//! stream order when the buffers are dropped, long before the device gets there.

use piton::{BufferError, Device, DeviceBuffer, DeviceSlice, Grid, Kernel, Stream, StreamOptions};
use piton_training::{ElementTiling, MatmulTiling, RowTiling, UpdateTiling};

use super::config::TrainingConfig;
use super::error::DemoError;
use super::network::{LAYERS, Layer, PARAMETERS, initial_parameters};
use super::staging::Share;

/// Rows of a matrix per block: a share of 32 images makes four blocks.
const ROWS_PER_BLOCK: u32 = 8;
/// Elements per block where each is treated alike.
const ELEMENTS_PER_BLOCK: u32 = 2048;

/// One device's part of the training.
#[derive(Debug)]
pub(super) struct Replica {
    /// Kernels, at the highest priority the device has.
    pub(super) compute: Stream,
    /// Copies from and to the host.
    pub(super) copies: Stream,
    /// Copies from the neighbour.
    pub(super) peers: Stream,
    /// The parameters, laid out as [`super::network`] says.
    pub(super) parameters: DeviceBuffer<f32>,
    velocity: DeviceBuffer<f32>,
    kernels: Kernels,
    /// Kernels launched so far.
    pub(super) launches: u64,
}

#[derive(Debug)]
struct Kernels {
    matmul: Kernel,
    bias_activation: Kernel,
    softmax_loss: Kernel,
    layer_gradient: Kernel,
    input_gradient: Kernel,
    add: Kernel,
    update: Kernel,
}

/// What a device computes of its share.
#[derive(Debug)]
pub(super) struct Gradient {
    /// The mean gradient over the share, laid out as the parameters.
    pub(super) gradient: DeviceBuffer<f32>,
    /// The loss of each image.
    pub(super) losses: DeviceBuffer<f32>,
}

impl Replica {
    /// A replica with the first parameters that `seed` gives.
    pub(super) fn new(device: &Device, seed: u64) -> Result<Self, DemoError> {
        let highest = device
            .raw()
            .priorities()
            .map(|range| range.highest)
            .unwrap_or_default();
        let compute = device.stream_with(StreamOptions {
            priority: highest,
            ..StreamOptions::labelled("compute")
        })?;
        let mut parameters = compute.allocate(PARAMETERS as u64)?;
        compute.write(&mut parameters, &initial_parameters(seed))?;
        Ok(Self {
            velocity: compute.allocate_zeroed(PARAMETERS as u64)?,
            parameters,
            copies: device.stream("copies")?,
            peers: device.stream("peers")?,
            kernels: Kernels::load(device)?,
            compute,
            launches: 0,
        })
    }

    /// The outputs of each layer for `rows` images: two hidden layers, then the scores.
    pub(super) fn forward(
        &mut self,
        images: &DeviceBuffer<f32>,
        rows: u32,
    ) -> Result<[DeviceBuffer<f32>; 3], BufferError> {
        let [first, second, last] = &LAYERS;
        let hidden = self.layer_forward(first, images, rows)?;
        let deeper = self.layer_forward(second, &hidden, rows)?;
        let scores = self.layer_forward(last, &deeper, rows)?;
        Ok([hidden, deeper, scores])
    }

    /// The gradient of the mean loss over a share.
    pub(super) fn gradient(&mut self, share: &Share, rows: u32) -> Result<Gradient, BufferError> {
        let [hidden, deeper, mut delta] = self.forward(&share.images, rows)?;
        let mut losses = self.compute.allocate(rows.into())?;
        let tiling = row_tiling(rows, &LAYERS[2]);
        self.launches += 1;
        self.compute
            .launch(&self.kernels.softmax_loss, grid(rows, ROWS_PER_BLOCK))
            .write(&mut delta)
            .read(&share.labels)
            .write(&mut losses)
            .value(tiling)
            .submit()?;
        let mut gradient = self.compute.allocate(PARAMETERS as u64)?;
        for (layer, inputs) in LAYERS.iter().zip([&share.images, &hidden, &deeper]).rev() {
            self.layer_gradient(layer, inputs, &delta, rows, &mut gradient)?;
            if layer.weights > 0 {
                delta = self.input_gradient(layer, inputs, &delta, rows)?;
            }
        }
        Ok(Gradient { gradient, losses })
    }

    fn layer_forward(
        &mut self,
        layer: &Layer,
        inputs: &DeviceBuffer<f32>,
        rows: u32,
    ) -> Result<DeviceBuffer<f32>, BufferError> {
        let mut outputs = self
            .compute
            .allocate(u64::from(rows) * layer.outputs as u64)?;
        let tiling = MatmulTiling {
            rows,
            inner: small(layer.inputs),
            columns: small(layer.outputs),
            rows_per_block: ROWS_PER_BLOCK,
        };
        self.launches += 2;
        self.compute
            .launch(&self.kernels.matmul, grid(rows, ROWS_PER_BLOCK))
            .read(inputs)
            .read(
                self.parameters
                    .slice(layer.weights as u64..layer.biases as u64)?,
            )
            .write(&mut outputs)
            .value(tiling)
            .submit()?;
        self.compute
            .launch(&self.kernels.bias_activation, grid(rows, ROWS_PER_BLOCK))
            .write(&mut outputs)
            .read(
                self.parameters
                    .slice(layer.biases as u64..layer.end() as u64)?,
            )
            .value(row_tiling(rows, layer))
            .submit()?;
        Ok(outputs)
    }

    fn layer_gradient(
        &mut self,
        layer: &Layer,
        inputs: &DeviceBuffer<f32>,
        delta: &DeviceBuffer<f32>,
        rows: u32,
        gradient: &mut DeviceBuffer<f32>,
    ) -> Result<(), BufferError> {
        let tiling = MatmulTiling {
            rows: small(layer.inputs),
            inner: rows,
            columns: small(layer.outputs),
            rows_per_block: ROWS_PER_BLOCK,
        };
        self.launches += 1;
        self.compute
            .launch(
                &self.kernels.layer_gradient,
                grid(tiling.rows + 1, ROWS_PER_BLOCK),
            )
            .read(inputs)
            .read(delta)
            .write(gradient.slice_mut(layer.weights as u64..layer.end() as u64)?)
            .value(tiling)
            .submit()
    }

    fn input_gradient(
        &mut self,
        layer: &Layer,
        inputs: &DeviceBuffer<f32>,
        delta: &DeviceBuffer<f32>,
        rows: u32,
    ) -> Result<DeviceBuffer<f32>, BufferError> {
        let mut result = self
            .compute
            .allocate(u64::from(rows) * layer.inputs as u64)?;
        let tiling = MatmulTiling {
            rows,
            inner: small(layer.outputs),
            columns: small(layer.inputs),
            rows_per_block: ROWS_PER_BLOCK,
        };
        self.launches += 1;
        self.compute
            .launch(&self.kernels.input_gradient, grid(rows, ROWS_PER_BLOCK))
            .read(delta)
            .read(
                self.parameters
                    .slice(layer.weights as u64..layer.biases as u64)?,
            )
            .read(inputs)
            .write(&mut result)
            .value(tiling)
            .submit()?;
        Ok(result)
    }

    /// The sum of two equally long pieces.
    pub(super) fn add(
        &mut self,
        left: DeviceSlice<'_, f32>,
        right: &DeviceBuffer<f32>,
    ) -> Result<DeviceBuffer<f32>, BufferError> {
        let mut sum = self.compute.allocate(right.len())?;
        let tiling = element_tiling(right.len());
        self.launches += 1;
        self.compute
            .launch(&self.kernels.add, grid(tiling.elements, ELEMENTS_PER_BLOCK))
            .read(left)
            .read(right)
            .write(&mut sum)
            .value(tiling)
            .submit()?;
        Ok(sum)
    }

    /// Updates the parameters from `start` on by a piece of the gradient summed over all devices.
    pub(super) fn update(
        &mut self,
        config: &TrainingConfig,
        step: usize,
        start: u64,
        piece: DeviceSlice<'_, f32>,
    ) -> Result<(), BufferError> {
        let range = start..start + piece.len();
        let tiling = element_tiling(piece.len());
        #[expect(clippy::cast_precision_loss, reason = "at most sixteen devices")]
        let devices = config.devices as f32;
        let rate = config.learning_rate_at(step);
        self.launches += 1;
        self.compute
            .launch(
                &self.kernels.update,
                grid(tiling.elements, ELEMENTS_PER_BLOCK),
            )
            .write(self.parameters.slice_mut(range.clone())?)
            .write(self.velocity.slice_mut(range)?)
            .read(piece)
            .value(UpdateTiling {
                tiling,
                devices,
                momentum: config.momentum,
                rate,
            })
            .submit()
    }
}

impl Kernels {
    fn load(device: &Device) -> Result<Self, DemoError> {
        let module = device.load(piton_training::MODULE)?;
        Ok(Self {
            matmul: module.kernel("matmul")?,
            bias_activation: module.kernel("bias_activation")?,
            softmax_loss: module.kernel("softmax_loss")?,
            layer_gradient: module.kernel("layer_gradient")?,
            input_gradient: module.kernel("input_gradient")?,
            add: module.kernel("add")?,
            update: module.kernel("update")?,
        })
    }
}

fn grid(rows: u32, rows_per_block: u32) -> Grid {
    Grid::linear(rows.div_ceil(rows_per_block))
}

fn row_tiling(rows: u32, layer: &Layer) -> RowTiling {
    RowTiling {
        rows,
        columns: small(layer.outputs),
        rows_per_block: ROWS_PER_BLOCK,
        is_hidden: layer.is_hidden.into(),
    }
}

fn element_tiling(elements: u64) -> ElementTiling {
    ElementTiling {
        elements: u32::try_from(elements).unwrap_or(u32::MAX),
        elements_per_block: ELEMENTS_PER_BLOCK,
    }
}

/// A dimension of the network, which is far below 2^32.
fn small(dimension: usize) -> u32 {
    u32::try_from(dimension).unwrap_or(u32::MAX)
}
