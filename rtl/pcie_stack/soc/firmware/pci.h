/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Enumeration of the hierarchy below the root complex. */
#pragma once
#include "soc.h"

struct function {
    uint32_t id;             /* device and vendor ID */
    uintptr_t config;        /* its ECAM address */
    uint32_t bar[6];         /* assigned address, or 0 */
    uint32_t bar_bytes[6];
};

/* Waits until the link of the root port is up. Returns 0 if it stays down. */
int pci_link_up(void);
/* Numbers buses, sizes and assigns BARs and windows, and enables memory and bus mastering in bridges. Returns the number of functions in `found`. */
int pci_enumerate(struct function *found, int most);
/* Offset of a capability of configuration space, or 0. */
uint32_t pci_capability(uintptr_t config, uint8_t id);
