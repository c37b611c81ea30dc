# SPDX-License-Identifier: Apache-2.0
"""Nets as tutorials of Keras write them, small: each a function of Keras, 3 or 2, with
the shape of its samples, and the highest whole number + 1 that it looks up. And the
applications that Keras ships of which the test looks at the variables."""


def mnist_mlp(k, l):
    return k.Sequential([k.Input((8, 8)), l.Flatten(), l.Dense(16, activation="relu"),
                         l.Dense(10)])


def mnist_convnet(k, l):
    return k.Sequential([k.Input((10, 10, 1)), l.Conv2D(4, 3, activation="relu"),
                         l.MaxPooling2D(2), l.Conv2D(8, 3, activation="relu"), l.Flatten(),
                         l.Dense(4, activation="softmax")])


def cifar_convnet(k, l):
    m = k.Sequential([k.Input((8, 8, 3))])
    for filters in (4, 8):
        m.add(l.Conv2D(filters, 3, padding="same"))
        m.add(l.BatchNormalization())
        m.add(l.Activation("relu"))
        m.add(l.MaxPooling2D())
    m.add(l.Flatten())
    m.add(l.Dense(3))
    return m


def residual(k, l):
    x = k.Input((8, 8, 3))
    y = l.Conv2D(4, 3, padding="same", activation="relu")(x)
    z = l.Conv2D(4, 3, padding="same", activation="relu")(y)
    y = l.add([l.Conv2D(4, 3, padding="same")(z), y])
    return k.Model(x, l.Dense(3)(l.GlobalAveragePooling2D()(y)))


def inception(k, l):
    x = k.Input((6, 6, 3))
    a = l.Conv2D(2, 1, activation="relu")(x)
    b = l.Conv2D(3, 3, padding="same", activation="relu")(a)
    c = l.MaxPooling2D(3, strides=1, padding="same")(x)
    return k.Model(x, l.Dense(3)(l.GlobalAveragePooling2D()(l.concatenate([a, b, c]))))


def xception_like(k, l):
    x = k.Input((8, 8, 3))
    y = l.Rescaling(1 / 255)(x)
    y = l.SeparableConv2D(6, 3, padding="same")(y)
    y = l.BatchNormalization()(y)
    y = l.MaxPooling2D(3, strides=2, padding="same")(l.Activation("relu")(y))
    y = l.add([y, l.Conv2D(6, 1, strides=2, padding="same")(x)])
    return k.Model(x, l.Dense(2)(l.GlobalAveragePooling2D()(y)))


def mobile_block(k, l):
    x = k.Input((6, 6, 4))
    y = l.Conv2D(8, 1, use_bias=False)(x)
    y = l.ReLU(6.0)(l.BatchNormalization()(y))
    y = l.DepthwiseConv2D(3, padding="same", use_bias=False)(y)
    y = l.ReLU(6.0)(l.BatchNormalization()(y))
    y = l.add([x, l.BatchNormalization()(l.Conv2D(4, 1, use_bias=False)(y))])
    return k.Model(x, l.Dense(2)(l.GlobalAveragePooling2D()(y)))


def squeeze_excite(k, l):
    x = k.Input((6, 6, 4))
    s = l.GlobalAveragePooling2D(keepdims=True)(x)
    s = l.Conv2D(4, 1, activation="sigmoid")(l.Conv2D(2, 1, activation="relu")(s))
    return k.Model(x, l.Dense(2)(l.Flatten()(l.multiply([x, s]))))


def unet(k, l):
    x = k.Input((8, 8, 1))
    a = l.Conv2D(3, 3, padding="same", activation="relu")(x)
    b = l.Conv2D(4, 3, padding="same", activation="relu")(l.MaxPooling2D()(a))
    y = l.concatenate([l.Conv2DTranspose(3, 2, strides=2)(b), a])
    return k.Model(x, l.Reshape((64,))(l.Conv2D(1, 1)(y)))


def autoencoder(k, l):
    return k.Sequential([k.Input((12,)), l.Dense(6, activation="relu"), l.Dense(3),
                         l.Dense(6, activation="relu"), l.Dense(12, activation="sigmoid")])


def conv_autoencoder(k, l):
    return k.Sequential([
        k.Input((8, 8, 1)), l.Conv2D(4, 3, activation="relu", padding="same"),
        l.MaxPooling2D(2, padding="same"),
        l.Conv2DTranspose(4, 3, strides=2, activation="relu", padding="same"),
        l.Conv2D(1, 3, padding="same"), l.Reshape((64,))])


def super_resolution(k, l):
    return k.Sequential([k.Input((4, 4, 1)), l.Conv2D(4, 3, padding="same", activation="tanh"),
                         l.UpSampling2D(2), l.Conv2D(1, 3, padding="same"), l.Flatten()])


def discriminator(k, l):
    return k.Sequential([k.Input((8, 8, 1)), l.Conv2D(4, 3, strides=2, padding="same"),
                         l.LeakyReLU(), l.Conv2D(8, 3, strides=2, padding="same"),
                         l.LeakyReLU(), l.GlobalMaxPooling2D(), l.Dense(1)])


def generator(k, l):
    return k.Sequential([k.Input((6,)), l.Dense(2 * 2 * 4), l.LeakyReLU(), l.Reshape((2, 2, 4)),
                         l.Conv2DTranspose(4, 4, strides=2, padding="same"), l.LeakyReLU(),
                         l.Conv2D(1, 3, padding="same", activation="tanh"), l.Flatten()])


def mlp_mixer(k, l):
    x = k.Input((4, 6))
    y = l.LayerNormalization()(x)
    y = l.Permute((2, 1))(y)
    y = l.Permute((2, 1))(l.Dense(4, activation="gelu")(y))
    x2 = l.add([x, y])
    y = l.Dense(6)(l.Dense(8, activation="gelu")(l.LayerNormalization()(x2)))
    return k.Model(x, l.Dense(3)(l.GlobalAveragePooling1D()(l.add([x2, y]))))


def vision_transformer(k, l):
    x = k.Input((8, 8, 3))
    y = l.Reshape((4, 8))(l.Conv2D(8, 4, strides=4)(x))
    z = l.LayerNormalization(epsilon=1e-6)(y)
    y = l.add([y, l.MultiHeadAttention(2, 4)(z, z)])
    z = l.Dense(8)(l.Dense(16, activation="gelu")(l.LayerNormalization(epsilon=1e-6)(y)))
    return k.Model(x, l.Dense(3)(l.Flatten()(l.add([y, z]))))


def convmixer(k, l):
    x = k.Input((8, 8, 3))
    y = l.BatchNormalization()(l.Activation("gelu")(l.Conv2D(6, 2, strides=2)(x)))
    z = l.DepthwiseConv2D(3, padding="same")(y)
    y = l.add([y, l.BatchNormalization()(l.Activation("gelu")(z))])
    return k.Model(x, l.Dense(3)(l.GlobalAveragePooling2D()(y)))


def housing(k, l):
    n = l.Normalization(mean=[0.1, -0.2, 0.3], variance=[1.0, 2.0, 0.5])
    return k.Sequential([k.Input((3,)), n, l.Dense(8, activation="relu"),
                         l.Dense(8, activation="relu"), l.Dense(1)])


def structured(k, l):
    """Columns of a table: in bins, looked up, encoded, and as they are."""
    x = k.Input((5,))
    y = l.Reshape((5, 1))(x)
    age, thal, kind = (l.Flatten()(l.Cropping1D((i, 4 - i))(y)) for i in range(1, 4))
    y = l.concatenate([
        l.Discretization([2.0, 5.0, 8.0], output_mode="one_hot")(age),
        l.IntegerLookup(vocabulary=[3, 6, 7], output_mode="one_hot")(thal),
        l.Flatten()(l.Embedding(6, 3)(l.IntegerLookup(vocabulary=[5, 1, 2, 9, 0])(kind))),
        l.CategoryEncoding(12)(x), l.Rescaling(0.1)(x)])
    return k.Model(x, l.Dense(1)(l.Dense(8, activation="relu")(y)))


def imdb_average(k, l):
    return k.Sequential([k.Input((10,)), l.Embedding(20, 8), l.GlobalAveragePooling1D(),
                         l.Dense(8, activation="relu"), l.Dense(1)])


def imdb_lstm(k, l):
    return k.Sequential([k.Input((8,)), l.Embedding(20, 6), l.LSTM(5),
                         l.Dense(1, activation="sigmoid")])


def imdb_bidirectional(k, l):
    return k.Sequential([k.Input((8,)), l.Embedding(20, 6),
                         l.Bidirectional(l.LSTM(4, return_sequences=True)),
                         l.Bidirectional(l.LSTM(3)), l.Dense(1)])


def text_convnet(k, l):
    return k.Sequential([k.Input((12,)), l.Embedding(20, 6),
                         l.Conv1D(8, 3, padding="valid", activation="relu", strides=2),
                         l.GlobalMaxPooling1D(), l.Dense(6, activation="relu"), l.Dense(1)])


def text_transformer(k, l):
    x = k.Input((6,))
    y = l.Embedding(20, 8)(x)
    y = l.LayerNormalization()(l.add([y, l.MultiHeadAttention(2, 4)(y, y)]))
    y = l.LayerNormalization()(l.add([y, l.Dense(8)(l.Dense(8, activation="relu")(y))]))
    return k.Model(x, l.Dense(2)(l.GlobalAveragePooling1D()(y)))


def masked_text(k, l):
    return k.Sequential([k.Input((8,)), l.Embedding(6, 6, mask_zero=True),
                         l.Bidirectional(l.LSTM(4)), l.Dense(4, activation="relu"), l.Dense(1)])


def masked_average(k, l):
    return k.Sequential([k.Input((8,)), l.Embedding(6, 5, mask_zero=True),
                         l.GlobalAveragePooling1D(), l.Dense(3)])


def weather_lstm(k, l):
    return k.Sequential([k.Input((10, 3)), l.LSTM(8, return_sequences=True), l.GRU(4),
                         l.Dense(2)])


def forecast_convnet(k, l):
    return k.Sequential([k.Input((12, 2)), l.Conv1D(6, 3, padding="causal", activation="relu"),
                         l.Conv1D(6, 3, padding="causal", dilation_rate=2, activation="relu"),
                         l.Flatten(), l.Dense(1)])


def timeseries_classifier(k, l):
    m = k.Sequential([k.Input((12, 1))])
    for _ in range(2):
        m.add(l.Conv1D(6, 3, padding="same"))
        m.add(l.BatchNormalization())
        m.add(l.ReLU())
    m.add(l.GlobalAveragePooling1D())
    m.add(l.Dense(2, activation="softmax"))
    return m


def anomaly(k, l):
    return k.Sequential([
        k.Input((12, 1)), l.Conv1D(4, 5, padding="same", strides=2, activation="relu"),
        l.Conv1D(2, 5, padding="same", strides=2, activation="relu"),
        l.Conv1DTranspose(2, 5, padding="same", strides=2, activation="relu"),
        l.Conv1DTranspose(1, 5, padding="same", strides=2), l.Reshape((12,))])


def addition_rnn(k, l):
    return k.Sequential([k.Input((5, 4)), l.LSTM(6), l.RepeatVector(3),
                         l.LSTM(6, return_sequences=True), l.TimeDistributed(l.Dense(4)),
                         l.Flatten()])


def deep_and_cross(k, l):
    x = k.Input((6,))
    deep = l.Dropout(0.0)(l.ReLU()(l.BatchNormalization()(l.Dense(6)(x))))
    c = l.add([l.multiply([x, l.Dense(6)(x)]), x])
    return k.Model(x, l.Dense(2)(l.concatenate([c, deep])))


def ranker(k, l):
    x = k.Input((2,))
    y = l.Flatten()(l.Embedding(12, 5)(x))
    return k.Model(x, l.Dense(1)(l.Dense(6, activation="selu")(y)))


def gated(k, l):
    x = k.Input((6,))
    y = l.multiply([l.Dense(8, activation="sigmoid")(x), l.Dense(8)(x)])
    return k.Model(x, l.Dense(2)(l.UnitNormalization()(y)))


def siamese(k, l):
    """Two images of a sample, by one encoder."""
    x, e = k.Input((2, 6, 5)), k.Input((6, 5, 1))
    y = l.BatchNormalization()(l.Conv2D(4, 3, activation="tanh")(e))
    encoder = k.Model(e, l.Dense(3)(l.GlobalAveragePooling2D()(y)))
    a, b = (encoder(l.Reshape((6, 5, 1))(l.Cropping2D(((i, 1 - i), 0))(
        l.Reshape((2, 30, 1))(x)))) for i in range(2))
    return k.Model(x, l.Dense(2)(l.multiply([l.subtract([a, b]), l.subtract([a, b])])))


def tied_steps(k, l):
    """One recurrent layer, one attention and one dense layer over two sequences."""
    x = k.Input((6, 4))
    r, a, d = l.LSTM(4, return_sequences=True), l.MultiHeadAttention(2, 3), l.Dense(
        4, activation="tanh")
    halves = [r(d(l.Cropping1D((3 * i, 3 - 3 * i))(x))) for i in range(2)]
    y = l.add([a(halves[0], halves[1]), a(halves[1], halves[0])])
    return k.Model(x, l.Dense(2)(l.Flatten()(d(d(y)))))


def wide_and_deep(k, l):
    """Numbers, a category and words, of one sample."""
    x, kind, words = k.Input((5,), name="numbers"), k.Input((1,)), k.Input((4,))
    y = [l.Flatten()(l.Embedding(7, 3)(kind)), x,
         l.GlobalAveragePooling1D()(l.Embedding(9, 3, mask_zero=True)(words))]
    deep = l.Dense(6, activation="relu")(l.concatenate(y))
    return k.Model([x, kind, words], l.Dense(2)(l.concatenate([deep, l.Dense(2)(x)])))


def picture_and_facts(k, l):
    facts, x = k.Input((3,)), k.Input((6, 6, 2))
    y = l.GlobalMaxPooling2D()(l.Conv2D(4, 3, activation="tanh")(x))
    return k.Model([facts, x], l.Dense(2)(l.concatenate([y, l.Dense(3)(facts)])))


def two_towers(k, l):
    """One encoder of two inputs, whose outputs are compared."""
    a, b = k.Input((3, 4)), k.Input((3, 4))
    e = k.Sequential([k.Input((3, 4)), l.Flatten(), l.Dense(5), l.UnitNormalization()])
    return k.Model([a, b], l.Dense(1)(l.Dot(axes=1)([e(a), e(b)])))


# With the highest whole number + 1 of samples, or of each input.
NETS = {net: ids for nets, ids in (
    ((mnist_mlp, mnist_convnet, cifar_convnet, residual, inception, xception_like,
      mobile_block, squeeze_excite, unet, autoencoder, conv_autoencoder, super_resolution,
      discriminator, generator, mlp_mixer, vision_transformer, convmixer, housing,
      weather_lstm, forecast_convnet, timeseries_classifier, anomaly, addition_rnn,
      deep_and_cross, gated, siamese, tied_steps), 0),
    ((imdb_average, imdb_lstm, imdb_bidirectional, text_convnet, text_transformer), 20),
    ((masked_text, masked_average), 6), ((ranker, structured), 12), ((wide_and_deep,), (0, 7, 9)),
    ((picture_and_facts, two_towers), (0, 0))) for net in nets}

# Of keras.applications, three that have layers which no others have.
APPLICATIONS = ["MobileNetV2", "EfficientNetB0", "ConvNeXtTiny"]
