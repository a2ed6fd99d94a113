// SPDX-License-Identifier: Apache-2.0 OR MIT
// Sends the output of a design to standard error, because standard output belongs to riser.
#include <stdio.h>
#define VL_PRINTF(...) fprintf(stderr, __VA_ARGS__)
