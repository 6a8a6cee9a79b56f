/* See entropy.h. */
#define _DEFAULT_SOURCE
#include "entropy.h"

#if defined(ESP_PLATFORM)

#include "esp_random.h"
#include "esp_wifi.h"

/* The transmitting power is known once the radio was started; its mode is known, and set, before. */
int veilnet_system_entropy(void *context, uint8_t *bytes, size_t count) {
    int8_t power = 0;
    const int *fed = context;
    if (fed ? *fed != 1 : esp_wifi_get_max_tx_power(&power) != ESP_OK) return 1;
    esp_fill_random(bytes, count);
    return 0;
}

#elif defined(__linux__)

#include <sys/random.h>

/* The kernel gives up to 256 bytes whole, or none before it has gathered enough. */
int veilnet_system_entropy(void *context, uint8_t *bytes, size_t count) {
    (void)context;
    for (size_t done = 0; done < count; done += 256) {
        size_t here = count - done < 256 ? count - done : 256;
        if (getrandom(bytes + done, here, 0) != (ssize_t)here) return 1;
    }
    return 0;
}

#else

int veilnet_system_entropy(void *context, uint8_t *bytes, size_t count) {
    (void)context, (void)bytes, (void)count;
    return 1;
}

#endif
