/* Any bytes as a WebP: picture_target.h. */
#include "tests/fuzz/picture_target.h"

static void mend(uint8_t *bytes, size_t len)
{
	const uint32_t rest = (uint32_t)(len - 8);

	if (len >= 12)
		memcpy(bytes + 8, "WEBP", 4);
	for (int i = 0; i < 4; i++)
		bytes[4 + i] = (uint8_t)(rest >> 8 * i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return picture_target(data, size, "RIFF\0\0\0\0", 8, mend);
}
