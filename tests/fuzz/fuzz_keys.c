/* Key files from an unknown source: as a pair, as a public key, and as the server's list of clients. An
 * accepted key is written and loads again as the same. No error message contains a secret. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/link/gate.h"
#include "common/link/key.h"

enum { Z85 = SL_KEY_TEXT - 1 };

static void must(bool good)
{
	if (!good)
		abort();
}

static void check_text(const struct sl_fail *fail)
{
	must(fail->text[0] && !strchr(fail->text, '\n'));
}

static void as_pair(const char *path)
{
	static char made[] = "/dev/shm/fuzz_keys.XXXXXX";
	static bool named;
	struct sl_keypair pair, again;
	struct sl_fail fail = {0};

	if (sl_keypair_load(&pair, path, &fail) != SL_OK) {
		check_text(&fail);
		return;
	}
	if (!named) {
		must(mkdtemp(made) != NULL);
		must(rmdir(made) == 0);
		named = true;
	}
	must(sl_keypair_save(&pair, made, &fail) == SL_OK);
	must(sl_keypair_save(&pair, made, &fail) == SL_ERR_CANTCREATE);
	must(sl_keypair_load(&again, made, &fail) == SL_OK);
	must(memcmp(&pair, &again, sizeof pair) == 0);
	unlink(made);
}

static void as_public(const char *path)
{
	struct sl_key key, again;
	struct sl_fail fail = {0};
	char text[SL_KEY_TEXT];

	if (sl_key_load_public(&key, path, &fail) != SL_OK) {
		check_text(&fail);
		return;
	}
	sl_key_print(&key, text);
	must(strlen(text) == Z85 && sl_key_parse(&again, text, Z85) && sl_key_equal(&key, &again));
}

/* Returns the length of the line before the word group=…, which a line of the list may have. */
static size_t without_groups(const char *line, size_t len)
{
	for (size_t i = 1; i < len; i++) {
		if (!isspace((unsigned char)line[i - 1]))
			continue;
		if (line[i] == '#')
			return len;
		if (len - i >= 6 && memcmp(line + i, "group=", 6) == 0)
			return i;
	}
	return len;
}

/* The list has every key of every line under that line's name, and no others. */
static void as_list(const char *data, size_t size)
{
	struct sl_allow *allow = NULL;
	struct sl_fail fail = {0};
	int keys = 0;

	if (sl_allow_parse(&allow, "clients", data, size, &fail) != SL_OK) {
		check_text(&fail);
		return;
	}
	for (size_t at = 0; at < size;) {
		const char *eol = memchr(data + at, '\n', size - at), *why;
		size_t len = eol ? (size_t)(eol - data) - at : size - at;
		char name[SL_KEY_NAME];
		struct sl_key key;

		if (sl_key_read_line(data + at, without_groups(data + at, len), &key, name, &why) == SL_KEY_LINE_KEY) {
			must(sl_allow_name(allow, &key) && strcmp(sl_allow_name(allow, &key), name) == 0);
			keys++;
		}
		at += len + 1;
	}
	must(keys == sl_allow_count(allow));
	sl_allow_free(allow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static char path[64];

	if (fd < 0) {
		fd = memfd_create("key", 0);
		must(fd >= 0 && fchmod(fd, 0600) == 0);
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	}
	must(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	as_pair(path);
	as_public(path);
	as_list((const char *)data, size);
	return 0;
}
