/* An exported agent as a filter, readings as CSV in and messages as CSV out, as "veilnet sanitize" does:
 *
 *   veilnet export plan/kitchen.json --c kitchen-c/
 *   cc -std=c99 -Os -I kitchen-c -o kitchen examples/device/filter.c kitchen-c/veilnet_agent.c kitchen-c/entropy.c -lm
 *   ./kitchen < readings.csv > messages.csv
 *   veilnet audit plan/ --run kitchen=./kitchen
 *
 * Columns are in the order of the plan, under a line of names where the plan names its readings: that line is not looked at.
 * It keeps nothing: readings that go through it twice get noise twice. A device keeps a journal (mqtt_agent.c).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entropy.h"
#include "veilnet_agent.h"

#define MOST 65536
#define COLUMNS (VEILNET_READINGS / VEILNET_WINDOW)

/* The readings of a line; what is no number, or is not there, is not a number. */
static void read_row(char *line, veilnet_reading *row) {
    char *cell = line;
    for (size_t k = 0; k < COLUMNS; k++) {
        char *end = cell ? cell + strcspn(cell, ",\r\n") : NULL, *after = NULL;
        row[k] = cell && end > cell ? (veilnet_reading)strtod(cell, &after) : NAN;
        if (after != end) row[k] = NAN;
        cell = end && *end == ',' ? end + 1 : NULL;
    }
    if (cell) row[0] = NAN; /* more cells than readings: another table */
}

int main(void) {
    static char line[MOST];
    veilnet_reading row[VEILNET_READINGS];
    veilnet_message message;
    unsigned long number = 0;
    int code = 0;
#if VEILNET_KEPT
    static veilnet_state state;
#endif
    if (VEILNET_NAMED && !fgets(line, sizeof line, stdin)) return 2; /* the names of the columns */
    printf("counted,plan,agent");
    for (int j = 1; j <= VEILNET_NUMBERS; j++) printf(",z%d", j);
    printf("\n");
    while (fgets(line, sizeof line, stdin)) {
        read_row(line, row + number % VEILNET_WINDOW * COLUMNS);
        if (++number % VEILNET_WINDOW) continue; /* a window is sent with its last row */
#if VEILNET_KEPT
        veilnet_status status = veilnet_step(&state, row, veilnet_system_entropy, NULL, &message);
#else
        veilnet_status status = veilnet_sanitize(row, veilnet_system_entropy, NULL, &message);
#endif
        if (status == VEILNET_NO_ENTROPY) return fprintf(stderr, "no random bytes: nothing was sent\n"), 2;
        if (status != VEILNET_OK) {
            fprintf(stderr, "row %lu not sent\n", number);
            code = 1;
#if VEILNET_KEPT
            printf("%lu,%.8s,%s", number, VEILNET_PLAN, VEILNET_AGENT);
            for (int j = 0; j < VEILNET_NUMBERS; j++) printf(",missed");
            printf("\n");
#endif
            continue;
        }
        printf("%lu,%.8s,%s", number, VEILNET_PLAN, VEILNET_AGENT);
        for (size_t j = 0; j < VEILNET_NUMBERS; j++) printf(",%.17g", veilnet_number(&message, j));
        printf("\n");
    }
    return fflush(stdout) ? 2 : code;
}
