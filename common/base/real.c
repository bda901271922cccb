#include "common/base/real.h"

#include <pthread.h>

static locale_t with_point;

static void make(void)
{
	with_point = newlocale(LC_NUMERIC_MASK, "C", duplocale(LC_GLOBAL_LOCALE));
}

locale_t sl_real_locale(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make);
	return with_point;
}
