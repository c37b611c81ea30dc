// SPDX-License-Identifier: Apache-2.0
// examples/own_gradient.c -- a worker of your own, in C: linear regression.
//
//     sluice submit examples/external.yaml --no-wait
//     build/bin/own_gradient --coordinator 127.0.0.1:7070
//
// All of Sluice that it needs is lib/sluice.h and libsluice.so:
//
//     cc own_gradient.c $(pkg-config --cflags --libs sluice) -lm
//
// Start several, kill any of them at any time: each step counts once. It ends
// when the job has ended.
#include <math.h>
#include <sluice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the problem: y = 2a - b + c/2 + 3d + 1/4, with a little noise

#define INPUTS 4

static double draw(uint64_t *state) // uniform in [-1, 1)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 33) / (double)(1u << 30) - 1;
}

// Sample `number` of the data set: the same for every worker.
static double sample(uint64_t number, double x[INPUTS])
{
    uint64_t state = number * 2654435761u + 1;

    (void)draw(&state);
    for (int i = 0; i < INPUTS; i++)
        x[i] = draw(&state);
    return 2 * x[0] - x[1] + 0.5 * x[2] + 3 * x[3] + 0.25 + 0.01 * draw(&state);
}

// Mean squared error over the step's samples, and its gradient.
static double gradient(const struct sluice_closure *c,
                       const struct sluice_step *step)
{
    const float *w = sluice_params(c); // 4 weights, then the bias
    float *g = sluice_grads(c);
    double loss = 0;

    memset(g, 0, (INPUTS + 1) * sizeof(*g));
    for (uint64_t p = step->first; p < step->first + step->count; p++) {
        double x[INPUTS], y = sample(sluice_sample(c, p), x), error = w[INPUTS];

        for (int i = 0; i < INPUTS; i++)
            error += w[i] * x[i];
        error -= y;
        loss += error * error;
        for (int i = 0; i < INPUTS; i++)
            g[i] += (float)(2 * error * x[i] / (double)step->count);
        g[INPUTS] += (float)(2 * error / (double)step->count);
    }
    return loss;
}

// ---- the worker

// Computes all missing steps of a closure. A closure that is lost is no failure
// of this program: another worker goes on with it.
static enum sl_err run(struct sluice_closure *c, struct sl_error *err)
{
    struct sluice_step step;
    enum sl_err rc = sluice_begin(c, &step, err);

    if (sluice_closure_info(c)->elements != INPUTS + 1) {
        sluice_fail(c, "this program has 4 weights and a bias", true);
        return SL_EINVAL;
    }
    while (rc == SL_OK && !step.none) {
        struct sluice_result result = {.loss_sum = gradient(c, &step)};

        rc = sluice_end(c, &result, err);
        if (rc == SL_OK)
            rc = sluice_begin(c, &step, err);
    }
    sluice_finish(c, NULL);
    return rc == SL_ECANCELED ? SL_OK : rc;
}

static const char *option(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return NULL;
}

int main(int argc, char **argv)
{
    struct sluice_options options = {
        .size = sizeof(options),
        .coordinator = option(argc, argv, "--coordinator"),
        .name = option(argc, argv, "--name"),
        .tls_ca = option(argc, argv, "--tls-ca"),
        .tls_cert = option(argc, argv, "--tls-cert"),
        .tls_key = option(argc, argv, "--tls-key"),
        .device = "own_gradient",
        // For jobs in allreduce mode, where programs keep the parameters.
        .listen = option(argc, argv, "--listen"),
        .advertise = option(argc, argv, "--advertise"),
        .store = option(argc, argv, "--store"),
    };
    struct sl_error err = SL_ERROR_INIT;
    struct sluice_closure *c;
    struct sluice *s = NULL;
    enum sl_err rc = sluice_open(&s, &options, &err);

    if (rc == SL_OK)
        rc = sluice_attach(s, 60000, &err);
    while (rc == SL_OK) {
        rc = sluice_take(s, -1, &c, &err);
        if (rc == SL_OK)
            rc = run(c, &err);
    }
    sluice_close(s);
    fprintf(stderr, "own_gradient: %s\n", err.text);
    return rc == SL_ENOENT ? 0 : 1; // the job has ended
}
