#include "common/link/request.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The unread rest of a head, or of a line. */
struct rest {
	const char *at;
	size_t len;
};

/* The characters of methods and field names (RFC 9110: tchar). */
static bool is_token(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_visible(char c)
{
	return c > ' ' && c < 0x7f;
}

/* Removes the longest prefix of such bytes from *r, and returns it. */
static struct rest take(struct rest *r, bool (*is)(char c))
{
	struct rest taken = {r->at, 0};

	while (taken.len < r->len && is(taken.at[taken.len]))
		taken.len++;
	r->at += taken.len;
	r->len -= taken.len;
	return taken;
}

static bool take_text(struct rest *r, const char *text)
{
	size_t len = strlen(text);

	if (r->len < len || memcmp(r->at, text, len) != 0)
		return false;
	r->at += len;
	r->len -= len;
	return true;
}

static bool is_text(struct rest r, const char *text)
{
	return take_text(&r, text) && r.len == 0;
}

/* Control characters are legal in no line, not even in an incomplete one. */
static bool has_control(struct rest r)
{
	for (size_t i = 0; i < r.len; i++) {
		unsigned char c = (unsigned char)r.at[i];

		if (c == 0x7f || (c < ' ' && c != '\t' && c != '\r' && c != '\n'))
			return true;
	}
	return false;
}

/* Removes a line from *r; *line is without its end. False: there is no complete one. */
static bool take_line(struct rest *r, struct rest *line)
{
	const char *end = r->len ? memchr(r->at, '\n', r->len) : NULL;

	if (!end)
		return false;
	*line = (struct rest){r->at, (size_t)(end - r->at)};
	r->at += line->len + 1;
	r->len -= line->len + 1;
	if (line->len && line->at[line->len - 1] == '\r')
		line->len--;
	return true;
}

struct request {
	struct rest method, path;
	int minor; /* of the version, HTTP/1.minor */
	int hosts; /* number of Host fields */
};

/* Removes "http://host:9570" from an absolute target, as proxies send it; which host it names does not matter here.
 * False: not a valid target (RFC 9112 3.2). */
static bool drop_host(struct rest *target)
{
	static const char scheme[] = "http://";
	size_t at = sizeof scheme - 1;

	if (target->len && target->at[0] == '/')
		return true;
	if (target->len <= at || strncasecmp(target->at, scheme, at) != 0 || target->at[at] == '/' ||
	    target->at[at] == '?')
		return false;
	while (at < target->len && target->at[at] != '/' && target->at[at] != '?')
		at++;
	target->at += at;
	target->len -= at;
	return true;
}

/* Reads a request line, as "GET /metrics HTTP/1.1". */
static bool read_first(struct rest line, struct request *out)
{
	struct rest target;
	const char *query;

	out->method = take(&line, is_token);
	if (!out->method.len || !take_text(&line, " "))
		return false;
	target = take(&line, is_visible);
	if (!drop_host(&target) || !take_text(&line, " HTTP/1."))
		return false;
	if (line.len != 1 || line.at[0] < '0' || line.at[0] > '9')
		return false;
	query = target.len ? memchr(target.at, '?', target.len) : NULL;
	out->path = (struct rest){target.at, query ? (size_t)(query - target.at) : target.len};
	out->minor = line.at[0] - '0';
	return true;
}

/* Reads a field line, as "Host: localhost:9570". */
static bool read_field(struct rest line, struct request *out)
{
	struct rest name = take(&line, is_token);

	out->hosts += name.len == 4 && strncasecmp(name.at, "host", 4) == 0;
	return name.len && take_text(&line, ":") && !memchr(line.at, '\r', line.len);
}

int sl_request_status(const char *head, size_t len, const char *path)
{
	struct request request = {.hosts = 0};
	struct rest rest = {head, len < SL_REQUEST_MAX ? len : SL_REQUEST_MAX}, line;
	bool first = true;

	while (take_line(&rest, &line)) {
		if (has_control(line))
			return 400;
		if (!first && !line.len) {
			if (request.hosts > 1 || (request.minor && !request.hosts))
				return 400;
			if (!is_text(request.path, path))
				return 404;
			return is_text(request.method, "GET") ? 200 : 405;
		}
		if (!(first ? read_first(line, &request) : read_field(line, &request)))
			return 400;
		first = false;
	}
	if (has_control(rest))
		return 400;
	return len < SL_REQUEST_MAX ? 0 : 431;
}

/* The value of a Host field without blanks and port: "[::1]" as "::1". */
static void read_host(struct rest value, char out[SL_REQUEST_NAME])
{
	const char *end;
	size_t len;

	while (value.len && !is_visible(*value.at))
		value.at++, value.len--;
	if (take_text(&value, "["))
		end = memchr(value.at, ']', value.len);
	else
		end = memchr(value.at, ':', value.len);
	len = end ? (size_t)(end - value.at) : value.len;
	while (len && !is_visible(value.at[len - 1]))
		len--;
	snprintf(out, SL_REQUEST_NAME, "%.*s", (int)len, value.at);
}

bool sl_request_is_for(const char *head, size_t len, const char (*name)[SL_REQUEST_NAME], int n)
{
	struct rest rest = {head, len < SL_REQUEST_MAX ? len : SL_REQUEST_MAX}, line;
	char host[SL_REQUEST_NAME];
	struct in6_addr in;

	(void)take_line(&rest, &line);
	while (take_line(&rest, &line) && line.len) {
		struct request field = {.hosts = 0};
		bool ours;

		if (!read_field(line, &field) || !field.hosts)
			continue;
		read_host((struct rest){line.at + 5, line.len - 5}, host);
		ours = inet_pton(AF_INET, host, &in) == 1 || inet_pton(AF_INET6, host, &in) == 1 ||
		       strcasecmp(host, "localhost") == 0;
		for (int i = 0; i < n && !ours; i++)
			ours = strcasecmp(host, name[i]) == 0;
		return ours;
	}
	return true;
}

bool sl_request_is_head(const char *head, size_t len)
{
	return len >= 5 && memcmp(head, "HEAD ", 5) == 0;
}
