/* Networks from one safetensors file, which has a graph and its weights, as `splitc export` and split.write_network
 * write it. Two notes of its metadata describe the network (docs/howto-networks.md):
 *
 *   split.graph    the graph (graph_text.h), from "image", "row" or "tokens", or from several named inputs, to a loss;
 *                  the loss of the config's task replaces it
 *   split.network  a JSON object: what the graph's text does not say
 *
 * A file is untrusted: a malformed one is DATA, and one that does not suit the config is CONFIG. Error texts begin with
 * the path. */
#ifndef SL_CLIENT_MODEL_NETWORK_FILE_H
#define SL_CLIENT_MODEL_NETWORK_FILE_H

#include "client/model/source.h"
#include "common/weights/safetensors.h"

/* `input`: of several, the one whose sizes are meant; NULL: the first. CONFIG: there is none of that name. */
enum sl_err sl_network_file_sizes(struct sl_model_sizes *out, const char *path, const char *input,
				  struct sl_fail *fail) SL_MUST_CHECK;
/* In how many rows of tables the network looks up each number of this input, as its note says: *out [*n], malloc'ed.
 * 0: it computes with the number. NULL: it looks up none. */
enum sl_err sl_network_file_rooms(int **out, int *n, const char *path, const char *input,
				  struct sl_fail *fail) SL_MUST_CHECK;
/* Opens spec->network and builds its network. Errors without a key of their own get the key model.network. */
enum sl_err sl_network_file_open(struct sl_model **out, const struct sl_model_spec *spec,
				 struct sl_fail *fail) SL_MUST_CHECK;
/* The same for an open file called `name`. */
enum sl_err sl_network_file_build(struct sl_model **out, const struct sl_st_file *file, const char *name,
				  const struct sl_model_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;

/* The notes of a file with the weights of a model without adapters. Inserts are left out. `takes`: of the model's
 * config. */
enum { SL_NETWORK_NOTES = 2 };
enum sl_err sl_network_notes_make(struct sl_st_note note[SL_NETWORK_NOTES], const struct sl_model *model,
				  const struct sl_model_takes *takes, struct sl_fail *fail) SL_MUST_CHECK;
void sl_network_notes_free(struct sl_st_note note[SL_NETWORK_NOTES]); /* a zeroed one is fine */

#endif
