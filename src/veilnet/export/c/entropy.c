/* See entropy.h. */
#define _DEFAULT_SOURCE
#include "entropy.h"

#if defined(ESP_PLATFORM)

#include "esp_random.h"
#include "esp_wifi.h"

int veilnet_system_entropy(void *context, uint8_t *bytes, size_t count) {
    wifi_mode_t mode = WIFI_MODE_NULL;
    const int *fed = context;
    int is_on = fed ? *fed == 1 : esp_wifi_get_mode(&mode) == ESP_OK && mode != WIFI_MODE_NULL;
    if (!is_on) return 1;
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
