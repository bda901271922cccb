/* Heads of HTTP requests. A verdict never changes when more bytes come. Only a complete head
 * without control characters is a request. A head of the maximal length always has an answer. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/link/request.h"

static void must(int good)
{
	if (!good)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *head = malloc(size + 1); /* of its exact size, so that reading past it is noticed */
	int known = 0;
	size_t at = 0;

	memcpy(head, data, size);
	for (size_t len = 0; len <= size; len += len < 600 ? 1 : size - len < 97 ? 1 : 97) {
		int status = sl_request_status(head, len, "/metrics");

		must(!known || status == known);
		if (status && !known)
			at = len;
		known = status;
	}
	must(known || size < SL_REQUEST_MAX);
	must(known == 0 || known == 200 || known == 400 || known == 404 || known == 405 || known == 431);
	if (known == 200) {
		must(at >= 23 && (memcmp(head, "GET /metrics", 12) == 0 || strncasecmp(head, "GET http://", 11) == 0));
		must(at < 600 ? head[at - 1] == '\n' && !memchr(head, 0, at) : 1);
	}
	must(!sl_request_is_head(head, size) || known != 200);
	free(head);
	return 0;
}
