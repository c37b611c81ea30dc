// SPDX-License-Identifier: Apache-2.0
// Callbacks against what Keras' own do: callbacks/vectors.txt, made by make.py.
#include "coordinator/rules/callbacks.h"

#include <math.h>
#include <string.h>

#include "tests/harness/t.h"

#define VALUES_MAX 64
#define KIND "%7[a-z]"

static struct callbacks_seen seen(uint32_t epoch, double value)
{
    struct callbacks_seen s = {.steps = (epoch + 1) * 10,
                               .cut = epoch + 1,
                               .epoch = epoch,
                               .next = (epoch + 1) * 3};

    s.has[SPEC_VAL_LOSS] = !isnan(value);
    s.value[SPEC_VAL_LOSS] = value;
    return s;
}

// The numbers of the field behind so many bars; `x` is not a number.
static unsigned numbers(const char *line, unsigned bars, double *out)
{
    unsigned count = 0;
    char *end;

    while (bars-- > 0)
        line = strchr(line, '|') + 1;
    while (*(line += strspn(line, " ")) != '|' && *line != '\n') {
        out[count] = *line == 'x' ? NAN : strtod(line, &end);
        line = *line == 'x' ? line + 1 : end;
        count++;
    }
    return count;
}

static void check_early(const char *line)
{
    struct spec_callbacks rule = {.early = {.watch = {.on = true}}};
    struct spec_early_stopping *e = &rule.early;
    double values[VALUES_MAX], waits[VALUES_MAX], stopped, best;
    struct callbacks c;
    char mode[8], baseline[16];
    unsigned count, n;

    T_EQ(sscanf(line, "early " KIND " %u %lf %15s %u", mode, &e->patience,
                &e->watch.min_delta, baseline, &e->start_from_epoch),
         5);
    e->watch.larger = strcmp(mode, "max") == 0;
    e->has_baseline = baseline[0] != 'x';
    e->baseline = e->has_baseline ? strtod(baseline, NULL) : 0;
    e->restores = true;
    count = numbers(line, 1, values);
    T_EQ(numbers(line, 2, &stopped), 1);
    T_EQ(numbers(line, 3, &best), 1);
    n = numbers(line, 4, waits);
    callbacks_begin(&c, 0.5);
    for (uint32_t i = 0; i < n; i++) {
        struct callbacks_seen s = seen(i, values[i]);

        T_FALSE(callbacks_judge(&c, &rule, &s));
        T_EQ(c.early.wait, waits[i]);
        T_EQ(c.early.stopped, i == stopped);
    }
    T_EQ(n, stopped < 0 ? count : stopped + 1);
    T_EQ(callbacks_restores(&c, &rule), best + 1);
}

static void check_plateau(const char *line)
{
    struct spec_callbacks rule = {.plateau = {.watch = {.on = true}}};
    struct spec_plateau *p = &rule.plateau;
    double values[VALUES_MAX], rates[VALUES_MAX], rate;
    struct callbacks c;
    unsigned count;
    char mode[8];

    T_EQ(sscanf(line, "plateau " KIND " %u %lf %lf %u %lf %lf", mode,
                &p->patience, &p->watch.min_delta, &p->factor, &p->cooldown,
                &p->min_rate, &rate),
         7);
    p->watch.larger = strcmp(mode, "max") == 0;
    count = numbers(line, 1, values);
    T_EQ(numbers(line, 2, rates), count);
    callbacks_begin(&c, rate);
    for (uint32_t i = 0; i < count; i++) {
        struct callbacks_seen s = seen(i, values[i]);
        double before = c.plateau.rate;

        T_EQ(callbacks_judge(&c, &rule, &s), c.plateau.rate != before);
        T_NEAR(c.plateau.rate, rates[i], 1e-6 * rates[i]); // f32 there
        // What comes next is computed at it, what was before as it was.
        T_TRUE(rates_at(&c.rates, s.next, rate) == c.plateau.rate);
        T_TRUE(rates_at(&c.rates, s.next - 1, rate) == before);
    }
}

static void check_best(const char *line)
{
    struct spec_callbacks rule = {.best = {.on = true}};
    double values[VALUES_MAX], saved[VALUES_MAX];
    struct callbacks c;
    unsigned count;

    rule.best.larger = strncmp(line, "best max", 8) == 0;
    count = numbers(line, 1, values);
    T_EQ(numbers(line, 2, saved), count);
    callbacks_begin(&c, 0.5);
    for (uint32_t i = 0; i < count; i++) {
        struct callbacks_seen s = seen(i, values[i]);

        (void)callbacks_judge(&c, &rule, &s);
        T_EQ(c.best.cut == s.cut, saved[i]);
        T_EQ(callbacks_keeps(&c, &rule, s.cut), saved[i]);
    }
}

// With mode auto: which way is better is the spec's business here, and was the
// metric's own there.
static void check_auto(const char *line)
{
    Sluice__V1__JobSpec spec = SLUICE__V1__JOB_SPEC__INIT;
    Sluice__V1__CallbacksSpec some = SLUICE__V1__CALLBACKS_SPEC__INIT;
    Sluice__V1__EarlyStoppingSpec early = SLUICE__V1__EARLY_STOPPING_SPEC__INIT;
    double values[VALUES_MAX], waits[VALUES_MAX], stopped, best;
    char monitor[40] = "val_";
    struct spec_callbacks rule;
    struct callbacks c;
    unsigned n;

    spec.callbacks = &some;
    some.early_stopping = &early;
    early.monitor = monitor;
    early.mode = (char *)"auto";
    early.restore_best_weights = true;
    T_EQ(sscanf(line, "auto %31s %u %lf", monitor + 4, &early.patience,
                &early.min_delta),
         3);
    rule = spec_callbacks(&spec);
    T_STR(spec_monitor_name(rule.early.watch.monitor), monitor);
    (void)numbers(line, 1, values);
    T_EQ(numbers(line, 2, &stopped), 1);
    T_EQ(numbers(line, 3, &best), 1);
    n = numbers(line, 4, waits);
    callbacks_begin(&c, 0.5);
    for (uint32_t i = 0; i < n; i++) {
        struct callbacks_seen s = seen(i, NAN);

        for (int m = 0; m < SPEC_MONITORS; m++) { // nobody's
            s.has[m] = true;
            s.value[m] = i % 2 != 0 ? -1000 : 1000;
        }
        s.has[rule.early.watch.monitor] = !isnan(values[i]);
        s.value[rule.early.watch.monitor] = values[i];
        (void)callbacks_judge(&c, &rule, &s);
        T_EQ(c.early.wait, waits[i]);
        T_EQ(c.early.stopped, i == stopped);
    }
    T_EQ(callbacks_restores(&c, &rule), best + 1);
}

TEST(callbacks, judge_as_keras_does)
{
    FILE *f = fopen(CALLBACKS_VECTORS, "r");
    char line[1024];
    unsigned lines = 0;

    T_TRUE(f != NULL);
    while (fgets(line, sizeof(line), f) != NULL) {
        if (line[0] == 'e')
            check_early(line);
        else if (line[0] == 'p')
            check_plateau(line);
        else if (line[0] == 'b')
            check_best(line);
        else if (line[0] == 'a')
            check_auto(line);
        lines += line[0] != '#';
    }
    fclose(f);
    T_EQ(lines, 114);
}

TEST(callbacks, what_is_not_finite_is_no_improvement)
{
    struct spec_callbacks rule = {
        .early = {.watch = {.on = true}, .patience = 2, .restores = true}};
    struct callbacks_seen bad = seen(0, INFINITY), good = seen(1, 3);
    struct callbacks c;

    callbacks_begin(&c, 0.5);
    (void)callbacks_judge(&c, &rule, &bad);
    T_EQ(callbacks_restores(&c, &rule), 0);
    (void)callbacks_judge(&c, &rule, &good);
    T_EQ(callbacks_restores(&c, &rule), good.cut);
    T_EQ(c.early.wait, 0);
    (void)callbacks_judge(&c, &rule, &bad);
    T_FALSE(c.early.stopped);
    (void)callbacks_judge(&c, &rule, &bad);
    T_TRUE(c.early.stopped);
}

TEST(callbacks, each_looks_at_its_own_value)
{
    struct spec_callbacks rule = {
        .early = {.watch = {.on = true, .monitor = SPEC_TRAIN_LOSS},
                  .patience = 1},
        .best = {.on = true, .monitor = SPEC_VAL_ACCURACY, .larger = true}};
    struct callbacks_seen s = {.cut = 1};
    struct callbacks c;

    for (int m = 0; m < SPEC_MONITORS; m++)
        s.has[m] = true;
    callbacks_begin(&c, 0.5);
    s.value[SPEC_TRAIN_LOSS] = 2;
    s.value[SPEC_VAL_ACCURACY] = 0.5;
    (void)callbacks_judge(&c, &rule, &s);
    s.cut = 2;
    s.value[SPEC_VAL_ACCURACY] = 0.75;
    s.value[SPEC_VAL_LOSS] = -100; // nobody's
    (void)callbacks_judge(&c, &rule, &s);
    T_TRUE(c.early.stopped);
    T_EQ(c.best.cut, 2);
    T_TRUE(callbacks_keeps(&c, &rule, 2) && !callbacks_keeps(&c, &rule, 1));
}

TEST(rates, are_a_function_of_the_closure)
{
    struct rates r = {.count = 0};

    T_TRUE(rates_at(&r, 7, 0.5) == 0.5);
    rates_add(&r, 10, 0.25);
    rates_add(&r, 20, 0.125);
    T_TRUE(rates_valid(&r));
    T_TRUE(rates_at(&r, 9, 0.5) == 0.5);
    T_TRUE(rates_at(&r, 10, 0.5) == 0.25 && rates_at(&r, 19, 0.5) == 0.25);
    T_TRUE(rates_at(&r, 20, 0.5) == 0.125);
    rates_add(&r, 20, 0.1);
    T_FALSE(rates_valid(&r)); // they rise
}

TEST(rates, keep_the_newest)
{
    struct rates r = {.count = 0};

    for (uint64_t i = 1; i <= RATES_MAX + 5; i++)
        rates_add(&r, i, 1.0 / (double)i);
    T_EQ(r.count, RATES_MAX);
    T_TRUE(rates_valid(&r));
    T_EQ(r.step[0].closure, 6);
    T_TRUE(rates_at(&r, 100, 1) == 1.0 / (RATES_MAX + 5));
}
