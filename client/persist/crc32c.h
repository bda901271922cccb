/* CRC-32C (Castagnoli; RFC 3720, appendix B.4). It works bit by bit, which is fast enough for records of some hundred
 * bytes. */
#ifndef SL_CLIENT_PERSIST_CRC32C_H
#define SL_CLIENT_PERSIST_CRC32C_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t sl_crc32c(const void *data, size_t len)
{
	const uint8_t *at = data;
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < len; i++) {
		crc ^= at[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

#endif
