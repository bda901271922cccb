#include "common/conf/check.h"
#include "common/conf/check_keys.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/guard.h"

static const char *say(char why[SL_CONF_WHY], const char *wanted, const char *got)
{
	return sl_conf_say(why, why, "%.248s, got \"%.60s\"", wanted, got);
}

/* Splits tcp://host:port; the host may be [IPv6]. `least` is the lowest port that will do. */
static bool split_address(const char *text, int least, char host[SL_CONF_TEXT])
{
	const char *start = text + 6, *colon;
	size_t len;

	if (strncmp(text, "tcp://", 6) != 0)
		return false;
	colon = strrchr(start, ':');
	if (!colon || colon == start || strlen(colon + 1) > 5 || strlen(colon + 1) < 1 ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1))
		return false;
	if (atoi(colon + 1) < least || atoi(colon + 1) > 65535)
		return false;
	len = (size_t)(colon - start);
	if (start[0] == '[' ? start[len - 1] != ']' : memchr(start, ':', len) != NULL)
		return false;
	for (size_t i = 0; i < len; i++)
		if (isspace((unsigned char)start[i]) || strchr("/;@", start[i]))
			return false;
	snprintf(host, SL_CONF_TEXT, "%.*s", (int)len, start);
	return true;
}

const char *sl_conf_check_server(const void *value, char why[SL_CONF_WHY])
{
	char host[SL_CONF_TEXT];

	if (split_address(value, 1, host) && strcmp(host, "*") != 0)
		return NULL;
	return say(why, "must be tcp://host:port with a port from 1 to 65535, such as tcp://127.0.0.1:5570", value);
}

bool sl_conf_number(const char *text, const char *end, double most, double *out)
{
	char *stop;

	*out = strtod(text, &stop);
	return end > text && stop == end && strspn(text, "0123456789.eE+-") >= (size_t)(end - text) && *text != '-' &&
	       *out >= 0 && *out <= most;
}

bool sl_conf_is_loopback(const char *address)
{
	char host[SL_CONF_TEXT];
	struct in_addr in;

	if (!split_address(address, 0, host))
		return false;
	if (strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0)
		return true;
	/* other text would be looked up as a name, which may be anybody's */
	return inet_pton(AF_INET, host, &in) == 1 && ntohl(in.s_addr) >> 24 == IN_LOOPBACKNET;
}

const char *sl_conf_check_listen(const void *value, char why[SL_CONF_WHY])
{
	char host[SL_CONF_TEXT];

	if (split_address(value, 0, host))
		return NULL;
	return say(why, "must be tcp://host:port, such as tcp://127.0.0.1:5570 (port 0: any free one)", value);
}

/* Accepts an address or localhost, but neither other names nor `*`: the config must show who can read the metrics. */
const char *sl_conf_check_metrics(const void *value, char why[SL_CONF_WHY])
{
	char address[SL_CONF_TEXT + 8], host[SL_CONF_TEXT];
	struct in6_addr in;
	size_t len;

	if (!*(const char *)value)
		return NULL;
	snprintf(address, sizeof address, "tcp://%s", (const char *)value);
	if (split_address(address, 0, host)) {
		len = strlen(host);
		if (strcmp(host, "localhost") == 0 || inet_pton(AF_INET, host, &in) == 1)
			return NULL;
		host[len - 1] = 0; /* [IPv6] */
		if (host[0] == '[' && inet_pton(AF_INET6, host + 1, &in) == 1)
			return NULL;
	}
	return say(why, "must be ADDRESS:PORT, such as 127.0.0.1:9570 or [::1]:9570 (port 0: any free one)", value);
}

const char *sl_conf_check_partition(const void *value, char why[SL_CONF_WHY])
{
	int head, tail, used = 0;
	const char *text = value;

	if (strspn(text, "0123456789:-") == strlen(text) && strlen(text) < 16 &&
	    sscanf(text, "%5d:%5d%n", &head, &tail, &used) == 2 && !text[used])
		return NULL;
	return say(why, "must be two whole numbers of units, the second negative, such as \"1:-1\"", value);
}

const char *sl_conf_check_file_name(const void *value, char why[SL_CONF_WHY])
{
	const char *text = value;

	if (*text && !strchr(text, '/') && strcmp(text, ".") != 0 && strcmp(text, "..") != 0)
		return NULL;
	return say(why, "must be names of files in data.dir, without a folder", text);
}

#define NAME(name) name,
#define WORD(name) name ", "
#define LAST(name) name
#define METRICS                \
	SL_CLASS_METRICS(WORD) \
	SL_LABEL_METRICS(WORD) SL_PIXEL_METRICS(WORD) "or of numbers " SL_NUMBER_METRICS(WORD, LAST)

const char *sl_conf_check_metric(const void *value, char why[SL_CONF_WHY])
{
	static const char *const known[] = {SL_CLASS_METRICS(NAME) SL_LABEL_METRICS(NAME) SL_PIXEL_METRICS(NAME)
						    SL_NUMBER_METRICS(NAME, NAME)};

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (strcmp(value, known[i]) == 0)
			return NULL;
	return say(why, "must be " METRICS, value);
}

const char *sl_conf_check_best(const void *value, char why[SL_CONF_WHY])
{
	if (!*(const char *)value || strcmp(value, "loss") == 0 || !sl_conf_check_metric(value, why))
		return NULL;
	return say(why, "must be loss, " METRICS, value);
}

const char *sl_conf_check_word(const void *value, char why[SL_CONF_WHY])
{
	return *(const char *)value ? NULL : say(why, "must not be empty", "");
}

const char *sl_conf_check_share(const void *value, char why[SL_CONF_WHY])
{
	const char *name = value;
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	if (strlen(name) < SL_CONF_SHARE_TEXT && strspn(name, allowed) == strlen(name))
		return NULL;
	return say(why, "must be a name of at most 31 letters, digits and . _ -", name);
}

const char *sl_conf_check_batches(const void *value, char why[SL_CONF_WHY])
{
	const char *text = value;
	const size_t digits = strspn(text, "0123456789");

	if (digits && digits < 10 && !text[digits] && text[0] != '0')
		return NULL;
	return say(why, "must be whole numbers from 1 on, such as [100, 30, 70]", text);
}

const char *sl_conf_check_parts(const void *value, char why[SL_CONF_WHY])
{
	struct sl_conf_parts parts;

	if (sl_conf_parts_read(value, &parts))
		return NULL;
	return say(why, "must be files, iid, by_label, batch or dirichlet:ALPHA, such as dirichlet:0.3", value);
}

bool sl_conf_parts_read(const char *text, struct sl_conf_parts *out)
{
	static const char *const name[] = {"files", "iid", "by_label", "batch"};
	static const char dirichlet[] = "dirichlet:";
	char *end;

	for (int i = 0; i < (int)(sizeof name / sizeof name[0]); i++)
		if (strcmp(text, name[i]) == 0) {
			*out = (struct sl_conf_parts){(enum sl_conf_parts_kind)i, 0};
			return true;
		}
	if (strncmp(text, dirichlet, sizeof dirichlet - 1) != 0 || !isdigit((unsigned char)text[sizeof dirichlet - 1]))
		return false;
	*out = (struct sl_conf_parts){SL_PARTS_DIRICHLET, strtod(text + sizeof dirichlet - 1, &end)};
	return !*end && out->alpha >= 0.001 && out->alpha <= 1e6;
}

const char *sl_conf_check_codec(const void *value, char why[SL_CONF_WHY])
{
	const char *text = value;

	if (*text && !strpbrk(text, " \t"))
		return NULL;
	return say(why, "must be a codec without blanks, such as none, quant:8 or topk:0.2|quant:8", text);
}

const char *sl_conf_check_insert(const void *value, char why[SL_CONF_WHY])
{
	if (!strpbrk(value, " \t"))
		return NULL;
	return say(why, "must be layers without blanks, such as conv:20,k=3,s=3 or conv:320+conv:40", value);
}

const char *sl_conf_check_client_device(const void *value, char why[SL_CONF_WHY])
{
	return strcmp(value, "cpu") == 0 ? NULL : say(why, "must be cpu", value);
}

const char *sl_conf_check_server_device(const void *value, char why[SL_CONF_WHY])
{
	const char *text = value;

	if (strcmp(text, "auto") == 0 || strcmp(text, "cpu") == 0)
		return NULL;
	if (strncmp(text, "cuda:", 5) == 0 && text[5] && strlen(text) <= 7 &&
	    strspn(text + 5, "0123456789") == strlen(text + 5))
		return NULL;
	return say(why, "must be auto, cpu or cuda:N with N from 0 to 99", text);
}

/* Makes `path` absolute, without "." and "..", but does not resolve symbolic links: the same words always give the
 * same path. */
static void absolute(const char *path, char out[PATH_MAX])
{
	char whole[2 * PATH_MAX] = "", *rest = whole, *part;
	size_t len = 0;

	if (path[0] != '/' && !getcwd(whole, PATH_MAX))
		whole[0] = 0;
	snprintf(whole + strlen(whole), sizeof whole - strlen(whole), "/%s", path);
	while ((part = strsep(&rest, "/"))) {
		if (strcmp(part, "..") == 0)
			while (len > 0 && out[--len] != '/')
				;
		else if (*part && strcmp(part, ".") != 0 && len + strlen(part) + 2 < PATH_MAX)
			len += (size_t)sprintf(out + len, "/%s", part);
	}
	out[len] = 0;
}

/* FNV-1a: short, and good enough for the few runs of one user. */
static uint64_t tag_of(const char *folder)
{
	char path[PATH_MAX];
	uint64_t h = 0xcbf29ce484222325u;

	absolute(folder, path);
	for (const char *c = path; *c; c++)
		h = (h ^ (uint8_t)*c) * 0x100000001b3u;
	return h;
}

bool sl_conf_default_control(char control[SL_CONF_SOCKET_PATH], const char *name, const char *run)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	char tag[20] = "", own[40];
	struct stat st;

	if (control[0])
		return true;
	if (run)
		snprintf(tag, sizeof tag, "-%016llx", (unsigned long long)tag_of(run));
	snprintf(own, sizeof own, "/run/user/%u", (unsigned)geteuid());
	if (!dir || dir[0] != '/')
		dir = access("/run/split", W_OK) == 0 ? "/run/split" : own;
	if (dir == own && (lstat(own, &st) != 0 || st.st_uid != geteuid()))
		sl_guard_own_folder(own, sizeof own);
	return snprintf(control, SL_CONF_SOCKET_PATH, "%s/%s%s.sock", dir, name, tag) < SL_CONF_SOCKET_PATH;
}

const char *sl_conf_check_weight(const void *value, char why[SL_CONF_WHY])
{
	const char *text = value;
	char *end;
	const double x = strtod(text, &end);

	if (strcmp(text, "none") == 0 || strcmp(text, "balanced") == 0 || (end != text && !*end && x > 0 && x <= 1e6))
		return NULL;
	return say(why, "must be none, balanced, or a number above 0 for each class, such as [1, 5]", text);
}
