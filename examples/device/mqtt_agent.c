/* A whole agent for a POSIX machine: rows on standard input, sealed messages to the broker, each until the centre has it.
 *
 *   veilnet export plan/kitchen.json --c kitchen-c/
 *   cc -std=c99 -Os -I kitchen-c -o kitchen examples/device/mqtt_agent.c kitchen-c/[a-z]*.c -lmosquitto -lm
 *   ./kitchen broker.example 8883 keys/agents/kitchen kitchen.journal < rows.csv
 *
 * A row is its number (the epoch) and the readings: 17,21.3,600,9.1,250. A reading that is missing is an empty cell. The
 * journal is the flash of a device here, two pages of a file. Needs Debian's libmosquitto-dev.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "entropy.h"
#include "release.h"

#define PAGE ((size_t)65536)
#define AGAIN 5 /* seconds after which a message without a receipt is sent again */

static struct {
    veilnet_device device;
    char messages[256], receipts[256];
    uint64_t waiting; /* the number of the message that is on its way, or was last */
    int settled;      /* what a receipt said of it */
    int listening;    /* whether receipts would arrive */
} agent;

static int fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(2);
}

/* --- two pages of flash in a file */

static int read_page(void *context, size_t place, uint8_t *bytes, size_t count) {
    return pread(*(int *)context, bytes, count, (off_t)place) != (ssize_t)count;
}

static int write_page(void *context, size_t place, const uint8_t *bytes, size_t count) {
    return pwrite(*(int *)context, bytes, count, (off_t)place) != (ssize_t)count || fdatasync(*(int *)context);
}

static int erase_page(void *context, size_t which) {
    static uint8_t ones[PAGE];
    memset(ones, 0xff, PAGE);
    return write_page(context, which * PAGE, ones, PAGE);
}

static void open_journal(const char *path) {
    static int file;
    static veilnet_flash flash = {&file, PAGE, read_page, write_page, erase_page};
    file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0) fail(path, strerror(errno));
    if (lseek(file, 0, SEEK_END) == 0 && (erase_page(&file, 0) || erase_page(&file, 1))) fail(path, strerror(errno));
    veilnet_journal_status status = veilnet_journal_open(&agent.device.journal, &flash, veilnet_system_entropy, NULL);
    if (status == VEILNET_JOURNAL_DAMAGED) fail(path, "damaged: never begin anew with readings that were sent");
    if (status != VEILNET_JOURNAL_OK) fail(path, "cannot be read or written");
}

/* --- the broker */

static void on_connect(struct mosquitto *client, void *context, int code) {
    (void)context;
    if (code) fprintf(stderr, "the broker refuses: %s\n", mosquitto_connack_string(code));
    else mosquitto_subscribe(client, NULL, agent.receipts, 1);
}

static void on_subscribe(struct mosquitto *client, void *context, int id, int count, const int *granted) {
    (void)client, (void)context, (void)id, (void)count, (void)granted;
    agent.listening = 1;
}

static void on_message(struct mosquitto *client, void *context, const struct mosquitto_message *message) {
    (void)client, (void)context;
    int found = veilnet_receipt(
        message->payload, (size_t)message->payloadlen, agent.device.secret, agent.device.journal.store, agent.waiting);
    if (found > 0) agent.settled = found;
}

static struct mosquitto *connected(const char *host, int port, const char *keys) {
    char ca[512], certificate[512], key[512];
    snprintf(ca, sizeof ca, "%s/ca.crt", keys);
    snprintf(certificate, sizeof certificate, "%s/party.crt", keys);
    snprintf(key, sizeof key, "%s/party.key", keys);
    mosquitto_lib_init();
    struct mosquitto *client = mosquitto_new(VEILNET_IDENTITY, true, NULL);
    if (!client || mosquitto_tls_set(client, ca, NULL, certificate, key, NULL) ||
        mosquitto_tls_opts_set(client, 1, "tlsv1.3", NULL) ||
        mosquitto_int_option(client, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V5))
        fail(keys, "expected ca.crt, party.crt and party.key of 'veilnet live keys'");
    mosquitto_connect_callback_set(client, on_connect);
    mosquitto_subscribe_callback_set(client, on_subscribe);
    mosquitto_message_callback_set(client, on_message);
    int code = mosquitto_connect(client, host, port, 60);
    if (code && code != MOSQ_ERR_ERRNO) fail(host, mosquitto_strerror(code));
    return client;
}

static void pump(struct mosquitto *client) {
    if (mosquitto_loop(client, 100, 1) != MOSQ_ERR_SUCCESS) {
        agent.listening = 0;
        nanosleep(&(struct timespec){1, 0}, NULL);
        mosquitto_reconnect(client);
    }
}

/* Send what waits, the oldest first, each until a receipt names it. */
static void send_all(struct mosquitto *client) {
    uint8_t bytes[VEILNET_MESSAGE_BYTES];
    size_t count;
    veilnet_journal_status status;
    while ((status = veilnet_journal_waiting(&agent.device.journal, bytes, &count, &agent.waiting)) == VEILNET_JOURNAL_OK) {
        time_t sent = 0;
        for (agent.settled = 0; !agent.settled; pump(client))
            if (agent.listening && time(NULL) - sent >= AGAIN &&
                mosquitto_publish(client, NULL, agent.messages, (int)count, bytes, 1, false) == MOSQ_ERR_SUCCESS)
                sent = time(NULL);
        if (agent.settled == 2) fprintf(stderr, "message %llu was refused\n", (unsigned long long)agent.waiting);
        if (veilnet_journal_done(&agent.device.journal, agent.waiting) != VEILNET_JOURNAL_OK) fail("journal", "failed");
    }
    if (status != VEILNET_JOURNAL_NONE) fail("journal", "failed");
}

/* --- a row */

static uint64_t read_row(char *line, veilnet_reading *row) {
    char *end, *cell = line;
    uint64_t epoch = strtoull(line, &end, 10);
    for (size_t k = 0; k < VEILNET_READINGS; k++) {
        cell = cell ? strchr(cell, ',') : NULL;
        row[k] = cell ? (veilnet_reading)strtod(++cell, &end) : NAN;
        if (!cell || end == cell || !strchr(",\r\n", *end)) row[k] = NAN;
    }
    return epoch;
}

/* What was kept is sent by send_all. */
static void sanitize(uint64_t epoch, const veilnet_reading *row) {
    veilnet_status became;
    veilnet_journal_status taken =
        veilnet_release(&agent.device, epoch, row, veilnet_system_entropy, NULL, &became);
    if (taken == VEILNET_JOURNAL_OLD) return; /* sent before */
    if (taken != VEILNET_JOURNAL_OK) fail("journal", "failed");
    if (became == VEILNET_NO_ENTROPY) fail("random bytes", "the system gave none: nothing was sent");
}

static void read_secret(const char *keys) {
    char path[512];
    unsigned byte;
    snprintf(path, sizeof path, "%s/seal.key", keys);
    FILE *file = fopen(path, "r");
    if (!file) fail(path, strerror(errno));
    for (size_t i = 0; i < VEILNET_SECRET; i++) {
        if (fscanf(file, "%2x", &byte) != 1) fail(path, "expected 64 hexadecimal digits");
        agent.device.secret[i] = (uint8_t)byte;
    }
    fclose(file);
}

int main(int argc, char **argv) {
    static char line[65536];
    veilnet_reading row[VEILNET_READINGS];
    if (argc != 5 && argc != 6) fail(argv[0], "expected HOST PORT KEYS JOURNAL [ROOT]");
    const char *root = argc == 6 ? argv[5] : "veilnet";
    snprintf(agent.messages, sizeof agent.messages, "%s/messages/%s", root, VEILNET_IDENTITY);
    snprintf(agent.receipts, sizeof agent.receipts, "%s/acks/%s", root, VEILNET_IDENTITY);
    read_secret(argv[3]);
    open_journal(argv[4]);
    struct mosquitto *client = connected(argv[1], atoi(argv[2]), argv[3]);
    send_all(client);
    while (fgets(line, sizeof line, stdin)) {
        uint64_t epoch = read_row(line, row);
        if (epoch) sanitize(epoch, row); /* a line of names has none */
        send_all(client);
    }
    mosquitto_disconnect(client);
    mosquitto_destroy(client);
    return 0;
}
