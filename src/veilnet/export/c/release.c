/* See release.h. */
#include "release.h"

#if VEILNET_KEPT

/* A gap in the epochs is a row that was missed; a memory that is not drawn anew goes on through all of them. */
static veilnet_status drawn(veilnet_device *device, uint64_t epoch, uint64_t after, const veilnet_reading *readings,
                            veilnet_entropy draw, void *context, veilnet_message *message) {
    uint64_t missed = device->last ? epoch - device->last - 1 : after > 0;
    if (VEILNET_DRAWN && missed > 1) missed = 1;
    if (!device->last && after > 0) readings = NULL;
    while (missed--) (void)veilnet_step(&device->memory, NULL, draw, context, message);
    device->last = epoch;
    return veilnet_step(&device->memory, readings, draw, context, message);
}

#endif

veilnet_journal_status veilnet_release(veilnet_device *device, uint64_t epoch, const veilnet_reading *readings,
                                       veilnet_entropy draw, void *context, veilnet_status *became) {
    veilnet_journal *journal = &device->journal;
    uint8_t bytes[VEILNET_MESSAGE_BYTES];
    veilnet_message message;
    uint64_t after = VEILNET_KEPT ? journal->last_kept : 0;
    veilnet_journal_status taken = veilnet_journal_reserve(journal, epoch);
    *became = VEILNET_MISSED;
    if (taken != VEILNET_JOURNAL_OK) return taken;
#if VEILNET_KEPT
    *became = drawn(device, epoch, after, readings, draw, context, &message);
#else
    *became = veilnet_sanitize(readings, draw, context, &message);
#endif
    if (*became == VEILNET_NO_ENTROPY) return VEILNET_JOURNAL_OK;
    size_t count = veilnet_pack(bytes, device->secret, journal->store, journal->sequence, epoch, after,
                                *became == VEILNET_OK ? &message : NULL);
    return veilnet_journal_keep(journal, bytes, count);
}
