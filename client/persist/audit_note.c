#include "client/persist/audit_note.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "client/persist/model_file.h"
#include "common/base/assert.h"
#include "common/base/log.h"
#include "common/base/newfile.h"

/* Counts that a file may have: room for each audit of a run is left above them. */
static const uint64_t most_begun = (uint64_t)1 << 62;

enum { NOTE_TEXT = 6 * 21 + SL_KEY_TEXT + 2 + SL_AUDIT_KNOWN * 2 * 21 };

/* Of the audits that have begun some have ended, and one at most is owed. */
static bool counts_fit(const struct sl_audit_note *n)
{
	return n->begun <= most_begun && n->ended <= n->begun && n->owed <= 1 && n->owed <= n->begun - n->ended;
}

enum sl_err sl_audit_note_read(struct sl_audit_note *note, const struct sl_conf_client *conf, struct sl_fail *fail)
{
	char path[PATH_MAX], key[SL_KEY_TEXT] = "", end = 0;
	struct sl_audit_note n = {.begun = 0};
	enum sl_err err = SL_OK;
	FILE *f;

	*note = n;
	if (!conf->log.dir[0])
		return SL_OK;
	err = sl_log_dir_path(path, conf, SL_AUDIT_NOTE, fail);
	if (err)
		return err;
	f = fopen(path, "r");
	if (!f)
		return errno == ENOENT ? SL_OK : sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", path, strerror(errno));
	if (fscanf(f, "%20" SCNu64 " %20" SCNu64 " %20" SCNu64 " %20" SCNu64 " %20" SCNu64 " %20" SCNu64 " %40s%c",
		   &n.begun, &n.ended, &n.in_row, &n.owed, &n.expects, &n.hash, key, &end) != 8 ||
	    end != '\n' || !sl_key_parse(&n.secret, key, strlen(key)) || !counts_fit(&n))
		err = sl_fail_set(fail, SL_ERR_DATA,
				  "%s is damaged: remove it, and the run forgets which audits it has begun", path);
	for (int i = 0; i < SL_AUDIT_KNOWN && !err; i++)
		if (fscanf(f, "%20" SCNu64 " %20" SCNu64, &n.known[i].step, &n.known[i].hash) != 2) {
			n.known[i].step = 0;
			break;
		}
	fclose(f);
	if (!err)
		*note = n;
	return err;
}

void sl_audit_note_write(const struct sl_audit_note *n, const struct sl_conf_client *conf)
{
	char path[PATH_MAX], key[SL_KEY_TEXT], text[NOTE_TEXT];
	struct sl_fail why;
	size_t len;

	sl_assert_int(n->owed, <=, 1); /* as the next process reads it */
	sl_assert_int(n->ended + n->owed, <=, n->begun);
	if (!conf->log.dir[0])
		return;
	sl_key_print(&n->secret, key);
	len = (size_t)snprintf(text, sizeof text,
			       "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", n->begun,
			       n->ended, n->in_row, n->owed, n->expects, n->hash, key);
	for (int i = 0; i < SL_AUDIT_KNOWN; i++)
		if (n->known[i].step)
			len += (size_t)snprintf(text + len, sizeof text - len, "%" PRIu64 " %" PRIu64 "\n",
						n->known[i].step, n->known[i].hash);
	if (sl_log_dir_path(path, conf, SL_AUDIT_NOTE, &why) || sl_newfile_put(path, 0600, SL_FP_NONE, text, len, &why))
		sl_log(SL_LOG_WARN, "audit-note", "%s: if this process is killed, the run forgets that an audit is due",
		       why.text);
}

void sl_audit_note_know(struct sl_audit_note *n, uint64_t step, uint64_t hash)
{
	struct sl_audit_known *at = &n->known[0];

	for (int i = 0; i < SL_AUDIT_KNOWN; i++) {
		if (n->known[i].step < at->step)
			at = &n->known[i];
		if (n->known[i].step == step) {
			at = &n->known[i];
			break;
		}
	}
	*at = (struct sl_audit_known){step, hash};
	sl_assert_if(step, sl_audit_note_find(n, step) == at); /* each step has one place */
}

bool sl_audit_note_back(struct sl_audit_note *n, uint64_t step)
{
	bool any = false;

	for (int i = 0; i < SL_AUDIT_KNOWN; i++)
		if (n->known[i].step > step) {
			n->known[i].step = 0;
			any = true;
		}
	return any;
}

const struct sl_audit_known *sl_audit_note_find(const struct sl_audit_note *n, uint64_t step)
{
	for (int i = 0; i < SL_AUDIT_KNOWN; i++)
		if (step && n->known[i].step == step)
			return &n->known[i];
	return NULL;
}
