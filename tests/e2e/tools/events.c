/* Prints the records of event files, a line each: `FILE version V`, `FILE start STEP`, `FILE STEP TAG VALUE`, `FILE cut
 * off`. FILE is the file's number in the order given. Exit status 1 if a file is damaged. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/buf.h"
#include "tests/support/events.h"

static int print(int number, const char *path)
{
	enum event_read read;
	struct event_bytes left;
	struct event event;
	struct sl_fail fail;
	uint8_t *data;
	size_t len;

	if (sl_file_read(path, 1 << 30, &data, &len, &fail) != SL_OK) {
		fprintf(stderr, "events: %s\n", fail.text);
		return 1;
	}
	left = (struct event_bytes){data, len};
	while ((read = event_next(&left, &event)) == EVENT_READ) {
		if (event.version[0])
			printf("%d version %s\n", number, event.version);
		if (event.start)
			printf("%d start %" PRIu64 "\n", number, event.step);
		for (int i = 0; i < event.n; i++)
			printf("%d %" PRIu64 " %s %.9g\n", number, event.step, event.value[i].tag,
			       (double)event.value[i].value);
	}
	if (read == EVENT_CUT_OFF)
		printf("%d cut off\n", number);
	free(data);
	return read == EVENT_BAD;
}

int main(int argc, char **argv)
{
	int bad = 0;

	for (int i = 1; i < argc; i++)
		bad |= print(i, argv[i]);
	return bad;
}
