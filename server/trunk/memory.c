#include "server/trunk/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/wrap.h"

enum { NEED_TEXT = 260, NAME = 16 };

#define ADVICE "take a smaller batch, another cut or other codecs"

/* The words for a budget, by whether it is a part: of one client's key. */
static const struct {
	const char *owner, *come_back, *raise;
} words[2] = {
	{"", "come back when others have ended, or ", "limits.memory_bytes or MemoryMax="},
	{" for this client's key", "come back when other sessions of this key have ended, or ",
	 "limits.memory_bytes_per_key"},
};

/* LIMIT, BUSY: `budget` has too little room for `need`, which `what` names; `advice`: how to need less. */
static enum sl_err refuse(const struct sl_budget *budget, const char *what, uint64_t need, uint64_t left,
			  const char *advice, struct sl_fail *fail)
{
	const bool part = budget->whole;
	const uint64_t limit = atomic_load(&budget->limit);
	char one[SL_BYTES_TEXT], two[SL_BYTES_TEXT];

	return sl_fail_set(fail, need > limit ? SL_ERR_LIMIT : SL_ERR_BUSY,
			   "%s; %" PRIu64 " of %" PRIu64 " are free%s (%s of %s): %s%s, or raise %s on the server",
			   what, left, limit, words[part].owner, sl_bytes_text(left, one), sl_bytes_text(limit, two),
			   need > limit ? "" : words[part].come_back, advice, words[part].raise);
}

enum sl_err sl_memory_reserve(struct sl_charge *charge, struct sl_budget *budget, uint64_t more, const char *what,
			      struct sl_fail *fail)
{
	const uint64_t back = charge->budget == budget ? charge->bytes : 0, need = charge->bytes + more;
	const struct sl_budget *lacks = sl_budget_lacks(budget, need, back);
	char text[NEED_TEXT], unit[SL_BYTES_TEXT];

	if (lacks) {
		snprintf(text, sizeof text, "%s needs %" PRIu64 " bytes (%s)", what, more, sl_bytes_text(more, unit));
		return refuse(lacks, text, need, sl_budget_left(lacks, 0), "take another cut", fail);
	}
	sl_charge_set(charge, budget, need);
	return SL_OK;
}

/* "the session needs 1234 bytes on cpu (1.2 kB: weights 1200, activations 20, codecs 10, payloads 4)" */
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
		 "the session needs %" PRIu64 " bytes%s on %.*s (%s: weights %" PRIu64 ", activations %" PRIu64
		 ", codecs %" PRIu64 ", payloads %" PRIu64 ")",
		 sl_memory_total(sum), apart, name < NAME ? name : NAME, device,
		 sl_bytes_text(sl_memory_total(sum), unit), sl_memory_total(m->weights),
		 sl_memory_total(m->activations), sl_memory_total(m->codecs), sl_memory_total(m->payloads));
}

enum sl_err sl_session_memory_check(const struct sl_session_memory *m, struct sl_backend *be, const char *device,
				    const struct sl_budget *budget, struct sl_memory back, struct sl_fail *fail)
{
	struct sl_memory sum = sl_session_memory_sum(m);
	const uint64_t need = sl_memory_total(sum), returned = sl_memory_total(back), host = sl_host_bytes();
	const struct sl_budget *lacks = sl_budget_lacks(budget, need, returned);
	char text[NEED_TEXT], one[SL_BYTES_TEXT], two[SL_BYTES_TEXT];
	uint64_t left, all;

	describe(text, m, be, device);
	if (lacks)
		return refuse(lacks, text, need, sl_budget_left(lacks, returned), ADVICE, fail);
	if (sum.host > host)
		return sl_fail_set(fail, SL_ERR_LIMIT, "%s; the host has %" PRIu64 " (%s): " ADVICE, text, host,
				   sl_bytes_text(host, one));
	if (!be->ops->free_bytes || be->ops->free_bytes(be, &left, &all) != SL_OK)
		return SL_OK;
	left = back.device < all - left ? left + back.device : all;
	if (sum.device <= left)
		return SL_OK;
	if (sum.device > all)
		return sl_fail_set(fail, SL_ERR_LIMIT, "%s; the device has %" PRIu64 " (%s): " ADVICE, text, all,
				   sl_bytes_text(all, one));
	return sl_fail_set(fail, SL_ERR_BUSY,
			   "%s; the device has %" PRIu64 " free of %" PRIu64 " (%s of %s): %s" ADVICE, text, left, all,
			   sl_bytes_text(left, one), sl_bytes_text(all, two), words[false].come_back);
}
