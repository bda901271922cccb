/* Config text from an unknown source. The first byte chooses the schema. A config that loads must
 * print as text that loads again and prints the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/conf.h"

static char *print(const struct sl_conf_schema *schema, const void *conf)
{
	char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);

	if (!file || sl_conf_print(schema, conf, file) != SL_OK)
		abort();
	fclose(file);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static union {
		struct sl_conf_client client;
		struct sl_conf_server server;
	} conf;
	const struct sl_conf_schema *schema;
	struct sl_fail fail = {0};
	const char *required[] = {"model.name=m", "data.dir=d"};
	char *one, *two;
	int n_set;

	if (size < 1)
		return 0;
	schema = data[0] % 2 ? &sl_conf_server_schema : &sl_conf_client_schema;
	n_set = data[0] % 2 ? 0 : 2;
	if (sl_conf_parse(schema, &conf, "fuzz", (const char *)data + 1, size - 1, required, n_set, &fail) != SL_OK) {
		if (!fail.text[0] || strchr(fail.text, '\n'))
			abort();
		return 0;
	}
	one = print(schema, &conf);
	if (sl_conf_parse(schema, &conf, "again", one, strlen(one), NULL, 0, &fail) != SL_OK) {
		fprintf(stderr, "%s\n%s", fail.text, one);
		abort();
	}
	two = print(schema, &conf);
	if (strcmp(one, two) != 0)
		abort();
	free(one);
	free(two);
	return 0;
}
