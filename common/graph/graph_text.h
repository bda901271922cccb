/* A graph as text, the only form in which it crosses the link. docs/WIRE.md has the grammar. There is one spelling:
 * what is read must be the very bytes that writing the graph again gives. Thread-safe. */
#ifndef SL_GRAPH_GRAPH_TEXT_H
#define SL_GRAPH_GRAPH_TEXT_H

#include "common/graph/graph.h"

enum { SL_GRAPH_TEXT_MAX = 256 << 10 };

/* Hands the text to `put`, piece by piece. */
void sl_graph_write(const struct sl_graph *g, void (*put)(void *arg, const char *text, size_t len), void *arg);
/* `text` may be a peer's, and need not end with a NUL. Length, bytes and lines are counted before anything is
 * allocated. LIMIT: too long, too many lines; CONFIG: no such graph, with the key "node NAME" where a node is to blame;
 * PROTOCOL: not spelled like that. *g is untouched then. */
enum sl_err sl_graph_read(struct sl_graph *g, const char *text, size_t len, struct sl_fail *fail) SL_MUST_CHECK;

#endif
