// SPDX-License-Identifier: Apache-2.0 OR MIT
// What a design prints goes to standard error: standard output is riser's.
#include <stdio.h>
#define VL_PRINTF(...) fprintf(stderr, __VA_ARGS__)
