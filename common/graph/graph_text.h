/* A graph as text, the only form in which it crosses the link. docs/WIRE.md has the grammar. Each graph has one
 * spelling: sl_graph_read accepts only the bytes that sl_graph_write makes of the same graph. Thread-safe. */
#ifndef SL_GRAPH_GRAPH_TEXT_H
#define SL_GRAPH_GRAPH_TEXT_H

#include "common/graph/graph.h"

enum { SL_GRAPH_TEXT_MAX = 256 << 10 };

/* Hands the text to `put`, piece by piece. */
void sl_graph_write(const struct sl_graph *g, void (*put)(void *arg, const char *text, size_t len), void *arg);
/* `text` may be a peer's, and need not end with a NUL. Its length, bytes and lines are checked before anything is
 * allocated. LIMIT: too long, or too many lines; CONFIG: an invalid graph, with the key "node NAME" if a node is to
 * blame; PROTOCOL: another spelling; NOMEM. On errors *g is unchanged. */
enum sl_err sl_graph_read(struct sl_graph *g, const char *text, size_t len, struct sl_fail *fail) SL_MUST_CHECK;

#endif
