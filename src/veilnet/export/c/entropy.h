/* Random bytes for veilnet_agent.h, from what the machine has. */
#ifndef VEILNET_ENTROPY_H
#define VEILNET_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

/* Linux: from the kernel; context is not used.
 * ESP32: its generator is random only while a radio runs or the SAR ADC feeds it. context NULL asks whether Wi-Fi was started;
 * otherwise it points to an int of yours that is 1 between bootloader_random_enable() and bootloader_random_disable().
 * Everywhere else: never any. Write your own, which must fail where its source does. */
int veilnet_system_entropy(void *context, uint8_t *bytes, size_t count);

#endif
