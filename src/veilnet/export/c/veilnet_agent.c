/* See veilnet_agent.h. */
#define VEILNET_TABLES
#include "veilnet_agent.h"

#include <math.h>
#include <string.h>

#define KNOWN (VEILNET_KEPT + VEILNET_READINGS)
#define UNIFORM 8 /* random bytes of a uniform draw, and */
#define NORMAL 12 /* of a normal one */
/* Of a row: dither of readings, noise, dither of the grid. One more than needed, since C has no empty arrays. */
#define ROW_BYTES (UNIFORM * (VEILNET_READINGS * VEILNET_DITHERS + VEILNET_BLURRED) + NORMAL * VEILNET_NOISES)

/* Noise must not be found in memory afterwards: a plain memset may be optimised away. */
static void wipe(void *bytes, size_t count) {
    volatile uint8_t *each = bytes;
    while (count--) *each++ = 0;
}

#if ROW_BYTES + VEILNET_DRAWN > 0
static uint64_t little_endian(const uint8_t *bytes, int count) {
    uint64_t found = 0;
    while (count--) found = found << 8 | bytes[count];
    return found;
}
#endif

#if VEILNET_DITHERS + VEILNET_BLURRED > 0
/* Between -1/2 and 1/2, in units of 2^-64. */
static int64_t uniform(const uint8_t **bytes) {
    uint64_t bits = little_endian(*bytes, UNIFORM);
    *bytes += UNIFORM;
    return (int64_t)bits;
}
#endif

/* Doubles, whose rounding errors the grid hides, or whole numbers, which have none. */
#if VEILNET_FRACTION

typedef int64_t exact; /* a reading in units of 2^-scale, a sum in units of 2^-VEILNET_FRACTION of a step */
#define DIGITS 24 /* of the lower part of a number; shifts of negative numbers are arithmetic, as with every compiler */

/* The nearest whole number to x * 2^power. No library is asked: those of small processors take doubles for it. */
static exact whole(float x, int power) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    int raised = (int)(bits >> 23 & 255);
    exact digits = (exact)((bits & 0x7fffff) | (uint32_t)(raised > 0) << 23) * (bits >> 31 ? -1 : 1);
    int shift = raised + (raised == 0) - 150 + power;
    if (shift >= 0) return digits * ((exact)1 << shift);
    shift = shift < -40 ? 40 : -shift;
    return (digits + ((exact)1 << (shift - 1))) >> shift;
}

static float added(float total, float y) { return isfinite(y) ? total : y; }
static exact centred(float y, size_t k) { return whole(y, veilnet_scale[k]) - veilnet_offset[k]; }

#if VEILNET_DITHERS + VEILNET_NOISES + VEILNET_DRAWN > 0
/* width * u / 2^32, of numbers below 2^55 and 2^31. */
static exact noise(exact width, int64_t u) {
    return ((width >> DIGITS) * u + ((width & ((1 << DIGITS) - 1)) * u >> DIGITS)) >> (32 - DIGITS);
}
#define moved(width, u) noise(width, (u) >> 32)
#endif

/* Products of two numbers below 2^55, in parts; all of them together, then in units of 2^48, rounded down. */
static exact combined(const exact *by, const exact *known) {
    int64_t high = 0, middle = 0, low = 0;
    for (size_t k = 0; k < KNOWN; k++) {
        int32_t a = (int32_t)(by[k] >> DIGITS), b = (int32_t)(by[k] & ((1 << DIGITS) - 1));
        int32_t c = (int32_t)(known[k] >> DIGITS), d = (int32_t)(known[k] & ((1 << DIGITS) - 1));
        high += (int64_t)a * c, middle += (int64_t)a * d + (int64_t)b * c, low += (int64_t)b * d;
    }
    return high + ((middle + (low >> DIGITS)) >> DIGITS);
}

#if VEILNET_KEPT > 0
static exact remembered(exact sum) { return sum >> VEILNET_REST; }
#endif

#if VEILNET_NOISES + VEILNET_DRAWN > 0
/* Standard normal in units of 2^-27, from 96 bits: a sign and p = (k + 1/2)/2^96 of 95. Its quantile is a polynomial of the
 * root of x = -log2(2p), another one from each whole number to the next. */
static int64_t normal(const uint8_t **bytes) {
    static const uint8_t steps[] = {32, 32, 16, 8, 4, 2, 1};
    uint64_t leading = little_endian(*bytes, UNIFORM);
    uint64_t trailing = little_endian(*bytes + UNIFORM, NORMAL - UNIFORM) << 1 | 1;
    uint64_t top = (leading & ~(uint64_t)1) | trailing >> 32, rest = trailing << 32, x = 1, root = 0;
    *bytes += NORMAL;
    for (size_t i = 0; i < sizeof steps; i++) { /* zeros in front */
        int by = steps[i] * !(top >> (64 - steps[i]));
        top = top << by | rest >> 1 >> (63 - by);
        rest <<= by;
        x += (uint64_t)by;
    }
    x <<= 28;
    top >>= 32;
    for (int bit = 28; bit--;) { /* a number from 1 to 2: squared, its logarithm is doubled */
        top *= top;
        x -= (top >> 63) << bit;
        top >>= 31 + (top >> 63);
    }
    for (uint64_t bit = (uint64_t)1 << 29; bit; bit >>= 1)
        root |= bit & (0 - (uint64_t)((root | bit) * (root | bit) <= x << 24));
    const int32_t *by = veilnet_quantile[root >> 26];
    int64_t found = 0, part = (int64_t)(root & 0x3ffffff) * 2 - 0x4000000;
    for (size_t i = 0; i < sizeof *veilnet_quantile / sizeof **veilnet_quantile; i++) found = by[i] + (found * part >> 26);
    return found * (1 - 2 * (int)(leading & 1));
}
#endif

#if VEILNET_BLURRED > 0
static exact blur(int64_t u) { return u >> (64 - VEILNET_FRACTION); }
#endif

/* Sums are far below what 64 bits hold, since readings are within their limits. */
static int rounded(exact sum, int64_t *steps) {
    *steps = (sum + ((exact)1 << (VEILNET_FRACTION - 1))) >> VEILNET_FRACTION;
    return 1;
}

#else

typedef double exact;
#define noise(width, drawn) ((width) * (drawn))
#define remembered(sum) (sum)

static double added(double total, double y) { return total + y; }
static exact centred(double y, size_t k) { return y - veilnet_offset[k]; }

#if VEILNET_DITHERS > 0
static exact moved(exact width, int64_t u) { return (double)u * 0x1p-64 * width; }
#endif

static exact combined(const exact *by, const exact *known) {
    exact sum = 0.0;
    for (size_t k = 0; k < KNOWN; k++) sum += by[k] * known[k];
    return sum;
}

#if VEILNET_BLURRED > 0
static exact blur(int64_t u) { return (double)u * 0x1p-64; }
#endif

#if VEILNET_NOISES + VEILNET_DRAWN > 0
static double ratio(const double (*by)[8], double x) {
    double above = by[0][0], below = by[1][0];
    for (int power = 1; power < 8; power++) {
        above = above * x + by[0][power];
        below = below * x + by[1][power];
    }
    return above / below;
}

/* Standard normal, from 96 bits: a sign and p = (k + 1/2)/2^96 of 95, whose quantile AS 241 (PPND16) gives. All three of its
 * ratios are computed and one is taken, so that the operations do not depend on the draw. */
static double normal(const uint8_t **bytes) {
    static const double quantile[3][2][8] = {
        {{2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
          1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0},
         {5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
          5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0}},
        {{7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
          3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0},
         {1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
          6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0}},
        {{2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
          2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0},
         {2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
          1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0}}};
    uint64_t leading = little_endian(*bytes, UNIFORM);
    double trailing = (double)(uint32_t)little_endian(*bytes + UNIFORM, NORMAL - UNIFORM);
    *bytes += NORMAL;
    double upper = (double)(uint32_t)(leading >> 33) * 0x1p32, lower = (double)(uint32_t)(leading >> 1);
    double p = (upper + lower + (trailing + 0.5) * 0x1p-32) * 0x1p-64;
    double q = p - 0.5, root = sqrt(-log(p));
    double found[3] = {q * ratio(quantile[0], 0.425 * 0.425 - q * q), -ratio(quantile[1], root - 1.6),
                     -ratio(quantile[2], root - 5)};
    int which = (q < -0.425) * (1 + (root > 5));
    return found[which] * (1 - 2 * (int)(leading & 1));
}
#endif

static int rounded(exact sum, int64_t *steps) {
    int inside = fabs(sum) < 0x1p51; /* false where it is not a number */
    *steps = inside ? (int64_t)rint(sum) : 0;
    return inside;
}

#endif

double veilnet_number(const veilnet_message *message, size_t place) {
    return place < VEILNET_NUMBERS ? (double)message->steps[place] * veilnet_grid[place] : (double)NAN;
}

/* Readings within their limits and without their offset; 0 where one is no finite number. */
static int examine(const veilnet_reading *readings, exact *known) {
    veilnet_reading total = 0;
    for (size_t k = 0; k < VEILNET_READINGS; k++) {
        veilnet_reading y = readings[k];
        total = added(total, y);
        y = y > veilnet_low[k] ? y : veilnet_low[k];
        known[k] = centred(y < veilnet_high[k] ? y : veilnet_high[k], k);
    }
    return isfinite(total);
}

#if VEILNET_DITHERS > 0
/* Readings lie on a lattice of steps: uniform draws of a step's width move them off it. */
static void dither(exact *known, const uint8_t **bytes) {
    for (size_t pass = 0; pass < VEILNET_DITHERS; pass++)
        for (size_t k = 0; k < VEILNET_READINGS; k++) known[k] += moved(veilnet_dither[pass][k], uniform(bytes));
}
#endif

/* What is known becomes numbers on their grids. */
static veilnet_status combine(const exact *known, const uint8_t *bytes, veilnet_message *out) {
    exact sums[VEILNET_NUMBERS];
    veilnet_status status = VEILNET_OK;
    for (size_t j = 0; j < VEILNET_NUMBERS; j++) sums[j] = combined(veilnet_rows[j], known);
#if VEILNET_NOISES > 0
    for (size_t i = 0; i < VEILNET_NOISES; i++) {
        exact drawn = normal(&bytes);
        for (size_t j = 0; j < VEILNET_NUMBERS; j++) sums[j] += noise(veilnet_noise[i][j], drawn);
    }
#endif
#if VEILNET_BLURRED > 0
    for (size_t i = 0; i < VEILNET_BLURRED; i++) sums[veilnet_blurred[i]] += blur(uniform(&bytes));
#endif
    (void)bytes;
    for (size_t j = 0; j < VEILNET_NUMBERS; j++)
        if (!rounded(sums[j], &out->steps[j])) status = VEILNET_TOO_FAR;
    wipe(sums, sizeof sums);
    return status;
}

/* The random bytes of a row are drawn before anything else happens: half a row of noise protects nothing. */
static veilnet_status send(exact *known, veilnet_entropy draw, void *context, veilnet_message *out,
                           void (*enter)(void *state, exact *known), void *state) {
    uint8_t bytes[ROW_BYTES + 1];
    const uint8_t *left = bytes;
    veilnet_status status = VEILNET_NO_ENTROPY;
    if (ROW_BYTES == 0 || (draw && draw(context, bytes, ROW_BYTES) == 0)) {
#if VEILNET_DITHERS > 0
        dither(known + VEILNET_KEPT, &left);
#endif
        if (enter) enter(state, known);
        status = combine(known, left, out);
    }
    if (status != VEILNET_OK) memset(out, 0, sizeof *out);
    wipe(bytes, sizeof bytes);
    return status;
}

#if VEILNET_KEPT == 0

veilnet_status veilnet_sanitize(
    const veilnet_reading *readings, veilnet_entropy draw, void *context, veilnet_message *out) {
    exact known[KNOWN];
    veilnet_status status = VEILNET_MISSED;
    memset(out, 0, sizeof *out);
    if (readings && examine(readings, known)) status = send(known, draw, context, out, NULL, NULL);
    wipe(known, sizeof known);
    return status;
}

#else

/* The memory begins anew: drawn from its own law, so that no reading stands alone in what follows. */
static int begin(veilnet_state *state, veilnet_entropy draw, void *context) {
    memset(state, 0, sizeof *state);
#if VEILNET_DRAWN > 0
    uint8_t bytes[NORMAL * VEILNET_DRAWN];
    const uint8_t *left = bytes;
    if (!draw || draw(context, bytes, sizeof bytes) != 0) return 0;
    for (size_t i = 0; i < VEILNET_DRAWN; i++) {
        exact drawn = normal(&left);
        for (size_t k = 0; k < VEILNET_KEPT; k++) state->kept[k] += noise(veilnet_start[k][i], drawn);
    }
    wipe(bytes, sizeof bytes);
#else
    (void)draw, (void)context;
#endif
    state->begun = 1;
    return 1;
}

/* s = F s + K v, where known is (s, v) afterwards, and was (anything, v). */
static void enter(void *of, exact *known) {
    veilnet_state *state = of;
    memcpy(known, state->kept, sizeof state->kept);
    for (size_t k = 0; k < VEILNET_KEPT; k++) state->kept[k] = remembered(combined(veilnet_next[k], known));
    memcpy(known, state->kept, sizeof state->kept);
}

/* A row that was missed: a memory that is drawn begins anew, one that is not goes on without the reading. */
static void miss(veilnet_state *state, veilnet_entropy draw, void *context) {
#if VEILNET_DRAWN > 0
    (void)begin(state, draw, context);
#else
    exact known[KNOWN] = {0};
    (void)draw, (void)context;
    enter(state, known);
#endif
}

veilnet_status veilnet_step(
    veilnet_state *state, const veilnet_reading *readings, veilnet_entropy draw, void *context, veilnet_message *out) {
    exact known[KNOWN];
    veilnet_status status = VEILNET_MISSED;
    memset(out, 0, sizeof *out);
    if (!state->begun && !begin(state, draw, context)) return VEILNET_NO_ENTROPY;
    if (readings && examine(readings, known + VEILNET_KEPT)) status = send(known, draw, context, out, enter, state);
    if (status != VEILNET_OK) miss(state, draw, context);
    wipe(known, sizeof known);
    return status;
}

#endif
