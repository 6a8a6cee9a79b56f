/* See veilnet_agent.h. An agent of symbols: a range, one hidden layer, a code, a coin (docs/reference/formats.md, "Files of
 * symbols"). Its one number is the symbol. */
#define VEILNET_TABLES
#include "veilnet_agent.h"

#include <math.h>
#include <string.h>

double veilnet_number(const veilnet_message *message, size_t place) {
    return place < VEILNET_NUMBERS ? (double)message->steps[place] : (double)NAN;
}

#if VEILNET_WINDOW > 1
#define COLUMNS (VEILNET_READINGS / VEILNET_WINDOW)

/* Mean, standard deviation and slope of each column of a window; none of a column is a number where a reading is not. */
static void features_of(const double *readings, double *known) {
    const double middle = (VEILNET_WINDOW - 1) / 2.0, moment = VEILNET_WINDOW * (1.0 * VEILNET_WINDOW * VEILNET_WINDOW - 1) / 12;
    for (size_t k = 0; k < COLUMNS; k++, known += 3) {
        double mean = 0.0, square = 0.0, slope = 0.0;
        for (size_t t = 0; t < VEILNET_WINDOW; t++) {
            mean += readings[t * COLUMNS + k];
            slope += ((double)t - middle) / moment * readings[t * COLUMNS + k];
        }
        mean /= VEILNET_WINDOW;
        for (size_t t = 0; t < VEILNET_WINDOW; t++) {
            double off = readings[t * COLUMNS + k] - mean;
            square += off * off;
        }
        known[0] = mean, known[1] = sqrt(square / VEILNET_WINDOW), known[2] = slope;
    }
}
#endif

/* What the readings say of the public quantity; 0 where one of them is not a number or outside the range of the calibration. */
static int share_of(const double *readings, double *share) {
    double hidden[VEILNET_HIDDEN], most = -HUGE_VAL, total = 0.0;
#if VEILNET_WINDOW > 1
    double known[VEILNET_FEATURES];
    features_of(readings, known);
#else
    const double *known = readings;
#endif
    for (size_t k = 0; k < VEILNET_FEATURES; k++)
        if (!(known[k] >= veilnet_low[k] && known[k] <= veilnet_high[k])) return 0;
    for (size_t h = 0; h < VEILNET_HIDDEN; h++) {
        hidden[h] = 0.0;
        for (size_t k = 0; k < VEILNET_FEATURES; k++)
            hidden[h] += (known[k] - veilnet_mean[k]) / veilnet_scale[k] * veilnet_enter[k][h];
        hidden[h] = fmax(hidden[h] + veilnet_bias[h], 0.0);
    }
    for (size_t c = 0; c < VEILNET_SHARES; c++) {
        share[c] = 0.0;
        for (size_t h = 0; h < VEILNET_HIDDEN; h++) share[c] += hidden[h] * veilnet_leave[h][c];
        share[c] += veilnet_level[c];
        most = fmax(most, share[c]);
    }
    if (VEILNET_PROBABILITIES) {
        for (size_t c = 0; c < VEILNET_SHARES; c++) total += share[c] = exp(share[c] - most);
        for (size_t c = 0; c < VEILNET_SHARES; c++) share[c] /= total;
    }
    return 1;
}

/* The place of the largest of Ms + m; -1 where one of them is no finite number. */
static int64_t symbol_of(const double *share) {
    double best = 0.0;
    int64_t symbol = -1;
    for (int64_t m = 0; m < VEILNET_SYMBOLS; m++) {
        double score = 0.0;
        for (size_t c = 0; c < VEILNET_SHARES; c++) score += veilnet_code[m][c] * share[c];
        score += veilnet_first[m];
        if (!isfinite(score)) return -1;
        if (symbol < 0 || score > best) best = score, symbol = m;
    }
    return symbol;
}

#if VEILNET_COIN
static double uniform(const uint8_t *bytes) {
    uint64_t bits = 0;
    for (int count = 8; count--;) bits = bits << 8 | bytes[count];
    return (double)(int64_t)bits * 0x1p-64 + 0.5;
}

/* With chance 1 - keep a symbol drawn evenly of all is sent instead; both are drawn whether needed or not. */
static veilnet_status toss(veilnet_entropy draw, void *context, int64_t *symbol) {
    uint8_t bytes[16];
    if (!draw || draw(context, bytes, sizeof bytes) != 0) return VEILNET_NO_ENTROPY;
    int64_t even = (int64_t)fmin(uniform(bytes + 8) * VEILNET_SYMBOLS, VEILNET_SYMBOLS - 1);
    if (uniform(bytes) >= veilnet_keep[0]) *symbol = even;
    volatile uint8_t *left = bytes;
    for (size_t i = 0; i < sizeof bytes; i++) left[i] = 0;
    return VEILNET_OK;
}
#endif

veilnet_status veilnet_sanitize(const veilnet_reading *readings, veilnet_entropy draw, void *context, veilnet_message *out) {
    double share[VEILNET_SHARES];
    int64_t symbol = -1;
    veilnet_status status = VEILNET_MISSED;
    memset(out, 0, sizeof *out);
    if (readings && share_of(readings, share)) symbol = symbol_of(share);
    if (symbol >= 0) status = VEILNET_OK;
#if VEILNET_COIN
    if (status == VEILNET_OK) status = toss(draw, context, &symbol);
#else
    (void)draw, (void)context;
#endif
    if (status == VEILNET_OK) out->steps[0] = symbol;
    return status;
}
