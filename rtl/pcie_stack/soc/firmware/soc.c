/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Console, and the end of the simulation. */
#include "soc.h"

void finish(int status)
{
    write32(FINISH, status);
    for (;;)
        ;
}

void print(const char *text)
{
    while (*text)
        write8(UART, *text++);
}

void print_hex(uint64_t value, int digits)
{
    while (digits--)
        write8(UART, "0123456789abcdef"[value >> 4 * digits & 15]);
}

void print_decimal(uint64_t value)
{
    if (value >= 10)
        print_decimal(value / 10);
    write8(UART, '0' + value % 10);
}
