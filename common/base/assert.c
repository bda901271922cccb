#include "common/base/assert.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/version.h"

#define REMEDY "this is a fault of Split " SL_VERSION ": start again, what is on disk is whole; and report this line"

void sl_assert_failed(const char *file, int line, const char *condition)
{
	sl_log_write(SL_LOG_ERROR, "assertion", "%s:%d: %s does not hold; " REMEDY, file, line, condition);
	abort();
}

void sl_assert_differs(const char *file, int line, const char *condition, int64_t a, int64_t b)
{
	sl_log_write(SL_LOG_ERROR, "assertion", "%s:%d: %s does not hold (%" PRId64 ", %" PRId64 "); " REMEDY, file,
		     line, condition, a, b);
	abort();
}
