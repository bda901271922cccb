/* A log that shows changes. Each line holds the hash of the line before it (BLAKE2b, 16 bytes, as 32 hex digits). So
 * the hash of the last line, the log's head, depends on all lines. It has no key: whoever can rewrite the whole log can
 * make another chain. Pure functions; any thread. */
#ifndef SL_LINK_CHAIN_H
#define SL_LINK_CHAIN_H

#include <stddef.h>

#include "common/base/err.h"

enum { SL_CHAIN_TEXT = 33 }; /* 32 digits and NUL */

/* The head of an empty log: zeros. */
void sl_chain_begin(char head[SL_CHAIN_TEXT]);
/* The head after this line, which is given without its line feed. */
void sl_chain_next(char head[SL_CHAIN_TEXT], const char *line, size_t len);
/* The hash of a file's bytes. NOINPUT, IO. */
enum sl_err sl_chain_file(char hash[SL_CHAIN_TEXT], const char *path, struct sl_fail *fail) SL_MUST_CHECK;

#endif
