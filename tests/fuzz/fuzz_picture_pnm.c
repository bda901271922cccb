/* Any bytes as a PPM or PGM: picture_target.h. */
#include "tests/fuzz/picture_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return picture_target(data, size, size % 2 ? "P6" : "P5", 2, NULL);
}
