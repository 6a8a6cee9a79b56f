/* One row, from readings to a message that waits in the journal: the order of steps that protects it, in one place. */
#ifndef VEILNET_RELEASE_H
#define VEILNET_RELEASE_H

#include "journal.h"

/* What an agent holds while it runs. All zeros but for an opened journal and the secret that seals its messages. */
typedef struct {
    veilnet_journal journal;
    uint8_t secret[VEILNET_SECRET];
    uint64_t last; /* epoch in the memory, 0 after a start */
#if VEILNET_KEPT
    veilnet_state memory;
#endif
} veilnet_device;

/* Take the epoch, draw, pack and keep. readings: NULL for an epoch without any, which is reported as missed.
 * became: what became of the readings. After VEILNET_NO_ENTROPY nothing was kept, and the epoch is given up.
 * What an agent with a memory kept before a restart is forgotten: the first row counts as missed. */
veilnet_journal_status veilnet_release(veilnet_device *device, uint64_t epoch, const veilnet_reading *readings,
                                       veilnet_entropy draw, void *context, veilnet_status *became);

#endif
