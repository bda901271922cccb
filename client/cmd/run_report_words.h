/* What names in a report mean, for readers who do not know them. Any thread. */
#ifndef SL_CLIENT_CMD_RUN_REPORT_WORDS_H
#define SL_CLIENT_CMD_RUN_REPORT_WORDS_H

#include <stdbool.h>

/* The tensors that cross; name NULL: no more. sent: to the server. */
extern const struct sl_report_tensor {
	const char *name, *means;
	bool sent;
} sl_report_tensors[];
/* A word of servers_word (docs/OUTPUT.md) as a sentence. */
const char *sl_report_word(const char *word);

#endif
