/* Any bytes as DICOM: picture_target.h. The module must lie beside this program; DCMTK itself is not instrumented. */
#include "tests/fuzz/picture_target.h"

enum { DICM_AT = 128 };

static void mend(uint8_t *bytes, size_t len)
{
	if (len >= DICM_AT + 4)
		memcpy(bytes + DICM_AT, "DICM", 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return picture_target(data, size, "", 0, mend);
}
