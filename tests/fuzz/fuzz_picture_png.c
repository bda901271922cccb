/* Any bytes as a PNG, with corrected checksums of its chunks: picture_target.h. */
#include "tests/fuzz/picture_target.h"

/* PNG's CRC-32. */
static uint32_t checksum(const uint8_t *bytes, size_t n)
{
	uint32_t c = 0xffffffffu;

	for (size_t i = 0; i < n; i++) {
		c ^= bytes[i];
		for (int k = 0; k < 8; k++)
			c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
	}
	return ~c;
}

static void mend(uint8_t *bytes, size_t len)
{
	for (size_t at = 8; at + 12 <= len;) {
		const size_t n = (size_t)bytes[at] << 24 | (size_t)bytes[at + 1] << 16 | (size_t)bytes[at + 2] << 8 |
				 bytes[at + 3];
		uint32_t c;

		if (n > len - at - 12)
			return;
		c = checksum(bytes + at + 4, n + 4);
		for (int i = 0; i < 4; i++)
			bytes[at + 8 + n + (size_t)i] = (uint8_t)(c >> (24 - 8 * i));
		at += n + 12;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return picture_target(data, size, "\x89PNG\r\n\x1a\n", 8, mend);
}
