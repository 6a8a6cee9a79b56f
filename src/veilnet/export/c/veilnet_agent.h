/* An agent of veilnet in C99: what may leave of a reading, and nothing else. No allocation, no state but what you hold.
 *
 * veilnet_plan.h holds the numbers of one agent and is written by "veilnet export". The steps are those of
 * docs/reference/protocol.md, "What an agent does with a reading": given the same random bytes, this code and veilnet's own
 * agent send the same numbers.
 */
#ifndef VEILNET_H
#define VEILNET_H

#include <stddef.h>
#include <stdint.h>

#include "veilnet_plan.h"

/* What became of a reading. Only after VEILNET_OK is there anything to send; after all else the message is empty. */
typedef enum {
    VEILNET_OK = 0,
    VEILNET_MISSED,     /* a reading is missing, not a number or infinite: send nothing but the fact */
    VEILNET_NO_ENTROPY, /* no random bytes: send nothing, and find out why */
    VEILNET_TOO_FAR     /* a number beyond what the grid can represent: counts as missed */
} veilnet_status;

/* Fills bytes with fresh random ones that nobody else knows, and returns 0; returns anything else where it cannot. */
typedef int (*veilnet_entropy)(void *context, uint8_t *bytes, size_t count);

/* One reading, and one number of a memory. Where readings are floats, sums are of whole numbers, and nothing but
 * veilnet_number needs doubles. */
#if VEILNET_FRACTION
typedef float veilnet_reading;
typedef int64_t veilnet_kept;
#else
typedef double veilnet_reading, veilnet_kept;
#endif

/* The numbers to send, in whole steps of their grid. */
typedef struct {
    int64_t steps[VEILNET_NUMBERS];
} veilnet_message;

/* One of the numbers in the units of the plan: steps times the grid's step, exactly; not a number beyond the last. */
double veilnet_number(const veilnet_message *message, size_t place);

#if VEILNET_KEPT == 0

/* What may leave of VEILNET_READINGS readings: of a row, or of VEILNET_WINDOW rows one after the other. */
veilnet_status veilnet_sanitize(
    const veilnet_reading *readings, veilnet_entropy draw, void *context, veilnet_message *out);

#else

/* What an agent with a memory keeps from row to row, as private as its readings. All zeros: it begins with the next row. */
typedef struct {
    veilnet_kept kept[VEILNET_KEPT];
    int begun;
} veilnet_state;

/* What may leave of the next row. readings: NULL for a row without any, which counts as missed.
 * After anything but VEILNET_OK the memory has begun anew, or does so with the next row. */
veilnet_status veilnet_step(
    veilnet_state *state, const veilnet_reading *readings, veilnet_entropy draw, void *context, veilnet_message *out);

#endif
#endif
