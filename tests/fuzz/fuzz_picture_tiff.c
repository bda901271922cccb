/* Any bytes as a TIFF, of either byte order: picture_target.h. */
#include "tests/fuzz/picture_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return picture_target(data, size, size % 2 ? "II*\0" : "MM\0*", 4, NULL);
}
