/* What an agent must not forget, in two pages of flash: which epochs were taken, and which messages wait for a receipt.
 *
 * Order of one reading: veilnet_journal_reserve, then draw (veilnet_sanitize or veilnet_step), veilnet_journal_keep with the
 * packed bytes, then send them, again and again, until a receipt names them: veilnet_journal_done. Power may fail
 * anywhere. An epoch that was reserved is never drawn again, and a message that was kept is the same bytes for ever:
 * noise drawn twice for one reading would let a receiver average it away.
 *
 * Records follow one another in the page in use, each with a checksum. Where the page is full, or ends in a record that was cut
 * off, what is still needed is copied to the other page, whose head is written last: a page without a head does not count.
 */
#ifndef VEILNET_JOURNAL_H
#define VEILNET_JOURNAL_H

#include "wire.h"

/* Two pages of flash, side by side. Functions return 0, or anything else where they failed. Writing makes ones to zeros and
 * comes in multiples of 8 bytes at multiples of 8; erasing makes a page all ones. */
typedef struct {
    void *context;
    size_t page; /* bytes of one */
    int (*read)(void *context, size_t place, uint8_t *bytes, size_t count);
    int (*write)(void *context, size_t place, const uint8_t *bytes, size_t count);
    int (*erase)(void *context, size_t which);
} veilnet_flash;

typedef struct {
    const veilnet_flash *flash;
    uint8_t store[VEILNET_STORE];
    uint64_t sequence, epoch; /* the last that were taken */
    uint64_t last_kept;        /* the last epoch whose message was kept: what a message says it comes "after" */
    size_t which, end;        /* page in use, and where its records end */
    uint32_t generation;
    int usable;
} veilnet_journal;

typedef enum {
    VEILNET_JOURNAL_OK = 0,
    VEILNET_JOURNAL_FAULT,   /* the flash failed, or there are no random bytes: send nothing, open it again */
    VEILNET_JOURNAL_DAMAGED, /* something was there and cannot be read: never begin anew with these readings */
    VEILNET_JOURNAL_OLD,     /* the epoch was taken before: send nothing for it */
    VEILNET_JOURNAL_FULL,    /* messages wait for receipts and leave no room: send nothing now */
    VEILNET_JOURNAL_NONE     /* no message waits */
} veilnet_journal_status;

/* Open what is there; flash that is all ones begins a new journal, with a name drawn at random. */
veilnet_journal_status veilnet_journal_open(
    veilnet_journal *journal, const veilnet_flash *flash, veilnet_entropy draw, void *context);

/* Take an epoch, later than all before: after VEILNET_JOURNAL_OK it may be drawn, once. */
veilnet_journal_status veilnet_journal_reserve(veilnet_journal *journal, uint64_t epoch);

/* Keep the packed message of the epoch just taken; after VEILNET_JOURNAL_OK it may be sent. */
veilnet_journal_status veilnet_journal_keep(veilnet_journal *journal, const uint8_t *bytes, size_t count);

/* The oldest message that waits and comes after *sequence (0 at first), or else the oldest of all, into bytes with room for
 * VEILNET_MESSAGE_BYTES; *sequence is its number. One that no centre takes does not hold up the others. */
veilnet_journal_status veilnet_journal_waiting(
    veilnet_journal *journal, uint8_t *bytes, size_t *count, uint64_t *sequence);

/* A receipt named it. */
veilnet_journal_status veilnet_journal_done(veilnet_journal *journal, uint64_t sequence);

#endif
