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

/* Gives an earlier record that says otherwise another name: the first of config.yaml.1, … that is free. */
static enum sl_err put_aside(const char *path, struct sl_fail *fail)
{
	char to[PATH_MAX + 8];
	int n = 1;

	while (snprintf(to, sizeof to, "%s.%d", path, n), n < RECORDS_MOST && access(to, F_OK) == 0)
		n++;
	if (n == RECORDS_MOST || rename(path, to) != 0)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "%.200s: the record there cannot become %d.yaml", path, n);
	sl_log(SL_LOG_INFO, "record", "%s says otherwise than this run, and is %s now", path, strrchr(to, '/') + 1);
	return SL_OK;
}

static enum sl_err keep(const char *path, const char *all, struct sl_fail *fail)
{
	uint8_t *old = NULL;
	size_t len;
	enum sl_err err = SL_OK;

	if (access(path, F_OK) == 0)
		err = sl_file_read(path, SL_CONF_MAX_BYTES, &old, &len, fail);
	if (!err && old && strncmp((const char *)old, mark, sizeof mark - 1) != 0)
		err = sl_fail_set(fail, SL_ERR_CANTCREATE, "%.200s is no record of a run, and stays", path);
	else if (!err && old && strcmp((const char *)old, all) != 0)
		err = put_aside(path, fail);
	if (!err && (!old || strcmp((const char *)old, all) != 0))
		err = sl_newfile_put(path, 0600, SL_FP_NONE, all, strlen(all), fail);
	free(old);
	return err;
}

bool sl_record_keep(const struct sl_conf_client *conf, const char *text, const char *about)
{
	char path[PATH_MAX], *all = NULL;
	size_t len;
	FILE *to = text && conf->log.dir[0] ? open_memstream(&all, &len) : NULL;
	struct sl_fail fail;
	bool kept;

	if (!to)
		return false;
	fputs(mark, to);
	print_data(to, about);
	fputs(text, to);
	kept = !fclose(to) && !sl_log_dir_path(path, conf, SL_RECORD_FILE, &fail) && !keep(path, all, &fail);
	if (!kept)
		sl_log(SL_LOG_WARN, "record-missed", "log.dir has no record of this run: %s", fail.text);
	free(all);
	return kept;
}
