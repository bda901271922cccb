/* Errors by their numbers on the wire (docs/WIRE.md). Numbers are never reused; the order of enum sl_err may change. */
#ifndef SL_LINK_WIRE_ERRORS_H
#define SL_LINK_WIRE_ERRORS_H

#include <stdint.h>

#include "common/base/err.h"

uint32_t sl_wire_number(uint32_t err);   /* 0: none */
uint32_t sl_wire_error(uint32_t number); /* SL_ERR_OK: no error has this number */

#endif
