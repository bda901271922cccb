/* LD_PRELOAD: an OpenBLAS that does not know the CPU, and has the kernels of Prescott where the environment names no
 * others. */
#include <stdlib.h>

char *openblas_get_corename(void)
{
	char *core = getenv("OPENBLAS_CORETYPE");

	return core ? core : "Prescott";
}
