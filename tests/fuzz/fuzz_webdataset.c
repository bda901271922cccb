/* Any bytes as a tar file of samples, with corrected checksums of its headers: source_target.h. */
#include "tests/fuzz/source_target.h"

#include <string.h>

enum { BLOCK = 512, SIZE_AT = 124, SUM_AT = 148, MOST = 1 << 16 };

/* Corrects the checksum of every block that is a header if each size before is right. */
static void mend(uint8_t *tar, size_t len)
{
	for (size_t at = 0; at + BLOCK <= len; at += BLOCK) {
		uint8_t *block = tar + at;
		char size[13] = "", text[8];
		unsigned sum = 0;

		if (!block[0])
			continue;
		memset(block + SUM_AT, ' ', 8);
		for (int i = 0; i < BLOCK; i++)
			sum += block[i];
		snprintf(text, sizeof text, "%06o", sum);
		memcpy(block + SUM_AT, text, 7);
		memcpy(size, block + SIZE_AT, 12);
		at += (strtoul(size, NULL, 8) % MOST + BLOCK - 1) / BLOCK * BLOCK;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t tar[MOST];

	if (size > sizeof tar)
		return 0;
	memcpy(tar, data, size);
	mend(tar, size);
	source_put("train.tar", tar, size);
	source_read("webdataset", SL_SPLIT_TRAIN);
	return 0;
}
