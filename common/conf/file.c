/* Configs from files. */
#include <stdlib.h>

#include "common/base/buf.h"
#include "common/conf/key.h"

enum sl_err sl_conf_read(const char *path, uint8_t **text, size_t *len, struct sl_fail *fail)
{
	struct sl_fail why;
	enum sl_err err = sl_file_read(path, SL_CONF_MAX_BYTES, text, len, &why);

	/* a text that is too long is a fault of the config, not of a peer */
	return err ? sl_fail_set(fail, err == SL_ERR_LIMIT ? SL_ERR_CONFIG : err, "%s", why.text) : SL_OK;
}

enum sl_err sl_conf_load(const struct sl_conf_schema *schema, void *out, const char *path, const char *const *set,
			 int n_set, struct sl_fail *fail)
{
	uint8_t *text;
	size_t len;
	enum sl_err err = sl_conf_read(path, &text, &len, fail);

	if (err)
		return err;
	err = sl_conf_parse(schema, out, path, (const char *)text, len, set, n_set, fail);
	free(text);
	return err;
}
