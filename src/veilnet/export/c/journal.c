/* See journal.h. */
#include "journal.h"

#include <string.h>

#define HEAD 32   /* bytes of a page's head: magic, generation, store, checksum */
#define FRONT 24  /* of a record before its message: kind, length, sequence, epoch */
#define CHECK 8   /* of a checksum, with four zeros */
#define ALIGNED(count) (((count) + 7u) & ~(size_t)7)
#define RECORD(count) (FRONT + ALIGNED(count) + CHECK)
#define MAGIC 0x314a4e56u
#define LARGEST RECORD(VEILNET_MESSAGE_BYTES)

enum { ERASED = 0xff, RESERVED = 1, KEPT = 2, DONE = 3 };

typedef struct {
    int kind;
    size_t place, count;
    uint64_t sequence, epoch;
} record;

static uint32_t checksum(uint32_t sum, const uint8_t *bytes, size_t count) {
    while (count--) {
        sum ^= *bytes++;
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (0xedb88320u & (0u - (sum & 1u)));
    }
    return sum;
}

static void store_whole(uint8_t *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t whole(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    while (bytes--) value = value << 8 | at[bytes];
    return value;
}

static int read_at(const veilnet_flash *flash, size_t which, size_t place, uint8_t *bytes, size_t count) {
    return flash->read(flash->context, which * flash->page + place, bytes, count) == 0;
}

/* 1 where the page holds ones alone from a place on, 0 where not, -1 where it cannot be read. */
static int is_erased(const veilnet_flash *flash, size_t which, size_t place) {
    uint8_t bytes[8];
    for (; place + sizeof bytes <= flash->page; place += sizeof bytes) {
        if (!read_at(flash, which, place, bytes, sizeof bytes)) return -1;
        for (size_t i = 0; i < sizeof bytes; i++)
            if (bytes[i] != ERASED) return 0;
    }
    return 1;
}

/* The record at a place; kind ERASED where none begins, 0 where one was cut off, -1 where it cannot be read. */
static record record_at(const veilnet_flash *flash, size_t which, size_t place) {
    uint8_t bytes[FRONT];
    record found = {ERASED, place, 0, 0, 0};
    if (place + FRONT + CHECK > flash->page) return found;
    if (!read_at(flash, which, place, bytes, FRONT)) return found.kind = -1, found;
    int kind = bytes[0];
    if (kind == ERASED) return found.kind = is_erased(flash, which, place) == 1 ? ERASED : 0, found;
    found.count = (size_t)whole(bytes + 2, 2);
    found.sequence = whole(bytes + 8, 8);
    found.epoch = whole(bytes + 16, 8);
    found.kind = 0;
    if (place + RECORD(found.count) > flash->page) return found;
    uint32_t sum = checksum(0xffffffffu, bytes, FRONT);
    for (size_t at = place + FRONT; at < place + FRONT + ALIGNED(found.count); at += 8) {
        if (!read_at(flash, which, at, bytes, 8)) return found.kind = -1, found;
        sum = checksum(sum, bytes, 8);
    }
    if (!read_at(flash, which, place + RECORD(found.count) - CHECK, bytes, CHECK)) return found.kind = -1, found;
    if (whole(bytes, 8) == sum && kind >= RESERVED && kind <= DONE) found.kind = kind;
    return found;
}

static int write_record(veilnet_journal *journal, int kind, uint64_t sequence, uint64_t epoch, const uint8_t *bytes,
                        size_t count) {
    uint8_t record[LARGEST];
    size_t size = RECORD(count);
    memset(record, 0, size);
    record[0] = (uint8_t)kind;
    store_whole(record + 2, count, 2);
    store_whole(record + 8, sequence, 8);
    store_whole(record + 16, epoch, 8);
    if (count) memcpy(record + FRONT, bytes, count);
    store_whole(record + size - CHECK, checksum(0xffffffffu, record, size - CHECK), 4);
    const veilnet_flash *flash = journal->flash;
    size_t place = journal->which * flash->page + journal->end;
    if (flash->write(flash->context, place, record, size) != 0) return 0;
    journal->end += size;
    return 1;
}

static int read_head(const veilnet_flash *flash, size_t which, uint32_t *generation, uint8_t *store) {
    uint8_t head[HEAD];
    if (!read_at(flash, which, 0, head, HEAD)) return -1;
    if (whole(head, 4) != MAGIC || whole(head + 24, 4) != checksum(0xffffffffu, head, 24)) return 0;
    *generation = (uint32_t)whole(head + 4, 4);
    memcpy(store, head + 8, VEILNET_STORE);
    return 1;
}

static int write_head(veilnet_journal *journal) {
    uint8_t head[HEAD] = {0};
    store_whole(head, MAGIC, 4);
    store_whole(head + 4, journal->generation, 4);
    memcpy(head + 8, journal->store, VEILNET_STORE);
    store_whole(head + 24, checksum(0xffffffffu, head, 24), 4);
    const veilnet_flash *flash = journal->flash;
    return flash->write(flash->context, journal->which * flash->page, head, HEAD) == 0;
}

static int is_done(const veilnet_journal *journal, size_t which, uint64_t sequence) {
    for (size_t place = HEAD;;) {
        record each = record_at(journal->flash, which, place);
        if (each.kind <= 0 || each.kind == ERASED) return 0;
        if (each.kind == DONE && each.sequence == sequence) return 1;
        place += RECORD(each.count);
    }
}

/* The oldest message in a page that waits, from a place on. */
static record next_waiting(const veilnet_journal *journal, size_t which, size_t place) {
    for (;;) {
        record each = record_at(journal->flash, which, place);
        if (each.kind <= 0 || each.kind == ERASED) return each;
        if (each.kind == KEPT && !is_done(journal, which, each.sequence)) return each;
        place += RECORD(each.count);
    }
}

/* What is still needed, in the other page; its head comes last, and makes it the page in use. */
static int change_page(veilnet_journal *journal) {
    const veilnet_flash *flash = journal->flash;
    uint8_t bytes[VEILNET_MESSAGE_BYTES];
    size_t old = journal->which;
    journal->which = 1 - old;
    journal->end = HEAD;
    journal->generation++;
    if (flash->erase(flash->context, journal->which) != 0) return 0;
    store_whole(bytes, journal->last_kept, sizeof journal->last_kept);
    if (journal->sequence &&
        !write_record(journal, RESERVED, journal->sequence, journal->epoch, bytes, sizeof journal->last_kept))
        return 0;
    for (record each = next_waiting(journal, old, HEAD); each.kind == KEPT;
         each = next_waiting(journal, old, each.place + RECORD(each.count)))
        if (!read_at(flash, old, each.place + FRONT, bytes, each.count) ||
            !write_record(journal, KEPT, each.sequence, each.epoch, bytes, each.count))
            return 0;
    return write_head(journal);
}

/* Room for so many bytes more, changing the page if need be. */
static veilnet_journal_status make_room(veilnet_journal *journal, size_t count) {
    if (journal->end + count <= journal->flash->page) return VEILNET_JOURNAL_OK;
    if (!change_page(journal)) return VEILNET_JOURNAL_FAULT;
    return journal->end + count <= journal->flash->page ? VEILNET_JOURNAL_OK : VEILNET_JOURNAL_FULL;
}

/* After a fault nothing is taken until the journal is opened anew: what is in the flash may not be what is here. */
static veilnet_journal_status ended(veilnet_journal *journal, veilnet_journal_status status) {
    if (status == VEILNET_JOURNAL_FAULT) journal->usable = 0;
    return status;
}

static veilnet_journal_status begin(veilnet_journal *journal, veilnet_entropy draw, void *context) {
    /* A first head that was cut off has nothing behind it; anything else that has no head is damaged. */
    if (is_erased(journal->flash, 1, 0) != 1 || is_erased(journal->flash, 0, HEAD) != 1) return VEILNET_JOURNAL_DAMAGED;
    if (!draw || draw(context, journal->store, VEILNET_STORE) != 0) return VEILNET_JOURNAL_FAULT;
    if (journal->flash->erase(journal->flash->context, 0) != 0) return VEILNET_JOURNAL_FAULT;
    journal->generation = 1;
    journal->end = HEAD;
    return write_head(journal) ? VEILNET_JOURNAL_OK : VEILNET_JOURNAL_FAULT;
}

static veilnet_journal_status resume(veilnet_journal *journal) {
    for (journal->end = HEAD;;) {
        record each = record_at(journal->flash, journal->which, journal->end);
        if (each.kind < 0) return VEILNET_JOURNAL_FAULT;
        if (each.kind == ERASED) return VEILNET_JOURNAL_OK;
        if (each.kind == 0) return change_page(journal) ? VEILNET_JOURNAL_OK : VEILNET_JOURNAL_FAULT;
        if (each.sequence > journal->sequence) journal->sequence = each.sequence;
        if (each.epoch > journal->epoch) journal->epoch = each.epoch;
        if (each.kind == KEPT && each.epoch > journal->last_kept) journal->last_kept = each.epoch;
        if (each.kind == RESERVED && each.count) {
            uint8_t kept[8];
            if (!read_at(journal->flash, journal->which, each.place + FRONT, kept, sizeof kept)) return VEILNET_JOURNAL_FAULT;
            journal->last_kept = whole(kept, sizeof kept);
        }
        journal->end += RECORD(each.count);
    }
}

veilnet_journal_status veilnet_journal_open(
    veilnet_journal *journal, const veilnet_flash *flash, veilnet_entropy draw, void *context) {
    uint32_t generation[2] = {0, 0};
    uint8_t store[2][VEILNET_STORE];
    int there[2];
    memset(journal, 0, sizeof *journal);
    journal->flash = flash;
    for (size_t which = 0; which < 2; which++) {
        there[which] = read_head(flash, which, &generation[which], store[which]);
        if (there[which] < 0) return VEILNET_JOURNAL_FAULT;
    }
    veilnet_journal_status status;
    if (there[0] || there[1]) {
        journal->which = there[1] && (!there[0] || generation[1] > generation[0]);
        journal->generation = generation[journal->which];
        memcpy(journal->store, store[journal->which], VEILNET_STORE);
        status = resume(journal);
    } else
        status = begin(journal, draw, context);
    journal->usable = status == VEILNET_JOURNAL_OK;
    return status;
}

veilnet_journal_status veilnet_journal_reserve(veilnet_journal *journal, uint64_t epoch) {
    if (!journal->usable) return VEILNET_JOURNAL_FAULT;
    if (epoch <= journal->epoch) return VEILNET_JOURNAL_OLD;
    /* room for its message and for a receipt too: what is drawn must be kept */
    veilnet_journal_status status = make_room(journal, 2 * RECORD(0) + LARGEST);
    if (status != VEILNET_JOURNAL_OK) return ended(journal, status);
    if (!write_record(journal, RESERVED, journal->sequence + 1, epoch, NULL, 0)) return ended(journal, VEILNET_JOURNAL_FAULT);
    journal->sequence++;
    journal->epoch = epoch;
    return VEILNET_JOURNAL_OK;
}

veilnet_journal_status veilnet_journal_keep(veilnet_journal *journal, const uint8_t *bytes, size_t count) {
    if (!journal->usable || !journal->sequence || count > VEILNET_MESSAGE_BYTES) return VEILNET_JOURNAL_FAULT;
    if (journal->end + RECORD(count) > journal->flash->page) return VEILNET_JOURNAL_FULL;
    if (!write_record(journal, KEPT, journal->sequence, journal->epoch, bytes, count))
        return ended(journal, VEILNET_JOURNAL_FAULT);
    journal->last_kept = journal->epoch;
    return VEILNET_JOURNAL_OK;
}

veilnet_journal_status veilnet_journal_waiting(
    veilnet_journal *journal, uint8_t *bytes, size_t *count, uint64_t *sequence) {
    if (!journal->usable) return VEILNET_JOURNAL_FAULT;
    record found = next_waiting(journal, journal->which, HEAD), oldest = found;
    while (found.kind == KEPT && found.sequence <= *sequence)
        found = next_waiting(journal, journal->which, found.place + RECORD(found.count));
    if (found.kind == ERASED) found = oldest;
    if (found.kind != KEPT) return found.kind == ERASED ? VEILNET_JOURNAL_NONE : ended(journal, VEILNET_JOURNAL_FAULT);
    if (found.count > VEILNET_MESSAGE_BYTES) return ended(journal, VEILNET_JOURNAL_DAMAGED);
    *count = found.count;
    *sequence = found.sequence;
    return read_at(journal->flash, journal->which, found.place + FRONT, bytes, found.count)
               ? VEILNET_JOURNAL_OK
               : ended(journal, VEILNET_JOURNAL_FAULT);
}

veilnet_journal_status veilnet_journal_done(veilnet_journal *journal, uint64_t sequence) {
    if (!journal->usable) return VEILNET_JOURNAL_FAULT;
    veilnet_journal_status status = make_room(journal, RECORD(0));
    if (status == VEILNET_JOURNAL_OK && !write_record(journal, DONE, sequence, 0, NULL, 0)) status = VEILNET_JOURNAL_FAULT;
    return ended(journal, status);
}
