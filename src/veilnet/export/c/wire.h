/* What goes over the wire: messages with their seal, and receipts (docs/reference/protocol.md). */
#ifndef VEILNET_WIRE_H
#define VEILNET_WIRE_H

#include "veilnet_agent.h"

#define VEILNET_SECRET 32 /* bytes of seal.key, 64 hexadecimal digits in the file */
#define VEILNET_STORE 8   /* bytes that name the journal which numbers the messages */
#define VEILNET_SEAL 16
/* Room for any message of this agent. */
#define VEILNET_MESSAGE_BYTES (64 + sizeof VEILNET_PLAN + sizeof VEILNET_AGENT + 8 * VEILNET_NUMBERS + VEILNET_SEAL)

/* The epoch of a time in microseconds since 1970-01-01 UTC. Only where the plan has a step. */
int64_t veilnet_epoch(int64_t microseconds);

/* A sealed message into out, which has room for VEILNET_MESSAGE_BYTES; returns how many it has.
 * after:   of an agent with a memory, the epoch of its message before this one, 0 for none; else 0.
 * message: NULL where the epoch was missed. */
size_t veilnet_pack(uint8_t *out, const uint8_t *secret, const uint8_t *store, uint64_t sequence, uint64_t epoch,
                    uint64_t after, const veilnet_message *message);

/* What a receipt says of a message: 1 it is on the centre's disk, 2 the centre will never take it, 0 nothing,
 * -1 these bytes are no receipt for this store. */
int veilnet_receipt(const uint8_t *bytes, size_t count, const uint8_t *secret, const uint8_t *store, uint64_t sequence);

#endif
