/* SHA-256 (FIPS 180-4), for fingerprints. */
#ifndef SL_BASE_SHA256_H
#define SL_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SL_SHA256_BYTES = 32 };

void sl_sha256(const void *data, size_t len, uint8_t digest[SL_SHA256_BYTES]);

#endif
