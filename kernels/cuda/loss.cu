// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/loss.cu -- softmax, the losses, penalties, unscale and check.
//
// Softmax and cross-entropy have one warp per row; a lane only ever touches its
// own columns, so gradients may replace logits. Sums of losses are f64.
#include "kernels/cuda/cuda_device.cuh"

#define ROWS (CUDA_THREADS / 32) // of a block

DEV int64_t row_number(void)
{
    return (int64_t)blockIdx.x * ROWS + threadIdx.x / 32;
}

struct largest {
    float value;
    int at; // the first of equals
};

// Finds the largest value of a row, the first of equals; a row has at least one
// column.
template <class T> DEV struct largest row_largest(const T *x, int cols)
{
    struct largest best = {-INFINITY, cols};

    for (int c = threadIdx.x % 32; c < cols; c += 32) {
        float v = elem_float(x[c]);

        if (best.at == cols || v > best.value) {
            best.value = v;
            best.at = c;
        }
    }
    for (int step = 16; step > 0; step /= 2) {
        float value = __shfl_xor_sync(ALL_LANES, best.value, step);
        int at = __shfl_xor_sync(ALL_LANES, best.at, step);

        if (at < cols && (best.at == cols || value > best.value ||
                          (value == best.value && at < best.at))) {
            best.value = value;
            best.at = at;
        }
    }
    return best;
}

template <class T> DEV float row_sum_exp(const T *x, int cols, float max)
{
    float sum = 0;

    for (int c = threadIdx.x % 32; c < cols; c += 32)
        sum += expf(elem_float(x[c]) - max);
    return warp_sum(sum);
}

// ---- Softmax --------------------------------------------------------------

template <class T> DEV void softmax_fwd_of(const struct args_softmax &a)
{
    int64_t row = row_number();

    if (row >= a.rows)
        return;
    const T *x = (const T *)a.x + row * a.cols;
    T *y = (T *)a.y + row * a.cols;
    float max = row_largest(x, a.cols).value;
    float sum = row_sum_exp(x, a.cols, max);

    for (int c = threadIdx.x % 32; c < a.cols; c += 32)
        elem_store(y + c, expf(elem_float(x[c]) - max) / sum);
}

template <class T> DEV void softmax_bwd_of(const struct args_softmax &a)
{
    int64_t row = row_number();

    if (row >= a.rows)
        return;
    const T *y = (const T *)a.x + row * a.cols;
    const T *dy = (const T *)a.dy + row * a.cols;
    T *dx = (T *)a.y + row * a.cols;
    float dot = 0;

    for (int c = threadIdx.x % 32; c < a.cols; c += 32)
        dot += elem_float(y[c]) * elem_float(dy[c]);
    dot = warp_sum(dot);
    for (int c = threadIdx.x % 32; c < a.cols; c += 32)
        elem_store(dx + c, elem_float(y[c]) * (elem_float(dy[c]) - dot));
}

// ---- Cross-entropy --------------------------------------------------------

// Are fewer than `top` before class `label`? A column is read by its own lane
// alone, as gradients may replace logits.
template <class T>
DEV bool cuda_is_in_top(const T *x, int cols, int label, int top)
{
    int lane = threadIdx.x % 32, before = 0;
    float mine = lane == label % 32 ? elem_float(x[label]) : 0;

    mine = __shfl_sync(ALL_LANES, mine, label % 32);
    for (int c = lane; c < cols; c += 32) {
        float v = elem_float(x[c]);

        before += v > mine || (c < label && v == mine);
    }
    return warp_sum(before) < top && mine == mine;
}

DEV int xent_label(const struct args_xent &a, int64_t row)
{
    return a.label[row * a.label_each];
}

// One row against its label's distribution; returns the loss.
template <class T>
DEV float cuda_xent_row(const struct args_xent &a, int64_t row, bool *right)
{
    const T *x = (const T *)a.x + row * a.cols;
    const float *target = a.label ? nullptr : a.target + row * a.cols;
    T *dx = (T *)a.dx + row * a.cols;
    int label = a.label ? xent_label(a, row) : row_largest(target, a.cols).at;
    struct largest max = row_largest(x, a.cols);
    float sum = row_sum_exp(x, a.cols, max.value), log_sum = logf(sum);
    float weight = a.weight ? a.weight[row] : 1;
    float loss = 0, scale = weight * *a.scale, even = a.smoothing;

    *right =
        a.top > 1 ? cuda_is_in_top(x, a.cols, label, a.top) : max.at == label;
    for (int c = threadIdx.x % 32; c < a.cols; c += 32) {
        float far = elem_float(x[c]) - max.value;
        float t = target ? target[c] : c == label;

        if (even > 0)
            t = t * (1 - even) + even / a.cols;

        if (t != 0)
            loss -= t * (far - log_sum);
        elem_store(dx + c, scale * (expf(far) / sum - t));
    }
    return weight * warp_sum(loss);
}

// A label that is none: the row and the loss become NaN.
template <class T> DEV void xent_nan(const struct args_xent &a, int64_t row)
{
    for (int c = threadIdx.x % 32; c < a.cols; c += 32)
        elem_store((T *)a.dx + row * a.cols + c, NAN);
}

template <class T> DEV void xent_of(const struct args_xent &a)
{
    int64_t row = row_number();
    float loss = 0;
    bool right = false;

    if (row < a.rows) {
        int label = a.label ? xent_label(a, row) : 0;

        if (label < 0 || label >= a.cols) {
            xent_nan<T>(a, row);
            loss = NAN;
        } else {
            loss = cuda_xent_row<T>(a, row, &right);
        }
    }
    bool first = threadIdx.x % 32 == 0; // all lanes have the row's sums

    block_stats(a.partial, first ? loss : 0.0, first && right ? 1.0 : 0.0);
}

// ---- Losses element by element --------------------------------------------

// Keras' 1e-7 as f32 has it.
#define CLIP_LOW 1e-7f
#define CLIP_HIGH (1.0f - 1e-7f)

DEV float cuda_bce_logit(float x, float t, float *slope)
{
    // max(x, 0) - x t + log(1 + exp(-|x|)), which cannot overflow.
    *slope = 1 / (1 + expf(-x)) - t;
    return (x > 0 ? x : 0) - x * t + log1pf(expf(-fabsf(x)));
}

DEV float cuda_bce_probability(float p, float t, float *slope)
{
    float clipped = p < CLIP_LOW ? CLIP_LOW : p > CLIP_HIGH ? CLIP_HIGH : p;

    *slope = clipped == p ? (p - t) / (p * (1 - p)) : 0;
    return -t * logf(clipped) - (1 - t) * log1pf(-clipped);
}

DEV float loss_weight(const struct args_loss &a, int64_t i)
{
    return a.weight ? a.weight[i / a.each] : 1;
}

template <class T> DEV void bce_of(const struct args_loss &a)
{
    const int V = pack<T>::n;
    int64_t stride = (int64_t)gridDim.x * CUDA_THREADS * V;
    float x[V], t[V], scale = *a.scale * a.over;
    double loss = 0, right = 0;

    for (int64_t at = thread_number() * V; at < a.n; at += stride) {
        int m = pack_part<V>(a.n, at);

        pack_load(x, (const T *)a.x + at, m, a.wide);
        pack_load(t, a.target + at, m, a.wide);
        for (int l = 0; l < V; l++) {
            bool yes = x[l] > (a.logits ? 0 : 0.5f);
            float want = t[l] * (1 - a.smoothing) + a.smoothing / 2;
            float slope, mine = a.logits
                                    ? cuda_bce_logit(x[l], want, &slope)
                                    : cuda_bce_probability(x[l], want, &slope);

            float weight = l < m ? loss_weight(a, at + l) : 0;

            if (l < m) {
                loss += weight * mine;
                right += yes == (t[l] > 0.5f);
            }
            x[l] = weight * scale * slope;
        }
        pack_store((T *)a.dx + at, x, m, a.wide);
    }
    block_stats(a.partial, loss, right);
}

template <class T> DEV void mse_of(const struct args_loss &a)
{
    const int V = pack<T>::n;
    int64_t stride = (int64_t)gridDim.x * CUDA_THREADS * V;
    float x[V], t[V], scale = *a.scale * a.over;
    double loss = 0, absolute = 0;

    for (int64_t at = thread_number() * V; at < a.n; at += stride) {
        int m = pack_part<V>(a.n, at);

        pack_load(x, (const T *)a.x + at, m, a.wide);
        pack_load(t, a.target + at, m, a.wide);
        for (int l = 0; l < V; l++) {
            float far = x[l] - t[l]; // 0 where nothing is
            float weight = l < m ? loss_weight(a, at + l) : 0;

            loss += weight *
                    (a.absolute ? (double)fabsf(far) : (double)far * far);
            absolute += fabsf(far);
            x[l] = weight * scale *
                   (a.absolute ? (far > 0) - (far < 0) : 2 * far);
        }
        pack_store((T *)a.dx + at, x, m, a.wide);
    }
    block_stats(a.partial, loss, absolute);
}

template <class T> DEV void penalty_of(const struct args_penalty &a)
{
    const int V = pack<T>::n;
    int64_t stride = (int64_t)gridDim.x * CUDA_THREADS * V;
    float w[V], share = a.rows * *a.scale * *a.unscale;
    double sum = 0;

    for (int64_t at = thread_number() * V; at < a.n; at += stride) {
        int m = pack_part<V>(a.n, at);

        pack_load(w, (const T *)a.w + at, m, a.wide);
        for (int l = 0; l < V; l++) {
            float x = w[l]; // 0 where nothing is

            sum += a.l1 * fabs((double)x) + a.l2 * ((double)x * x);
            w[l] = share * (a.l1 * ((x > 0) - (x < 0)) + 2 * a.l2 * x);
        }
        pack_store(a.h + at, w, m, a.wide);
    }
    block_stats(a.partial, a.rows * sum, 0);
}

template <class T> DEV void unscale_check_of(const struct args_unscale &a)
{
    const int V = pack<T>::n;
    int64_t stride = (int64_t)gridDim.x * CUDA_THREADS * V;
    float g[V], scale = *a.scale;
    double square = 0, bad = 0;

    for (int64_t at = thread_number() * V; at < a.n; at += stride) {
        int m = pack_part<V>(a.n, at);

        pack_load(g, (const T *)a.g + at, m, a.wide);
        for (int l = 0; l < V; l++) {
            g[l] = l < m ? g[l] * scale : 0;
            if (isfinite(g[l]))
                square += (double)g[l] * g[l];
            else
                bad += 1;
        }
        pack_store(a.h + at, g, m, a.wide);
    }
    block_stats(a.partial, square, bad);
}

// One block of two warps' worth of columns: thread t adds partials t/2, ...
DEV void stats_end_of(const struct args_stats_end &a)
{
    __shared__ double scratch[CUDA_THREADS];
    int me = threadIdx.x, which = me % 2;
    double sum = 0;

    for (int b = me / 2; b < a.blocks; b += CUDA_THREADS / 2)
        sum += a.partial[2 * (int64_t)b + which];
    scratch[me] = sum;
    __syncthreads();
    for (int half = CUDA_THREADS / 2; half >= 2; half /= 2) {
        if (me < half)
            scratch[me] += scratch[me + half];
        __syncthreads();
    }
    if (me < 2)
        a.stats[me] = (a.accum ? a.stats[me] : 0) + scratch[me] / a.over;
}

TYPED_ENTRY(softmax_fwd, softmax)
TYPED_ENTRY(softmax_bwd, softmax)
TYPED_ENTRY(xent, xent)
TYPED_ENTRY(bce, loss)
TYPED_ENTRY(mse, loss)
TYPED_ENTRY(unscale_check, unscale)
TYPED_ENTRY(penalty, penalty)
ENTRY(stats_end, stats_end_of, stats_end)
