#include "server/trunk/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/wrap.h"

enum { NEED_TEXT = 240, NAME = 16 };

#define ADVICE    "take a smaller batch, another cut or other codecs"
#define COME_BACK "come back when others have ended, or "
#define RAISE     ", or raise limits.memory_bytes or MemoryMax= on the server"

enum sl_err sl_memory_reserve(_Atomic uint64_t *used, uint64_t limit, uint64_t bytes, const char *what,
			      struct sl_fail *fail)
{
	const uint64_t taken = atomic_load(used), left = taken > limit ? 0 : limit - taken;
	char one[SL_BYTES_TEXT], two[SL_BYTES_TEXT];

	if (limit && bytes > left)
		return sl_fail_set(fail, bytes > limit ? SL_ERR_LIMIT : SL_ERR_BUSY,
				   "%s needs %" PRIu64 " bytes (%s); %" PRIu64 " of %" PRIu64 " are free (%s): %stake "
				   "another cut" RAISE,
				   what, bytes, sl_bytes_text(bytes, one), left, limit, sl_bytes_text(left, two),
				   bytes > limit ? "" : COME_BACK);
	atomic_fetch_add(used, bytes);
	return SL_OK;
}

/* "1234 bytes on cpu (1.2 kB: weights 1200, activations 20, codecs 10, payloads 4)" */
static void describe(char out[NEED_TEXT], const struct sl_session_memory *m, const struct sl_backend *be,
		     const char *device)
{
	struct sl_memory sum = sl_session_memory_sum(m);
	const char *end = strstr(device, ": "); /* "cuda:0: NVIDIA …": only the name before the hardware */
	int name = end ? (int)(end - device) : (int)strlen(device);
	char apart[32] = "", unit[SL_BYTES_TEXT];

	if (!be->host_memory)
		snprintf(apart, sizeof apart, ", %" PRIu64 " of them", sum.device);
	snprintf(out, NEED_TEXT,
		 "%" PRIu64 " bytes%s on %.*s (%s: weights %" PRIu64 ", activations %" PRIu64 ", codecs %" PRIu64
		 ", payloads %" PRIu64 ")",
		 sl_memory_total(sum), apart, name < NAME ? name : NAME, device,
		 sl_bytes_text(sl_memory_total(sum), unit), sl_memory_total(m->weights),
		 sl_memory_total(m->activations), sl_memory_total(m->codecs), sl_memory_total(m->payloads));
}

enum sl_err sl_session_memory_check(const struct sl_session_memory *m, struct sl_backend *be, const char *device,
				    uint64_t limit, uint64_t used, struct sl_memory back, struct sl_fail *fail)
{
	struct sl_memory sum = sl_session_memory_sum(m);
	uint64_t returned = sl_memory_total(back), taken = used > returned ? used - returned : 0;
	uint64_t need = sl_memory_total(sum), left = taken > limit ? 0 : limit - taken, host = sl_host_bytes(), all;
	char text[NEED_TEXT], one[SL_BYTES_TEXT], two[SL_BYTES_TEXT];

	describe(text, m, be, device);
	if (limit && need > left)
		return sl_fail_set(fail, need > limit ? SL_ERR_LIMIT : SL_ERR_BUSY,
				   "the session needs %s; %" PRIu64 " of %" PRIu64
				   " are free (%s of %s): %s" ADVICE RAISE,
				   text, left, limit, sl_bytes_text(left, one), sl_bytes_text(limit, two),
				   need > limit ? "" : COME_BACK);
	if (sum.host > host)
		return sl_fail_set(fail, SL_ERR_LIMIT, "the session needs %s; the host has %" PRIu64 " (%s): " ADVICE,
				   text, host, sl_bytes_text(host, one));
	if (!be->ops->free_bytes || be->ops->free_bytes(be, &left, &all) != SL_OK)
		return SL_OK;
	left = back.device < all - left ? left + back.device : all;
	if (sum.device <= left)
		return SL_OK;
	if (sum.device > all)
		return sl_fail_set(fail, SL_ERR_LIMIT, "the session needs %s; the device has %" PRIu64 " (%s): " ADVICE,
				   text, all, sl_bytes_text(all, one));
	return sl_fail_set(fail, SL_ERR_BUSY,
			   "the session needs %s; the device has %" PRIu64 " free of %" PRIu64
			   " (%s of %s): " COME_BACK ADVICE,
			   text, left, all, sl_bytes_text(left, one), sl_bytes_text(all, two));
}
