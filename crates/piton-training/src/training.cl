// The kernels of the training in OpenCL C. The same work as the functions for the simulated device, block by block: a
// block is a work group of one item, owns some rows (or elements) of the result and writes no others.

typedef struct { uint rows, inner, columns, rows_per_block; } MatmulTiling;
typedef struct { uint rows, columns, rows_per_block, is_hidden; } RowTiling;
typedef struct { uint elements, elements_per_block; } ElementTiling;
typedef struct { ElementTiling tiling; float devices, momentum, rate; } UpdateTiling;

#pragma OPENCL FP_CONTRACT OFF

// The first of the rows that this block owns, and the one after its last.
uint first_of(uint rows, uint rows_per_block) { return min((uint)get_group_id(0) * rows_per_block, rows); }
uint last_of(uint rows, uint rows_per_block) { return min(first_of(rows, rows_per_block) + rows_per_block, rows); }

// result = left x right
__kernel void matmul(__global const float *left, __global const float *right, __global float *result, MatmulTiling t) {
    for (uint row = first_of(t.rows, t.rows_per_block); row < last_of(t.rows, t.rows_per_block); row++) {
        __global float *out = result + row * t.columns;
        for (uint column = 0; column < t.columns; column++) out[column] = 0;
        for (uint k = 0; k < t.inner; k++) {
            float factor = left[row * t.inner + k];
            for (uint column = 0; column < t.columns; column++) out[column] += factor * right[k * t.columns + column];
        }
    }
}

// Adds the biases to each row and, in hidden layers, puts the sums through tanh.
__kernel void bias_activation(__global float *values, __global const float *biases, RowTiling t) {
    for (uint row = first_of(t.rows, t.rows_per_block); row < last_of(t.rows, t.rows_per_block); row++) {
        for (uint column = 0; column < t.columns; column++) {
            float sum = values[row * t.columns + column] + biases[column];
            values[row * t.columns + column] = t.is_hidden == 1 ? tanh(sum) : sum;
        }
    }
}

// Turns each row of scores into the gradient of the mean loss by them, and writes the row's loss.
__kernel void softmax_loss(__global float *scores, __global const uint *labels, __global float *losses, RowTiling t) {
    for (uint row = first_of(t.rows, t.rows_per_block); row < last_of(t.rows, t.rows_per_block); row++) {
        __global float *values = scores + row * t.columns;
        float largest = -INFINITY, total = 0;
        for (uint class = 0; class < t.columns; class++) largest = fmax(largest, values[class]);
        for (uint class = 0; class < t.columns; class++) {
            values[class] = exp(values[class] - largest);
            total += values[class];
        }
        for (uint class = 0; class < t.columns; class++) {
            float probability = values[class] / total;
            bool is_right = class == labels[row];
            if (is_right) losses[row] = -log(probability);
            values[class] = (probability - (is_right ? 1.0f : 0.0f)) / (float)t.rows;
        }
    }
}

// The gradient of a layer's parameters: inputs transposed times delta, and the sum of delta as the last row.
__kernel void layer_gradient(__global const float *inputs, __global const float *delta, __global float *result, MatmulTiling t) {
    for (uint row = first_of(t.rows + 1, t.rows_per_block); row < last_of(t.rows + 1, t.rows_per_block); row++) {
        __global float *out = result + row * t.columns;
        for (uint column = 0; column < t.columns; column++) out[column] = 0;
        for (uint image = 0; image < t.inner; image++) {
            // Behind the last weight comes the bias, whose input is always one.
            float input = row < t.rows ? inputs[image * t.rows + row] : 1.0f;
            for (uint column = 0; column < t.columns; column++) out[column] += input * delta[image * t.columns + column];
        }
    }
}

// The gradient of a layer's inputs, through the tanh that made them.
__kernel void input_gradient(__global const float *delta, __global const float *weights, __global const float *inputs, __global float *result, MatmulTiling t) {
    for (uint row = first_of(t.rows, t.rows_per_block); row < last_of(t.rows, t.rows_per_block); row++) {
        for (uint column = 0; column < t.columns; column++) {
            float sum = 0;
            for (uint k = 0; k < t.inner; k++) sum += delta[row * t.inner + k] * weights[column * t.inner + k];
            float input = inputs[row * t.columns + column];
            result[row * t.columns + column] = sum * (1.0f - input * input);
        }
    }
}

// result = left + right
__kernel void add(__global const float *left, __global const float *right, __global float *result, ElementTiling t) {
    for (uint i = first_of(t.elements, t.elements_per_block); i < last_of(t.elements, t.elements_per_block); i++) {
        result[i] = left[i] + right[i];
    }
}

// velocity = momentum * velocity + gradient / devices, parameter -= rate * velocity
__kernel void update(__global float *parameters, __global float *velocity, __global const float *gradient, UpdateTiling u) {
    ElementTiling t = u.tiling;
    for (uint i = first_of(t.elements, t.elements_per_block); i < last_of(t.elements, t.elements_per_block); i++) {
        velocity[i] = u.momentum * velocity[i] + gradient[i] / u.devices;
        parameters[i] -= u.rate * velocity[i];
    }
}
