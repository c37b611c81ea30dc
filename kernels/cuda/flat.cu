// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/flat.cu -- element by element: binary, pick, axpby and casts,
// views, fill, dropout, images.
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/kern.h"

// ---- Binary ---------------------------------------------------------------

DEV float cuda_binary_combine(int kind, float a, float b)
{
    switch (kind) {
    case KERN_SUB:
        return a - b;
    case KERN_MUL:
        return a * b;
    case KERN_MAX:
        return b > a ? b : a;
    case KERN_MIN:
        return b < a ? b : a;
    default:
        return a + b;
    }
}

template <class T> DEV void binary_of(const struct args_binary &a)
{
    const int V = pack<T>::n;
    int64_t at = thread_number() * V;
    float v[V], x[V];

    if (at >= a.n)
        return;
    int m = pack_part<V>(a.n, at);

    pack_load(v, (const T *)a.x[0] + at, m, a.wide);
    for (int k = 1; k < a.inputs; k++) {
        pack_load(x, (const T *)a.x[k] + at, m, a.wide);
        for (int l = 0; l < V; l++)
            v[l] = cuda_binary_combine(a.kind, v[l], x[l]);
    }
    pack_store((T *)a.y + at, v, m, a.wide);
}

template <class T> DEV void pick_of(const struct args_pick &a)
{
    const int V = pack<T>::n;
    int64_t at = thread_number() * V;
    float best[V], x[V];
    int who[V] = {};

    if (at >= a.n)
        return;
    int m = pack_part<V>(a.n, at);

    pack_load(best, (const T *)a.x[0] + at, m, a.wide);
    for (int k = 1; k < a.inputs; k++) {
        pack_load(x, (const T *)a.x[k] + at, m, a.wide);
        for (int l = 0; l < V; l++)
            if (a.kind == KERN_MAX ? x[l] > best[l] : x[l] < best[l]) {
                best[l] = x[l];
                who[l] = k;
            }
    }
    pack_load(x, (const T *)a.dy + at, m, a.wide);
    for (int l = 0; l < V; l++)
        x[l] = who[l] == a.which ? x[l] : 0;
    pack_store((T *)a.y + at, x, m, a.wide);
}

// ---- Axpby and casts ------------------------------------------------------

// A pack is one of the wider dtype.
template <class X, class Y> DEV void axpby_of(const struct args_axpby &a)
{
    const int V = pack<X>::n < pack<Y>::n ? pack<X>::n : pack<Y>::n;
    int64_t at = thread_number() * V;
    float x[V], y[V];

    if (at >= a.n)
        return;
    int m = pack_part<V>(a.n, at);

    pack_load(x, (const X *)a.x + at, m, a.wide);
    if (a.b != 0)
        pack_load(y, (const Y *)a.y + at, m, a.wide);
    for (int l = 0; l < V; l++)
        x[l] = a.b != 0 ? a.a * x[l] + a.b * y[l] : a.a * x[l];
    pack_store((Y *)a.y + at, x, m, a.wide);
}

// ---- Views ----------------------------------------------------------------

// Any strides, in row-major order of the dims.
struct spot {
    int64_t x, y;
};

// Where element i lies, or pack i of V.
template <int V> DEV struct spot spot_of(const struct args_view &a, uint64_t i)
{
    struct spot s = {0, 0};
    int k = a.nd;

    if (V > 1) {
        k--;
        s.x = s.y = (int64_t)index_split(&i, a.packs) * V;
    }
    while (k-- > 0) {
        uint32_t at = index_split(&i, a.dim[k]);

        s.x += at * a.x_stride[k];
        s.y += at * a.y_stride[k];
    }
    return s;
}

template <int V, class X, class Y> DEV void view_at(const struct args_view &a)
{
    int64_t i = thread_number();
    float x[V], y[V];

    if (i >= a.n)
        return;
    struct spot s = spot_of<V>(a, i);
    Y *to = (Y *)a.y + s.y;

    pack_load(x, (const X *)a.x + s.x, V, a.wide);
    if (a.b != 0)
        pack_load(y, (const Y *)to, V, a.wide);
    for (int l = 0; l < V; l++)
        x[l] = a.b != 0 ? a.a * x[l] + a.b * y[l] : a.a * x[l];
    pack_store(to, x, V, a.wide);
}

template <class X, class Y> DEV void view_of(const struct args_view &a)
{
    const int V = pack<X>::n < pack<Y>::n ? pack<X>::n : pack<Y>::n;

    if (a.packs > 0)
        view_at<V, X, Y>(a);
    else
        view_at<1, X, Y>(a);
}

template <int V, class T> DEV void fill_at(const struct args_view &a)
{
    int64_t i = thread_number();
    float v[V];

    if (i >= a.n)
        return;
    for (int l = 0; l < V; l++)
        v[l] = a.a;
    pack_store((T *)a.y + spot_of<V>(a, i).y, v, V, a.wide);
}

template <class T> DEV void fill_of(const struct args_view &a)
{
    if (a.packs > 0)
        fill_at<pack<T>::n, T>(a);
    else
        fill_at<1, T>(a);
}

// ---- Dropout --------------------------------------------------------------

// common/base/rng.h's philox4x32.
DEV void philox(uint32_t out[4], const uint32_t counter[4], uint32_t k0,
                uint32_t k1)
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];

    for (int round = 0; round < 10; round++) {
        uint32_t h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
        uint32_t h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;

        c0 = h1 ^ c1 ^ k0;
        c1 = l1;
        c2 = h0 ^ c3 ^ k1;
        c3 = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

// kernels/dropout.h's cuda_dropout_words.
DEV void cuda_dropout_words(uint32_t out[4], const struct args_dropout &a,
                            uint64_t block)
{
    uint64_t seed = a.key[0], step = a.key[1];
    const uint32_t counter[4] = {(uint32_t)block,
                                 (uint32_t)(block >> 32) | a.layer << 16,
                                 (uint32_t)step, (uint32_t)(step >> 32)};

    philox(out, counter, (uint32_t)seed, (uint32_t)(seed >> 32));
}

// The words of four elements from number `at` on. Where they do not begin a
// block they lie in two; picked without an index, which would be memory.
DEV void cuda_dropout_words_from(uint32_t out[4], const struct args_dropout &a,
                                 uint64_t at)
{
    uint32_t more[4];

    cuda_dropout_words(out, a, at / 4);
    if (at % 4 == 0) // uniform: no warp diverges
        return;
    cuda_dropout_words(more, a, at / 4 + 1);
    for (uint32_t shift = at % 4; shift > 0; shift--) {
        out[0] = out[1];
        out[1] = out[2];
        out[2] = out[3];
        out[3] = more[0];
        more[0] = more[1];
        more[1] = more[2];
    }
}

template <class T> DEV void dropout_of(const struct args_dropout &a)
{
    const int V = pack<T>::n;
    int64_t at = thread_number() * V;
    float x[V];

    if (at >= a.n)
        return;
    int m = pack_part<V>(a.n, at);

    pack_load(x, (const T *)a.x + at, m, a.wide);
    for (int k = 0; k < V; k += 4) {
        uint32_t words[4];

        cuda_dropout_words_from(words, a, a.first + (uint64_t)(at + k));
        for (int l = 0; l < 4; l++)
            x[k + l] = words[l] < a.below ? 0 : x[k + l] * a.keep;
    }
    pack_store((T *)a.y + at, x, m, a.wide);
}

// ---- Images ---------------------------------------------------------------

// A pack of y; its channels beyond x's are 0.
template <class T> DEV void image_u8_of(const struct args_image &a)
{
    const int V = pack<T>::n;
    int64_t at = thread_number() * V;
    float y[V];

    if (at >= a.n)
        return;
    int m = pack_part<V>(a.n, at);
    uint64_t pixel = at;
    int c = index_split(&pixel, a.y_cols);

    for (int l = 0; l < V; l++) {
        y[l] = 0;
        if (l < m && c < a.x_cols)
            y[l] = a.a * a.x[(int64_t)pixel * a.x_cols + c] + a.b;
        if (++c == a.y_cols) {
            c = 0;
            pixel++;
        }
    }
    pack_store((T *)a.y + at, y, m, a.wide);
}

// ---- A bias ---------------------------------------------------------------

// A pack of y: a sum of f32 becomes an element by one rounding.
template <class T> DEV void bias_rows_of(const struct args_bias &a)
{
    const int V = pack<T>::n;
    int64_t at = thread_number() * V;
    float x[V];

    if (at >= a.n)
        return;
    int m = pack_part<V>(a.n, at);
    uint64_t row = at;
    int c = index_split(&row, a.cols);

    pack_load(x, a.x + at, m, a.wide);
    for (int l = 0; l < V; l++) {
        if (l < m)
            x[l] += elem_float(((const T *)a.bias)[c]);
        if (a.relu && x[l] < 0)
            x[l] = 0;
        c = c + 1 == a.cols ? 0 : c + 1;
    }
    pack_store((T *)a.y + at, x, m, a.wide);
}

#define AXPBY(from, X)                                                         \
    template <class Y>                                                         \
    DEV void axpby_from_##from##_to_of(const struct args_axpby &a)             \
    {                                                                          \
        axpby_of<X, Y>(a);                                                     \
    }                                                                          \
    template <class Y>                                                         \
    DEV void view_from_##from##_to_of(const struct args_view &a)               \
    {                                                                          \
        view_of<X, Y>(a);                                                      \
    }                                                                          \
    TYPED_ENTRY(axpby_from_##from##_to, axpby)                                 \
    TYPED_ENTRY(view_from_##from##_to, view)

AXPBY(f32, float)
AXPBY(f16, f16)
AXPBY(bf16, bf16)
TYPED_ENTRY(binary, binary)
TYPED_ENTRY(pick, pick)
TYPED_ENTRY(fill, view)
TYPED_ENTRY(dropout, dropout)
TYPED_ENTRY(image_u8, image)
TYPED_ENTRY(bias_rows, bias)
