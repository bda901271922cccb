#include "client/persist/record.h"

#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "client/persist/model_file.h"
#include "common/base/buf.h"
#include "common/base/log.h"
#include "common/base/newfile.h"
#include "common/base/text.h"
#include "common/conf/options.h"

enum { RECORDS_MOST = 100, COMMAND_MOST = 1 << 17 };

static const char mark[] =
	"# Record of a run, by splitc. `splitc train` with this file repeats it, with another log.dir "
	"or --fresh, and with the options of its command.\n";

/* Writes a remark on one line: nothing in it begins another line, which would be a key. */
static void print_line(FILE *to, const char *text)
{
	for (; *text; text++)
		fputc((unsigned char)*text < ' ' || *text == 127 ? '?' : *text, to);
}

/* Writes the command line as a shell takes it. */
static void print_command(FILE *to)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
	char *line = calloc(1, COMMAND_MOST + 1);
	const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	const ssize_t len = line && fd >= 0 ? read(fd, line, COMMAND_MOST) : -1;

	for (ssize_t at = 0; at < len; at += (ssize_t)strlen(line + at) + 1) {
		const char *word = line + at;
		const bool bare = *word && !word[strspn(word, plain)];

		fputs(bare ? " " : " '", to);
		for (char one[2] = {*word}; *word; one[0] = *++word)
			print_line(to, *word == '\'' ? "'\\''" : one);
		fputs(bare ? "" : "'", to);
	}
	if (fd >= 0)
		close(fd);
	free(line);
}

char *sl_record_text(const struct sl_conf_client *conf)
{
	char *text = NULL, folder[PATH_MAX];
	size_t len;
	FILE *to = open_memstream(&text, &len);
	struct utsname host;

	if (!to)
		return NULL;
	fputs("# command:", to);
	print_command(to);
	fputs("\n# in: ", to);
	print_line(to, getcwd(folder, sizeof folder) ? folder : "?");
	if (uname(&host) == 0)
		fprintf(to, "\n# on: %s, %s %s, %s", host.nodename, host.sysname, host.release, host.machine);
	fprintf(to, "\n# with: %s\n\n", sl_command_version());
	if (sl_conf_print(&sl_conf_client_schema, conf, to) != SL_OK || fclose(to) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static void print_data(FILE *to, const char *about)
{
	static const char *const part[] = {"train", "test"};
	json_t *root = about ? json_loads(about, 0, NULL) : NULL;
	const char *before = "# data: ";

	for (int i = 0; i < 2; i++) {
		const json_t *p = json_object_get(root, part[i]);

		if (p)
			fprintf(to, "%s%s %" JSON_INTEGER_FORMAT " samples, fingerprint %s", before, part[i],
				json_integer_value(json_object_get(p, "samples")),
				json_string_value(json_object_get(p, "fingerprint")));
		before = p ? "; " : before;
	}
	fputs(before[0] == ';' ? "\n" : "", to);
	json_decref(root);
}

/* Reads the file of that number; NULL: there is none, or it cannot be read. *own: it is no record. */
static char *read_one(const struct sl_conf_client *conf, int number, char path[PATH_MAX], bool *own,
		      struct sl_fail *fail)
{
	char name[32];
	uint8_t *text = NULL;
	size_t len;

	snprintf(name, sizeof name, number ? "config-%d.yaml" : "config.yaml", number);
	*own = sl_log_dir_path(path, conf, name, fail) != SL_OK;
	if (*own || access(path, F_OK) != 0)
		return NULL;
	*own = sl_file_read(path, SL_CONF_MAX_BYTES, &text, &len, fail) != SL_OK ||
	       strncmp((const char *)text, mark, sizeof mark - 1) != 0;
	return (char *)text;
}

/* Of a record with the settings `body`: adds `head`, unless it is there. */
static enum sl_err add(const char *path, const char *old, const char *head, const char *body, struct sl_fail *fail)
{
	char *text = NULL;
	enum sl_err err;

	if (old && strstr(old, head))
		return SL_OK;
	if ((old ? asprintf(&text, "%s%s", old, head) : asprintf(&text, "%s%s%s", mark, head, body)) < 0)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the record of a run");
	err = sl_newfile_put(path, 0600, SL_FP_NONE, text, strlen(text), fail);
	free(text);
	return err;
}

void sl_record_keep(const struct sl_conf_client *conf, const char *text, const char *about)
{
	const char *body = text ? strstr(text, "\n\n") : NULL;
	struct sl_fail fail = {.text = "there are too many files config-N.yaml"};
	enum sl_err err = SL_ERR_CANTCREATE;
	char path[PATH_MAX], *head = NULL;
	size_t len;
	FILE *to = body && conf->log.dir[0] ? open_memstream(&head, &len) : NULL;
	bool own = true;

	if (!to)
		return;
	body++; /* an empty line, and the settings */
	fprintf(to, "%.*s", (int)(body - text), text);
	print_data(to, about);
	fclose(to);
	for (int i = 0; i < RECORDS_MOST && own; i++) {
		char *old = read_one(conf, i, path, &own, &fail);
		const char *settings = old && !own ? strstr(old, "\n\n") : NULL;

		own = own || (old && (!settings || strncmp(settings + 1, body, strlen(body)) != 0));
		if (!own)
			err = add(path, old, head, body, &fail);
		if (!own && !err && !old && i)
			sl_log(SL_LOG_INFO, "record", "%s has this run's settings: those in config.yaml differ", path);
		free(old);
	}
	free(head);
	if (err)
		sl_log(SL_LOG_WARN, "record-missed", "log.dir has no record of this run's settings: %s", fail.text);
}

void sl_record_remove(const struct sl_conf_client *conf)
{
	for (int i = 0; i < RECORDS_MOST; i++) {
		char path[PATH_MAX];
		struct sl_fail fail;
		bool own;
		char *old = read_one(conf, i, path, &own, &fail);

		if (old && !own)
			(void)!unlink(path);
		free(old);
	}
}
