//! The kernels as functions for the simulated device.
//!
//! How a sum is taken, and in which order, is part of what they do: the plain training judges them to a few roundings.

use crate::{ElementTiling, MODULE, MatmulTiling, RowTiling, UpdateTiling, signatures};
use piton_driver::Fault;
use piton_sim::{Block, KernelDefinition, SimModule};
use std::ops::Range;

/// What a block of a kernel does.
type Body = fn(&Block<'_>) -> Result<(), Fault>;

/// All of them, to be registered with a runtime or a driver.
#[must_use]
pub fn module() -> SimModule {
    let bodies: [Body; 7] = [
        matmul,
        bias_activation,
        softmax_loss,
        layer_gradient,
        input_gradient,
        add,
        update,
    ];
    let defined = signatures().into_iter().zip(bodies);
    defined.fold(SimModule::new(MODULE), |module, ((name, takes), body)| {
        module.with(KernelDefinition::new(name, takes, body))
    })
}

/// `result = left x right`.
fn matmul(block: &Block<'_>) -> Result<(), Fault> {
    let tiling: MatmulTiling = block.value(3)?;
    let (inner, columns) = (tiling.inner as usize, tiling.columns as usize);
    let rows = part(block, tiling.rows, tiling.rows_per_block);
    let left = block.read::<f32>(0, elements(&rows, tiling.inner))?;
    let right = block.read::<f32>(1, elements(&(0..tiling.inner), tiling.columns))?;
    let result = block.write::<f32>(2, elements(&rows, tiling.columns))?;
    for (row, out) in left
        .chunks_exact(inner)
        .zip(result.chunks_exact_mut(columns))
    {
        out.fill(0.0);
        for (factor, weights) in row.iter().zip(right.chunks_exact(columns)) {
            out.iter_mut()
                .zip(weights)
                .for_each(|(sum, weight)| *sum += factor * weight);
        }
    }
    Ok(())
}

/// Adds the biases to each row and, in hidden layers, puts the sums through tanh.
fn bias_activation(block: &Block<'_>) -> Result<(), Fault> {
    let tiling: RowTiling = block.value(2)?;
    let rows = part(block, tiling.rows, tiling.rows_per_block);
    let biases = block.read::<f32>(1, 0..u64::from(tiling.columns))?;
    let values = block.write::<f32>(0, elements(&rows, tiling.columns))?;
    for row in values.chunks_exact_mut(tiling.columns as usize) {
        for (value, bias) in row.iter_mut().zip(biases) {
            let sum = *value + bias;
            *value = if tiling.is_hidden == 1 {
                sum.tanh()
            } else {
                sum
            };
        }
    }
    Ok(())
}

/// Turns each row of scores into the gradient of the mean loss by them, and writes the row's loss.
fn softmax_loss(block: &Block<'_>) -> Result<(), Fault> {
    let tiling: RowTiling = block.value(3)?;
    let rows = part(block, tiling.rows, tiling.rows_per_block);
    let labels = block.read::<u32>(1, elements(&rows, 1))?;
    let losses = block.write::<f32>(2, elements(&rows, 1))?;
    let scores = block.write::<f32>(0, elements(&rows, tiling.columns))?;
    let images = real(tiling.rows);
    for ((row, label), loss) in scores
        .chunks_exact_mut(tiling.columns as usize)
        .zip(labels)
        .zip(losses)
    {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        row.iter_mut()
            .for_each(|score| *score = (*score - largest).exp());
        let total: f32 = row.iter().sum();
        for (class, value) in (0_u32..).zip(row) {
            let probability = *value / total;
            let is_right = class == *label;
            if is_right {
                *loss = -probability.ln();
            }
            *value = (probability - f32::from(u8::from(is_right))) / images;
        }
    }
    Ok(())
}

/// The gradient of a layer's parameters: inputs transposed times `delta`, and the sum of `delta` as the last row.
/// The result has one row more than `rows` says: that of the biases.
fn layer_gradient(block: &Block<'_>) -> Result<(), Fault> {
    let tiling: MatmulTiling = block.value(3)?;
    let (weights, columns) = (tiling.rows, tiling.columns as usize);
    let rows = part(block, weights + 1, tiling.rows_per_block);
    let inputs = block.read::<f32>(0, elements(&(0..tiling.inner), weights))?;
    let delta = block.read::<f32>(1, elements(&(0..tiling.inner), tiling.columns))?;
    let result = block.write::<f32>(2, elements(&rows, tiling.columns))?;
    for (row, out) in rows.zip(result.chunks_exact_mut(columns)) {
        out.fill(0.0);
        for (image, delta) in inputs
            .chunks_exact(weights as usize)
            .zip(delta.chunks_exact(columns))
        {
            // Behind the last weight comes the bias, whose input is always one.
            let input = image.get(row as usize).copied().unwrap_or(1.0);
            out.iter_mut()
                .zip(delta)
                .for_each(|(sum, delta)| *sum += input * delta);
        }
    }
    Ok(())
}

/// The gradient of a layer's inputs, through the tanh that made them: `delta` times weights transposed, times
/// `1 - input * input`.
fn input_gradient(block: &Block<'_>) -> Result<(), Fault> {
    let tiling: MatmulTiling = block.value(4)?;
    let (inner, columns) = (tiling.inner as usize, tiling.columns as usize);
    let rows = part(block, tiling.rows, tiling.rows_per_block);
    let delta = block.read::<f32>(0, elements(&rows, tiling.inner))?;
    let weights = block.read::<f32>(1, elements(&(0..tiling.columns), tiling.inner))?;
    let inputs = block.read::<f32>(2, elements(&rows, tiling.columns))?;
    let result = block.write::<f32>(3, elements(&rows, tiling.columns))?;
    let by_row = delta.chunks_exact(inner).zip(inputs.chunks_exact(columns));
    for ((delta, inputs), out) in by_row.zip(result.chunks_exact_mut(columns)) {
        for ((value, input), weights) in out.iter_mut().zip(inputs).zip(weights.chunks_exact(inner))
        {
            let sum: f32 = delta
                .iter()
                .zip(weights)
                .map(|(delta, weight)| delta * weight)
                .sum();
            *value = sum * (1.0 - input * input);
        }
    }
    Ok(())
}

/// `result = left + right`.
fn add(block: &Block<'_>) -> Result<(), Fault> {
    let tiling: ElementTiling = block.value(3)?;
    let range = elements(&part(block, tiling.elements, tiling.elements_per_block), 1);
    let left = block.read::<f32>(0, range.clone())?;
    let right = block.read::<f32>(1, range.clone())?;
    let result = block.write::<f32>(2, range)?;
    for ((sum, left), right) in result.iter_mut().zip(left).zip(right) {
        *sum = left + right;
    }
    Ok(())
}

/// `velocity = momentum * velocity + gradient / devices`, `parameter -= rate * velocity`.
fn update(block: &Block<'_>) -> Result<(), Fault> {
    let UpdateTiling {
        tiling,
        devices,
        momentum,
        rate,
    } = block.value(3)?;
    let range = elements(&part(block, tiling.elements, tiling.elements_per_block), 1);
    let gradient = block.read::<f32>(2, range.clone())?;
    let velocity = block.write::<f32>(1, range.clone())?;
    let parameters = block.write::<f32>(0, range)?;
    for ((parameter, velocity), gradient) in parameters.iter_mut().zip(velocity).zip(gradient) {
        *velocity = momentum * *velocity + gradient / devices;
        *parameter -= rate * *velocity;
    }
    Ok(())
}

/// The rows that a block owns.
fn part(block: &Block<'_>, rows: u32, rows_per_block: u32) -> Range<u32> {
    let start = block.index().x.saturating_mul(rows_per_block).min(rows);
    start..start.saturating_add(rows_per_block).min(rows)
}

/// The elements of some rows.
fn elements(rows: &Range<u32>, columns: u32) -> Range<u64> {
    u64::from(rows.start) * u64::from(columns)..u64::from(rows.end) * u64::from(columns)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "images of one step, far below 2^24"
)]
fn real(count: u32) -> f32 {
    count as f32
}
