/* See wire.h. MessagePack and BLAKE2b (RFC 7693), as far as messages and receipts need them. */
#include "wire.h"

#include <string.h>

#define BLOCK 128
#define ROUNDS 12

typedef struct {
    const uint8_t *at, *end;
    int good;
} reader;

int64_t veilnet_epoch(int64_t microseconds) {
#if VEILNET_STEP > 0
    int64_t since = microseconds - VEILNET_BEGINS;
    return since / VEILNET_STEP - (since % VEILNET_STEP < 0) + 1;
#else
    (void)microseconds;
    return 0;
#endif
}

static uint64_t rotated(uint64_t word, int by) { return word >> by | word << (64 - by); }

static void mix(uint64_t *v, int a, int b, int c, int d, uint64_t x, uint64_t y) {
    v[a] += v[b] + x, v[d] = rotated(v[d] ^ v[a], 32), v[c] += v[d], v[b] = rotated(v[b] ^ v[c], 24);
    v[a] += v[b] + y, v[d] = rotated(v[d] ^ v[a], 16), v[c] += v[d], v[b] = rotated(v[b] ^ v[c], 63);
}

static const uint64_t first_words[8] = {
    0x6a09e667f3bcc908ULL, 0xbb67ae8584caa73bULL, 0x3c6ef372fe94f82bULL, 0xa54ff53a5f1d36f1ULL,
    0x510e527fade682d1ULL, 0x9b05688c2b3e6c1fULL, 0x1f83d9abfb41bd6bULL, 0x5be0cd19137e2179ULL};

static void compress(uint64_t *h, const uint8_t *block, uint64_t length, int last) {
    static const uint8_t order[10][16] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
        {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
        {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
        {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
        {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};
    uint64_t v[16], m[16];
    for (int i = 0; i < 16; i++) {
        m[i] = 0;
        for (int byte = 7; byte >= 0; byte--) m[i] = m[i] << 8 | block[8 * i + byte];
        v[i] = i < 8 ? h[i] : first_words[i - 8];
    }
    v[12] ^= length;
    if (last) v[14] = ~v[14];
    for (int round = 0; round < ROUNDS; round++) {
        const uint8_t *s = order[round % 10];
        for (int i = 0; i < 4; i++) mix(v, i, 4 + i, 8 + i, 12 + i, m[s[2 * i]], m[s[2 * i + 1]]);
        for (int i = 0; i < 4; i++)
            mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[s[8 + 2 * i]], m[s[9 + 2 * i]]);
    }
    for (int i = 0; i < 8; i++) h[i] ^= v[i] ^ v[8 + i];
}

/* BLAKE2b of some bytes with a secret as its key: what they are for is the personalisation, 15 characters. */
static void seal(uint8_t *out, const uint8_t *secret, const char *purpose, const uint8_t *bytes, size_t count) {
    uint64_t h[8];
    uint8_t block[BLOCK] = {0};
    memcpy(h, first_words, sizeof h);
    h[0] ^= 0x01010000 ^ VEILNET_SECRET << 8 ^ VEILNET_SEAL;
    for (int i = 0; i < 15; i++) h[6 + i / 8] ^= (uint64_t)(uint8_t)purpose[i] << 8 * (i % 8);
    memcpy(block, secret, VEILNET_SECRET);
    compress(h, block, BLOCK, count == 0);
    for (size_t done = 0; done < count; done += BLOCK) {
        size_t here = count - done < BLOCK ? count - done : BLOCK;
        memset(block, 0, sizeof block);
        memcpy(block, bytes + done, here);
        compress(h, block, BLOCK + done + here, done + here == count);
    }
    for (int i = 0; i < VEILNET_SEAL; i++) out[i] = (uint8_t)(h[i / 8] >> 8 * (i % 8));
}

static uint8_t *put(uint8_t *at, uint64_t value, int bytes) {
    while (bytes--) *at++ = (uint8_t)(value >> 8 * bytes);
    return at;
}

static uint8_t *put_whole(uint8_t *at, uint64_t value) {
    int size = value < 1u << 8 ? 0 : value < 1u << 16 ? 1 : value <= 0xffffffffu ? 2 : 3;
    if (value >= 128) *at++ = (uint8_t)(0xcc + size);
    return put(at, value, 1 << size);
}

/* short_head: of lengths below 32, 0 where there is no such form; head: of a length of one byte, the next of two. */
static uint8_t *put_bytes(uint8_t *at, const void *bytes, size_t count, int short_head, int head) {
    if (short_head && count < 32)
        *at++ = (uint8_t)(short_head | (int)count);
    else
        *at++ = (uint8_t)(head + (count > 255)), at = put(at, count, 1 + (count > 255));
    memcpy(at, bytes, count);
    return at + count;
}

size_t veilnet_pack(uint8_t *out, const uint8_t *secret, const uint8_t *store, uint64_t sequence, uint64_t epoch,
                    uint64_t after, const veilnet_message *message) {
    uint8_t *at = out;
    *at++ = 0x99; /* a list of nine */
    *at++ = 1;
    at = put_bytes(at, VEILNET_PLAN, sizeof VEILNET_PLAN - 1, 0xa0, 0xd9);
    at = put_bytes(at, VEILNET_AGENT, sizeof VEILNET_AGENT - 1, 0xa0, 0xd9);
    at = put_bytes(at, store, VEILNET_STORE, 0, 0xc4);
    at = put_whole(put_whole(put_whole(at, sequence), epoch), after);
    *at++ = 0xc3; /* true: nobody can repeat the noise */
    if (message) {
        uint8_t numbers[8 * VEILNET_NUMBERS];
        for (size_t j = 0; j < VEILNET_NUMBERS; j++) {
            double number = veilnet_number(message, j);
            uint64_t bits;
            memcpy(&bits, &number, sizeof bits);
            for (int byte = 0; byte < 8; byte++) numbers[8 * j + (size_t)byte] = (uint8_t)(bits >> 8 * byte);
        }
        at = put_bytes(at, numbers, sizeof numbers, 0, 0xc4);
    } else
        *at++ = 0xc0;
    seal(at, secret, "veilnet message", out, (size_t)(at - out));
    return (size_t)(at - out) + VEILNET_SEAL;
}

static uint64_t take(reader *from, int bytes) {
    uint64_t value = 0;
    if (from->end - from->at < bytes) from->good = 0;
    while (from->good && bytes--) value = value << 8 | *from->at++;
    return value;
}

/* A head of one kind and the number in it: short forms have it in their lowest bits, long ones in 1, 2, 4 or 8 bytes. */
static uint64_t take_head(reader *from, int short_head, int short_bits, int head, int forms) {
    int first = (int)take(from, 1);
    if (short_bits && first >> short_bits == short_head >> short_bits) return (uint64_t)(first & ((1 << short_bits) - 1));
    if (first < head || first >= head + forms) from->good = 0;
    return from->good ? take(from, 1 << (first - head + (head == 0xdc))) : 0;
}

static uint64_t take_whole(reader *from) { return take_head(from, 0, 7, 0xcc, 4); }
static uint64_t take_list(reader *from) { return take_head(from, 0x90, 4, 0xdc, 2); }

static const uint8_t *take_bytes(reader *from, uint64_t count) {
    const uint8_t *bytes = from->at;
    if ((uint64_t)(from->end - from->at) < count) from->good = 0;
    if (from->good) from->at += count;
    return bytes;
}

int veilnet_receipt(const uint8_t *bytes, size_t count, const uint8_t *secret, const uint8_t *store, uint64_t sequence) {
    uint8_t expected[VEILNET_SEAL], differs = 0;
    int found = 0;
    if (count < VEILNET_SEAL) return -1;
    count -= VEILNET_SEAL;
    seal(expected, secret, "veilnet receipt", bytes, count);
    for (int i = 0; i < VEILNET_SEAL; i++) differs |= expected[i] ^ bytes[count + (size_t)i];
    if (differs) return -1;
    reader from = {bytes, bytes + count, 1};
    from.good = take_list(&from) == 4 && take_whole(&from) == 1;
    uint64_t length = take_head(&from, 0, 0, 0xc4, 3);
    const uint8_t *of = take_bytes(&from, length);
    if (!from.good || length != VEILNET_STORE || memcmp(of, store, VEILNET_STORE)) return -1;
    for (uint64_t ranges = take_list(&from); from.good && ranges; ranges--) {
        if (take_list(&from) != 2) from.good = 0;
        uint64_t first = take_whole(&from), last = take_whole(&from);
        if (from.good && first <= sequence && sequence <= last) found = 1;
    }
    for (uint64_t refusals = take_list(&from); from.good && refusals; refusals--) {
        if (take_list(&from) != 2) from.good = 0;
        uint64_t number = take_whole(&from);
        take_bytes(&from, take_head(&from, 0xa0, 5, 0xd9, 3));
        if (from.good && number == sequence) found = 2;
    }
    return from.good ? found : -1;
}
