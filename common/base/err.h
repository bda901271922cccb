/* Errors: one map of code, name, sysexits status and sentence. Every fallible function returns enum sl_err,
 * leaves its outputs untouched on failure, and says more in a caller-owned struct sl_fail where it takes one. */
#ifndef SL_BASE_ERR_H
#define SL_BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>

/*  name         exit  sentence */
#define SL_ERR_MAP(X)                                              \
	X(OK, 0, "success")                                        \
	X(USAGE, 64, "wrong command line")                         \
	X(DATA, 65, "malformed or truncated input data")           \
	X(PAYLOAD, 65, "malformed codec payload")                  \
	X(NONFINITE, 65, "NaN or Inf in a tensor")                 \
	X(NOINPUT, 66, "input file missing or unreadable")         \
	X(UNAVAILABLE, 69, "service or device unavailable")        \
	X(PEER_LOST, 69, "peer lost")                              \
	X(TIMEOUT, 69, "timed out")                                \
	X(BUG, 70, "internal error")                               \
	X(NOMEM, 71, "out of memory")                              \
	X(OS, 71, "operating system error")                        \
	X(CANTCREATE, 73, "cannot create output")                  \
	X(IO, 74, "input/output error")                            \
	X(DEVICE, 75, "device error")                              \
	X(BUSY, 75, "temporarily refused")                         \
	X(PROTOCOL, 76, "protocol violation")                      \
	X(VERSION, 76, "protocol version mismatch")                \
	X(LIMIT, 76, "limit exceeded")                             \
	X(AUTH, 77, "not authorised")                              \
	X(CONFIG, 78, "configuration error")                       \
	X(MISMATCH, 78, "the two sides disagree")                  \
	X(AUDIT, 79, "the server computed something else")         \
	X(UNMET, 80, "a member of the group took part too little") \
	X(SPENT, 81, "the privacy budget is spent")

enum sl_err {
#define X(name, exit_status, text) SL_ERR_##name,
	SL_ERR_MAP(X)
#undef X
		SL_ERR_COUNT
};
#define SL_OK SL_ERR_OK

#define SL_MUST_CHECK        __attribute__((warn_unused_result))
#define SL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

enum { SL_FAIL_TEXT = 512, SL_FAIL_KEY = 104 };

/* The end of a word behind a number: "%d step%s". */
static inline const char *sl_plural(long long n)
{
	return n == 1 ? "" : "s";
}

/* What went wrong: `text` is one line, without a newline. The caller owns the struct. `key` names what is to blame:
 * a key of the config ("train.chunks"), a node of the network ("node features.1.conv"), or "" for neither. `text`
 * begins with the key: "train.chunks: at most 256". */
struct sl_fail {
	enum sl_err code;
	char key[SL_FAIL_KEY];
	char text[SL_FAIL_TEXT];
};

const char *sl_err_name(enum sl_err err); /* "CONFIG"; "?" out of range */
const char *sl_err_text(enum sl_err err); /* the sentence of the map */
int sl_err_exit_status(enum sl_err err);  /* sysexits.h value; 0 for OK */

/* Text of a peer or a file must not forge a second line or move the cursor. Returns the length in bytes of the
 * character at text[0], or 0 if it is a control character (U+0080 to U+009F included) or not valid UTF-8. */
size_t sl_text_character(const char *text, size_t len);
/* Whether sl_text_character accepts every character. */
bool sl_text_is_safe(const char *text, size_t len);
/* Replaces each byte that sl_text_character does not accept with `instead`. */
void sl_text_make_safe(char *text, char instead);

/* Fills *fail (which may be NULL) and returns `code`, so that `return sl_fail_set(f, …)` reads as one statement. */
enum sl_err sl_fail_set(struct sl_fail *fail, enum sl_err code, const char *fmt, ...) SL_PRINTF(3, 4);

/* Like sl_fail_set, with the key that is to blame. The format is that of the sentence after the key. */
enum sl_err sl_fail_at(struct sl_fail *fail, const char *key, enum sl_err code, const char *fmt, ...) SL_PRINTF(4, 5);

/* The text without its key; the whole text if there is no key. */
const char *sl_fail_sentence(const struct sl_fail *fail);

#endif
