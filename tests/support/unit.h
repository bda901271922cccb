/* What every program of cmocka includes. cmocka.h needs the four headers above it. */
#ifndef SL_TESTS_SUPPORT_UNIT_H
#define SL_TESTS_SUPPORT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#endif
