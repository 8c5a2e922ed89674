// The kernels of the training in CUDA C. The same work as the functions for the simulated device, block by block: a
// block owns some rows (or elements) of the result and writes no others, and its threads share them.
//
// No headers and no library: what the compilers know of the language is enough. NVIDIA's builds it at run time (NVRTC, with
// `--fmad=false`) where it is installed; `cargo xtask ptx` says how clang made the PTX beside this file of it. Every
// operation is rounded as IEEE 754 says, so the results are the same on every device, whoever compiled it.

#ifdef __CUDACC_RTC__
#define KERNEL extern "C" __global__ void
#define DEVICE static __device__ inline
#define BLOCK blockIdx.x
#define THREAD threadIdx.x
#define THREADS blockDim.x
#define MULTIPLY_ADD __fmaf_rn
#define INFINITE __int_as_float(0x7f800000)
#else
#define KERNEL extern "C" __attribute__((global)) void
#define DEVICE static __attribute__((device)) inline
#define BLOCK __nvvm_read_ptx_sreg_ctaid_x()
#define THREAD __nvvm_read_ptx_sreg_tid_x()
#define THREADS __nvvm_read_ptx_sreg_ntid_x()
#define MULTIPLY_ADD __builtin_fmaf
#define INFINITE __builtin_huge_valf()
#endif

typedef unsigned int uint;

struct MatmulTiling { uint rows, inner, columns, rows_per_block; };
struct RowTiling { uint rows, columns, rows_per_block, is_hidden; };
struct ElementTiling { uint elements, elements_per_block; };
struct UpdateTiling { ElementTiling tiling; float devices, momentum, rate; };

DEVICE uint block() { return BLOCK; }
DEVICE uint thread() { return THREAD; }
DEVICE uint threads() { return THREADS; }
DEVICE uint least(uint a, uint b) { return a < b ? a : b; }

// The first of the rows that this block owns, and the one after its last.
DEVICE uint first_of(uint rows, uint rows_per_block) { return least(block() * rows_per_block, rows); }
DEVICE uint last_of(uint rows, uint rows_per_block) { return least(first_of(rows, rows_per_block) + rows_per_block, rows); }

// e to the power of a number from -1 to 1, less one: the series, whose next term is below 3e-9.
DEVICE float exponential_less_one(float x) {
    float sum = 1.0f / 39916800.0f;
    sum = MULTIPLY_ADD(sum, x, 1.0f / 3628800.0f);
    sum = MULTIPLY_ADD(sum, x, 1.0f / 362880.0f);
    sum = MULTIPLY_ADD(sum, x, 1.0f / 40320.0f);
    sum = MULTIPLY_ADD(sum, x, 1.0f / 5040.0f);
    sum = MULTIPLY_ADD(sum, x, 1.0f / 720.0f);
    sum = MULTIPLY_ADD(sum, x, 1.0f / 120.0f);
    sum = MULTIPLY_ADD(sum, x, 1.0f / 24.0f);
    sum = MULTIPLY_ADD(sum, x, 1.0f / 6.0f);
    sum = MULTIPLY_ADD(sum, x, 0.5f);
    return MULTIPLY_ADD(sum * x, x, x);
}

// e to the power of a number: a power of two, times what is left. Below -87 it is zero, above 88 infinite.
DEVICE float exponential(float x) {
    if (x < -87.0f) return 0.0f;
    if (x > 88.0f) return INFINITE;
    int power = (int)(x * 1.44269504f + (x < 0.0f ? -0.5f : 0.5f));
    // ln 2 in two parts, the first of which has so few digits that its product with a power is exact.
    float rest = MULTIPLY_ADD((float)power, -0.693145752f, x);
    rest = MULTIPLY_ADD((float)power, -1.42860677e-6f, rest);
    union { int bits; float value; } two = { (power + 127) << 23 };
    return MULTIPLY_ADD(two.value, exponential_less_one(rest), two.value);
}

// The logarithm of a positive number: of its power of two, and of the factor near one by the series of the inverse of tanh.
DEVICE float logarithm(float x) {
    union { float value; int bits; } factor = { x };
    int power = (factor.bits >> 23) - 127;
    factor.bits = (factor.bits & 0x7fffff) | (127 << 23);
    if (factor.value > 1.41421356f) {
        factor.value *= 0.5f;
        power += 1;
    }
    float ratio = (factor.value - 1.0f) / (factor.value + 1.0f), square = ratio * ratio;
    float sum = 1.0f / 11.0f;
    sum = MULTIPLY_ADD(sum, square, 1.0f / 9.0f);
    sum = MULTIPLY_ADD(sum, square, 1.0f / 7.0f);
    sum = MULTIPLY_ADD(sum, square, 1.0f / 5.0f);
    sum = MULTIPLY_ADD(sum, square, 1.0f / 3.0f);
    float small = MULTIPLY_ADD(2.0f * ratio * square, sum, 2.0f * ratio);
    return MULTIPLY_ADD((float)power, 0.693145752f, MULTIPLY_ADD((float)power, 1.42860677e-6f, small));
}

DEVICE float hyperbolic_tangent(float x) {
    float size = x < 0.0f ? -x : x, result;
    if (size < 0.5f) {
        float less_one = exponential_less_one(2.0f * size);
        result = less_one / (less_one + 2.0f);
    } else {
        result = 1.0f - 2.0f / (exponential(2.0f * size) + 1.0f);
    }
    return x < 0.0f ? -result : result;
}

// result = left x right
KERNEL matmul(const float *left, const float *right, float *result, MatmulTiling t) {
    uint first = first_of(t.rows, t.rows_per_block) * t.columns, last = last_of(t.rows, t.rows_per_block) * t.columns;
    for (uint at = first + thread(); at < last; at += threads()) {
        uint row = at / t.columns, column = at % t.columns;
        float sum = 0.0f;
        for (uint k = 0; k < t.inner; k++) sum += left[row * t.inner + k] * right[k * t.columns + column];
        result[at] = sum;
    }
}

// Adds the biases to each row and, in hidden layers, puts the sums through tanh.
KERNEL bias_activation(float *values, const float *biases, RowTiling t) {
    uint first = first_of(t.rows, t.rows_per_block) * t.columns, last = last_of(t.rows, t.rows_per_block) * t.columns;
    for (uint at = first + thread(); at < last; at += threads()) {
        float sum = values[at] + biases[at % t.columns];
        values[at] = t.is_hidden == 1 ? hyperbolic_tangent(sum) : sum;
    }
}

// Turns each row of scores into the gradient of the mean loss by them, and writes the row's loss. A thread has a row.
KERNEL softmax_loss(float *scores, const uint *labels, float *losses, RowTiling t) {
    uint last = last_of(t.rows, t.rows_per_block);
    for (uint row = first_of(t.rows, t.rows_per_block) + thread(); row < last; row += threads()) {
        float *values = scores + row * t.columns;
        float largest = -INFINITE, total = 0.0f;
        for (uint kind = 0; kind < t.columns; kind++) largest = values[kind] > largest ? values[kind] : largest;
        for (uint kind = 0; kind < t.columns; kind++) {
            values[kind] = exponential(values[kind] - largest);
            total += values[kind];
        }
        for (uint kind = 0; kind < t.columns; kind++) {
            float probability = values[kind] / total;
            bool is_right = kind == labels[row];
            if (is_right) losses[row] = -logarithm(probability);
            values[kind] = (probability - (is_right ? 1.0f : 0.0f)) / (float)t.rows;
        }
    }
}

// The gradient of a layer's parameters: inputs transposed times delta, and the sum of delta as the last row.
KERNEL layer_gradient(const float *inputs, const float *delta, float *result, MatmulTiling t) {
    uint rows = t.rows + 1;
    uint first = first_of(rows, t.rows_per_block) * t.columns, last = last_of(rows, t.rows_per_block) * t.columns;
    for (uint at = first + thread(); at < last; at += threads()) {
        uint row = at / t.columns, column = at % t.columns;
        float sum = 0.0f;
        for (uint image = 0; image < t.inner; image++) {
            // Behind the last weight comes the bias, whose input is always one.
            float input = row < t.rows ? inputs[image * t.rows + row] : 1.0f;
            sum += input * delta[image * t.columns + column];
        }
        result[at] = sum;
    }
}

// The gradient of a layer's inputs, through the tanh that made them.
KERNEL input_gradient(const float *delta, const float *weights, const float *inputs, float *result, MatmulTiling t) {
    uint first = first_of(t.rows, t.rows_per_block) * t.columns, last = last_of(t.rows, t.rows_per_block) * t.columns;
    for (uint at = first + thread(); at < last; at += threads()) {
        uint row = at / t.columns, column = at % t.columns;
        float sum = 0.0f;
        for (uint k = 0; k < t.inner; k++) sum += delta[row * t.inner + k] * weights[column * t.inner + k];
        result[at] = sum * (1.0f - inputs[at] * inputs[at]);
    }
}

// result = left + right
KERNEL add(const float *left, const float *right, float *result, ElementTiling t) {
    uint last = last_of(t.elements, t.elements_per_block);
    for (uint at = first_of(t.elements, t.elements_per_block) + thread(); at < last; at += threads()) {
        result[at] = left[at] + right[at];
    }
}

// velocity = momentum * velocity + gradient / devices, parameter -= rate * velocity
KERNEL update(float *parameters, float *velocity, const float *gradient, UpdateTiling u) {
    ElementTiling t = u.tiling;
    uint last = last_of(t.elements, t.elements_per_block);
    for (uint at = first_of(t.elements, t.elements_per_block) + thread(); at < last; at += threads()) {
        velocity[at] = u.momentum * velocity[at] + gradient[at] / u.devices;
        parameters[at] -= u.rate * velocity[at];
    }
}
