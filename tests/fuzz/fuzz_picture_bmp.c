/* Any bytes as a BMP: picture_target.h. */
#include "tests/fuzz/picture_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return picture_target(data, size, "BM", 2, NULL);
}
