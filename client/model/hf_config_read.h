/* Shared by the readers of config.json. Private to hf_config.c and hf_config_decoder.c. */
#ifndef SL_CLIENT_MODEL_HF_CONFIG_READ_H
#define SL_CLIENT_MODEL_HF_CONFIG_READ_H

#include <jansson.h>
#include <stddef.h>

#include "client/model/hf_config.h"

struct sl_hf_reader {
	const char *name; /* of the file or object that is read, for errors */
	const json_t *root;
	struct sl_fail *fail;
};

/* A key, the offset of the member that gets its value, its bounds, and its default; NAN: the key is required. */
struct sl_hf_key {
	const char *key;
	size_t offset;
	bool real;
	double least, most, standard;
};

/* The member; NULL where it is missing or null. */
const json_t *sl_hf_member(const struct sl_hf_reader *r, const char *key);
/* Writes a double or an int to `out` + the key's offset. DATA: it is missing or no number; CONFIG: out of bounds. */
enum sl_err sl_hf_read_number(const struct sl_hf_reader *r, const struct sl_hf_key *k, void *out) SL_MUST_CHECK;
/* Refuses keys that would make another network. unknown: the first key that is neither in `read` nor known to change
 * nothing; "": there is none. */
enum sl_err sl_hf_check_keys(const struct sl_hf_reader *r, const struct sl_hf_key *read,
			     char unknown[SL_NAME_MAX]) SL_MUST_CHECK;
/* Copies a text for messages, without control characters and bytes that are not ASCII. */
void sl_hf_plain(char *to, size_t cap, const char *text);
/* Reads eos_token_id, one number or a list. Without that key out->end stays. */
enum sl_err sl_hf_read_ends(const struct sl_hf_reader *r, struct sl_hf_config *out) SL_MUST_CHECK;
/* Reads what modernbert has beside the keys of its family. */
enum sl_err sl_hf_read_modern(const struct sl_hf_reader *r, struct sl_hf_config *out) SL_MUST_CHECK;
/* Reads what decoders have beside the keys of their family. */
enum sl_err sl_hf_read_decoder(const struct sl_hf_reader *r, struct sl_hf_config *out) SL_MUST_CHECK;

#endif
