#include "common/base/grow.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST = 256 };

bool sl_grow(void *list, size_t *cap, size_t need, size_t each)
{
	size_t more = *cap ? *cap : FIRST;
	void *at;

	if (need <= *cap)
		return true;
	while (more < need)
		more *= 2;
	memcpy(&at, list, sizeof at);
	at = realloc(at, more * each);
	if (!at)
		return false;
	memcpy(list, &at, sizeof at);
	*cap = more;
	return true;
}
