/* Any bytes as the log of a group in a checkpoint. A log that is read has ranges and returns in order: it counts and
 * tells its list, a cut leaves a log, and written again it is read as the same. */
#include <stdlib.h>
#include <string.h>

#include "server/group/group_log.h"

enum { STEPS_MOST = 1 << 12 };

static void must(bool good)
{
	if (!good)
		abort();
}

/* A list has an item for each step in which a member was late: so only short logs are told. */
static void tell(const struct sl_group_log *log)
{
	struct sl_buf text = {0};

	for (int k = 0; k < SL_CONF_SHARE_CLIENTS; k++)
		must(sl_group_log_missed(log, k) <= log->end);
	if (log->end > STEPS_MOST)
		return;
	must(sl_group_log_text(log, 3, &text) == SL_OK);
	must(strspn((char *)text.data, "0123456789:-@,") == text.len);
	free(text.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sl_group_log log = {0}, again = {0};
	struct sl_buf out = {malloc(size + 1), 0, size + 1};
	size_t used = 0, used_again = 0;

	if (sl_group_log_read(&log, (struct sl_bytes){data, size}, &used)) {
		free(out.data);
		return 0;
	}
	must(used <= size);
	tell(&log);
	must(out.data);
	must(sl_group_log_write(&log, &out) == SL_OK && out.len == used && out.len == sl_group_log_size(&log));
	must(memcmp(out.data, data, used) == 0);
	sl_group_log_cut(&log, log.end / 2);
	tell(&log);
	out.len = 0;
	must(sl_group_log_write(&log, &out) == SL_OK);
	must(sl_group_log_read(&again, (struct sl_bytes){out.data, out.len}, &used_again) == SL_OK);
	sl_group_log_close(&again);
	sl_group_log_close(&log);
	free(out.data);
	return 0;
}
